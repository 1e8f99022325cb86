"""Rows of measurements: group them, average them, put methods side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
AnyRow = TypeVar("AnyRow", bound=Row)
# Computes one value from the rows of a group.
Aggregate = Callable[[Sequence[Row]], Any]


def flat(cells: Iterable[Mapping[str, Any]], *keys: str) -> Rows:
    """Return the rows of all cells, each with some facts of its cell in front.

    Examples
    --------
    >>> flat([{"seed": 1, "rows": [{"ece": 0.1}]}, {"seed": 2, "rows": [{"ece": 0.3}]}], "seed")
    [{'seed': 1, 'ece': 0.1}, {'seed': 2, 'ece': 0.3}]
    """
    return [{key: cell[key] for key in keys} | row for cell in cells for row in cell["rows"]]


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """Return the values of one key, each once, in the order of their first row.

    Examples
    --------
    >>> distinct([{"seed": 2}, {"seed": 1}, {"seed": 2}], "seed")
    [2, 1]
    """
    return list(dict.fromkeys(row[key] for row in rows))


def select(rows: Iterable[AnyRow], **values: Any) -> list[AnyRow]:
    """Return the rows that have the given values.

    Examples
    --------
    >>> select([{"graph": "cora", "ece": 0.1}, {"graph": "actor", "ece": 0.2}], graph="actor")
    [{'graph': 'actor', 'ece': 0.2}]
    """
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of some keys, in the order of their first row.

    Examples
    --------
    >>> grouped([{"graph": "cora", "seed": 1}, {"graph": "cora", "seed": 2}], "graph")
    {('cora',): [{'graph': 'cora', 'seed': 1}, {'graph': 'cora', 'seed': 2}]}
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def aggregate(rows: Iterable[Row], by: Sequence[str], columns: Mapping[str, Aggregate]) -> Rows:
    """Return one row per group: its keys, and one value per column.

    Examples
    --------
    >>> rows = [{"graph": "cora", "ece": 0.1}, {"graph": "cora", "ece": 0.3}]
    >>> aggregate(rows, ["graph"], {"ece": mean_of("ece"), "targets": len})
    [{'graph': 'cora', 'ece': 0.2, 'targets': 2}]
    """
    return [
        dict(zip(by, values, strict=True))
        | {name: column(group) for name, column in columns.items()}
        for values, group in grouped(rows, *by).items()
    ]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None where there are no values.

    Examples
    --------
    >>> mean([0.5, 1.0]), mean([])
    (0.75, None)
    """
    return float(np.mean(values)) if len(values) else None


def average(rows: Iterable[Row], key: str) -> float:
    """Return the mean of one key over the rows that have a value, or NaN where none has.

    Examples
    --------
    >>> average([{"ece": 0.1}, {"ece": None}], "ece"), average([], "ece")
    (0.1, nan)
    """
    found = mean([row[key] for row in rows if row[key] is not None])
    return math.nan if found is None else found


def mean_of(key: str) -> Aggregate:
    """Return the aggregate that averages one key over the rows that have a value."""
    return lambda rows: mean([row[key] for row in rows if row[key] is not None])


def total_of(key: str) -> Aggregate:
    """Return the aggregate that adds up one key; None where a row has no value."""

    def total(rows: Sequence[Row]) -> float | None:
        values = [row[key] for row in rows]
        return None if None in values else sum(values)

    return total


def extreme_of(key: str, choose: Callable[[Iterable[float]], float]) -> Aggregate:
    """Return the aggregate that takes the ``min`` or the ``max`` of one key."""
    return lambda rows: choose(row[key] for row in rows)


AVERAGE = "average"


def with_averages(
    rows: Iterable[Row],
    by: Sequence[str],
    columns: Mapping[str, Aggregate],
    averages: Mapping[str, Aggregate] | None = None,
) -> tuple[Rows, Rows]:
    """Return one row per group, one of whose keys is "graph", and the averages over graphs.

    ``averages`` holds the columns that are not averaged by their mean.

    Examples
    --------
    >>> rows = [{"graph": "cora", "ece": 0.1}, {"graph": "actor", "ece": 0.5}]
    >>> with_averages(rows, ["graph"], {"ece": mean_of("ece")})[1]
    [{'graph': 'average', 'ece': 0.3}]
    """
    graphs = aggregate(rows, by, columns)
    means = {key: mean_of(key) for key in columns} | dict(averages or {})
    return graphs, aggregate([row | {"graph": AVERAGE} for row in graphs], by, means)


def by_method(rows: Iterable[Row], *keys: str) -> list[tuple[dict[str, Any], dict[str, Row]]]:
    """Return, for every target, the values of the keys that identify it and its rows by method.

    Examples
    --------
    >>> rows = [{"target": "fr", "method": "atlas", "ece": 0.1}]
    >>> by_method(rows, "target")
    [({'target': 'fr'}, {'atlas': {'target': 'fr', 'method': 'atlas', 'ece': 0.1}})]
    """
    return [
        (dict(zip(keys, values, strict=True)), {row["method"]: row for row in group})
        for values, group in grouped(rows, *keys).items()
    ]


def pick(row: Row, *keys: str) -> dict[str, Any]:
    """Return some entries of a row.

    Examples
    --------
    >>> pick({"low": 0.1, "high": 0.2, "ece": 0.3}, "low", "high")
    {'low': 0.1, 'high': 0.2}
    """
    return {key: row[key] for key in keys}
