"""Result files, and Markdown tables of averages of their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from graphtemper_research.harness import provenance
from graphtemper_research.harness.frame import Row, grouped, select

NOTHING, SOURCE, BEST = "doing nothing", "source temperature", "best temperature"
REFERENCES = {NOTHING: "ece uncalibrated", SOURCE: "ece source-T"}
ABSENT = "–"
# A cell that begins with a number, perhaps in bold, or has none.
_NUMBER = re.compile(r"\W*(\d|$)")


class Results:
    """The result files of a folder, each read once; a name is a path without its ``.json``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = cache(self._read)

    def _read(self, name: str) -> Any:
        return provenance.load(self.folder / f"{name}.json")

    def rows(self, name: str, **having: Any) -> list[dict[str, Any]]:
        """Return the rows of a result that have some values."""
        return select(self.read(name)["rows"], **having)

    def bar(self, name: str, quantity: str) -> dict[str, Any]:
        """Return the comparison of a quantity."""
        found: list[dict[str, Any]] = select(self.read(name)["comparisons"], quantity=quantity)
        (only,) = found
        return only

    def stamp(self, *names: str) -> str:
        """Say which version and commit measured some results, with links to pages of benches."""
        pages = [name.partition("atlas/")[2] for name in names if name.startswith("atlas/")]
        links = ", ".join(f"[{name}](/results/atlas/{name}.md)" for name in pages)
        words = stamped([self.read(name) for name in names])
        return f"{words[:-1]}: {links}." if links and words else words


def stamped(contents: Iterable[Any]) -> str:
    """Say which version and commit measured the contents of result files.

    Examples
    --------
    >>> stamped([{"measured": {"version": "0.2.0", "commit": "da4b5ac"}}, {}])
    'Measured at 0.2.0 (da4b5ac).'
    """
    stamps = [content.get("measured") for content in contents if isinstance(content, dict)]
    words = dict.fromkeys(f"{one['version']} ({one['commit'][:7]})" for one in stamps if one)
    return f"Measured at {' and '.join(words)}." if words else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right.

    Examples
    --------
    >>> print(table(["graph", "ECE"], [["cora", "0.1"]]))
    | graph | ECE |
    | --- | ---: |
    | cora | 0.1 |
    """
    body = list(rows)
    columns = list(zip(*body, strict=True))[1:]
    marks = ["---:" if all(map(_NUMBER.match, column)) else "---" for column in columns]
    lines = (head, ["---", *marks], *body)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def average(rows: Iterable[Row], key: str) -> float | None:
    """Return the mean of a column over families, or None where no row has a value.

    Examples
    --------
    >>> rows = [{"family": name, "ece": ece} for name, ece in (("a", 0.1), ("a", 0.3), ("b", 0.6))]
    >>> round(average(rows, "ece"), 3), average(rows, "nll")
    (0.4, None)
    """
    having = [{"family": row.get("family"), **row} for row in rows if row.get(key) is not None]
    families = grouped(having, "family").values()
    return mean(mean(float(row[key]) for row in own) for own in families) if having else None


def cell(rows: Iterable[Row], column: str) -> str:
    """Return the average of a column, with three digits or as said after a colon: ``held:.0%``."""
    key, _, spec = column.partition(":")
    value = average(rows, key)
    return ABSENT if value is None else format(value, spec or ".3f")


def grid(
    corner: str, groups: Mapping[str, Sequence[Row]], columns: Mapping[str, str], total: str = ""
) -> str:
    """Return averages: one row per group, and one in bold for all of them if it has a name."""
    body = [[name, *(cell(own, key) for key in columns.values())] for name, own in groups.items()]
    if total:
        everything = [row for own in groups.values() for row in own]
        cells = (total, *(cell(everything, key) for key in columns.values()))
        body.append([f"**{text}**" for text in cells])
    return table([corner, *columns], body)


def by_family(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by family and number of pairs, in alphabetical order."""
    return {
        f"{name} ({len(own)} pairs)": own
        for (name,), own in sorted(grouped(rows, "family").items())
    }


def compared(results: Results, name: str, head: str = "", leave_out: str = "\n") -> str:
    """Return the comparisons of a bench whose quantity begins with a text, as a table."""
    rows = []
    for item in results.read(name)["comparisons"]:
        quantity, goal = item["quantity"], item["bar"].removeprefix("reported")
        if quantity.startswith(head) and leave_out not in quantity:
            quantity = quantity.removeprefix(head)
            quantity = quantity.removeprefix("SIGN, ").removeprefix("SIGN: ")
            value = ABSENT if item["measured"] is None else f"{item['measured']:.3g}"
            goal += ", missed" if item["met"] is False else ""
            cells = (quantity, value, goal, item["note"] or "")
            rows.append([text.replace("|", "\\|") for text in cells])
    return table(["", "measured", "goal", ""], rows)
