"""Declared tables: which columns, under which titles; as strings and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphtemper_research.harness.frame import Row, grouped

# The strings of one table, row by row, under the headings of its columns.
Cells = list[dict[str, str]]


@dataclass(frozen=True)
class Column:
    """A column: a key of the rows or a function of a row, its heading, how numbers are written.

    ``missing`` stands where a row has no value.

    Examples
    --------
    >>> Column("ece", "ECE", ".3f").text({"ece": 0.0312})
    '0.031'
    >>> Column("nll", "NLL", ".3f", missing="inf").text({"nll": None})
    'inf'
    """

    value: str | Callable[[Row], Any]
    heading: str = ""
    spec: str = ""
    missing: str = ""

    @property
    def name(self) -> str:
        """The heading, by default the key."""
        return self.heading or str(self.value)

    def text(self, row: Row) -> str:
        """Return the value of one row as a string."""
        value = row[self.value] if isinstance(self.value, str) else self.value(row)
        if value is None:
            return self.missing
        return format(value, self.spec) if isinstance(value, float | np.floating) else str(value)


def _all(rows: Sequence[Row]) -> Sequence[Row]:
    return rows


@dataclass(frozen=True)
class Table:
    """A table of some rows; rows with different titles stand in different tables.

    Parameters
    ----------
    title
        A format string such as ``"{model}: {group}"``, or a function of a row.
    columns
        What to show.
    rows
        Which rows to show, or what to make of them; all as they are by default.
    """

    title: str | Callable[[Row], str]
    columns: Sequence[Column]
    rows: Callable[[Sequence[Row]], Sequence[Row]] = _all

    def render(self, rows: Sequence[Row]) -> dict[str, Cells]:
        """Return the strings of every table by title.

        Examples
        --------
        >>> rows = [{"model": "SIGN", "ece": 0.25}, {"model": "GCN", "ece": 0.5}]
        >>> Table("model {model}", [Column("ece", "ECE", ".1f")]).render(rows)
        {'model SIGN': [{'ECE': '0.2'}], 'model GCN': [{'ECE': '0.5'}]}
        """
        tables: dict[str, Cells] = {}
        for row in self.rows(rows):
            title = self.title.format_map(row) if isinstance(self.title, str) else self.title(row)
            line = {column.name: column.text(row) for column in self.columns}
            tables.setdefault(title, []).append(line)
        return tables


def render_tables(
    tables: Sequence[Table], sections: Sequence[str], rows: Sequence[Row]
) -> dict[str, Cells]:
    """Return all tables by title, section by section: rows that differ in these keys."""
    return {
        title: cells
        for section in grouped(rows, *sections).values()
        for table in tables
        for title, cells in table.render(section).items()
    }


def markdown(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table.

    Examples
    --------
    >>> markdown([{"graph": "cora", "ECE": "0.031"}])
    ['| graph | ECE |', '| --- | --- |', '| cora | 0.031 |']
    """
    if not rows:
        return ["Nothing was measured."]
    head = list(rows[0])
    body = [" | ".join(str(value).replace("|", "\\|") for value in row.values()) for row in rows]
    return [f"| {line} |" for line in (" | ".join(head), " | ".join("---" for _ in head), *body)]


def interval(row: Row) -> str:
    """Return a row's interval.

    Examples
    --------
    >>> interval({"low": 0.412, "high": 0.579})
    '0.41-0.58'
    """
    return f"{row['low']:.2f}-{row['high']:.2f}"


def listed(value: Any) -> str:
    """Return a setting as a string, with commas between the items of a list.

    Examples
    --------
    >>> listed([1, 2]), listed("SIGN")
    ('1, 2', 'SIGN')
    """
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def bar_table(comparisons: Sequence[Mapping[str, Any]]) -> Cells:
    """Return every bar with what was measured and whether it is met; ``-`` is only reported.

    Examples
    --------
    >>> bar = {"quantity": "NLL", "measured": 0.01, "bar": "<= 0.02", "met": True, "note": ""}
    >>> bar_table([bar])
    [{'quantity': 'NLL', 'measured': '0.01', 'bar': '<= 0.02', 'met': 'yes', 'note': ''}]
    """
    return [
        {
            "quantity": item["quantity"],
            "measured": "none" if item["measured"] is None else f"{item['measured']:.4g}",
            "bar": item["bar"],
            "met": {True: "yes", False: "NO", None: "-"}[item["met"]],
            "note": item["note"],
        }
        for item in comparisons
    ]
