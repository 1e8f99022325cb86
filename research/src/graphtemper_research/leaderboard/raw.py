"""The raw rows of the leaderboard: one per cell, target and method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from graphtemper_research.harness.cells import Cell, finished
from graphtemper_research.leaderboard.tasks import SCHEMA

HEAD = ("setting", "graph", "model", "seed", "cpu_seconds", "wall_seconds")
SCORES = ("ece", "noise_floor", "classwise_ece", "nll", "brier", "accuracy", "estimate")
COLUMNS = (*HEAD, "family", "shift", "method", *SCORES)


def raw_rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Return the rows of finished cells, with what identifies their cell.

    Examples
    --------
    >>> cell = {"setting": "known shifts", "graph": "cora", "model": "GCN", "seed": 1}
    >>> cell |= {"cpu_seconds": 9.04, "wall_seconds": 12.0}
    >>> row = dict.fromkeys(("family", "shift", "method", *SCORES))
    >>> raw_rows([cell | {"rows": [row | {"ece": 0.123456789}]}])[0]["ece"]
    0.123457
    """
    return [
        {key: _whole(cell[key]) for key in HEAD}
        | {key: _short(row[key]) for key in COLUMNS[len(HEAD) :]}
        for cell in cells
        for row in cell["rows"]
    ]


def _whole(value: Any) -> Any:
    return round(value) if isinstance(value, float) else value


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def cells_in(out: Path) -> list[Cell]:
    """Return the finished cells in ``out/cells`` that this version of the protocol made."""
    return finished(out, SCHEMA)


def rows_in(out: Path) -> list[dict[str, Any]]:
    """Return the rows of the cells in ``out/cells``."""
    return raw_rows(cells_in(out))


def hours(rows: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """Return the hours that all cells of a table took, of processor and of clock.

    Examples
    --------
    >>> row = dict.fromkeys(HEAD, "") | {"cpu_seconds": 1800, "wall_seconds": 3600}
    >>> hours([row, row, row | {"graph": "cora"}])
    (1.0, 2.0)
    """
    cells = {tuple(row[key] for key in HEAD) for row in rows}
    places = (HEAD.index("cpu_seconds"), HEAD.index("wall_seconds"))
    cpu, wall = (sum(cell[place] for cell in cells) / 3600 for place in places)
    return cpu, wall


def encoded(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows as numbers: words by their place in a list of each column's words.

    Examples
    --------
    >>> encoded([{"method": "b", "ece": 0.5}, {"method": "a", "ece": None}])
    {'columns': ['method', 'ece'], 'words': {'method': ['b', 'a']}, 'rows': [[0, 0.5], [1, None]]}
    """
    columns = list(rows[0]) if rows else []
    words: dict[str, dict[Any, int]] = {name: {} for name in columns if name not in SCORES}
    table = [
        [
            words[name].setdefault(row[name], len(words[name])) if name in words else row[name]
            for name in columns
        ]
        for row in rows
    ]
    return {
        "columns": columns,
        "words": {name: list(places) for name, places in words.items()},
        "rows": table,
    }
