"""Cells: finished measurements, one small JSON file each, so that a run can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from graphtemper._core.source_digest import NOT_MEASURING, source_digest
from graphtemper._core.threads import one_blas_thread
from graphtemper.card import atlas
from graphtemper_research.harness.outcome import Comparison, write_text
from graphtemper_research.trials.trial import SCORES

Cell = dict[str, Any]
Rows = list[dict[str, Any]]
# Called with the cell's title, environments done and environments in all.
Progress = Callable[[str, int, int], None]
_ALWAYS = ("ece", "accuracy", "nodes")
_NUMBERS = (*_ALWAYS, "temperature", "nll", "estimate", "low", "high")


def finish(
    folder: Path,
    title: str,
    head: Mapping[str, Any],
    expected: Sequence[Mapping[str, Any]],
    measure: Callable[[atlas.Progress | None], Rows],
    progress: Progress | None = None,
) -> Cell:
    """Return a cell from its file, or measure it and write the file.

    Parameters
    ----------
    folder, title
        The file is ``folder/title.json``.
    head
        What the measurement depends on. A file with another head is measured anew.
    expected
        What identifies each row, in order; every row has the `SCORES` besides.
    measure
        Returns the rows; called with a function that shows how far the source card is.
    progress
        Shown the title, environments done and environments in all.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from graphtemper_research.trials.trial import score
    >>> def measure(show):
    ...     print("measuring")
    ...     rows = score(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1]), {})
    ...     return [{"shift": "none"} | row for row in rows]
    >>> expected = [{"shift": "none", "method": "oracle-T"}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = finish(Path(folder), "cora", {"seed": 1}, expected, measure)
    ...     again = finish(Path(folder), "cora", {"seed": 1}, expected, measure)
    measuring
    >>> first == again, first["seed"], first["rows"][0]["accuracy"]
    (True, 1, 0.5)

    A cell remembers the code that measured it; see `outdated`.
    """
    path = folder / f"{title}.json"
    found = stored(path, head, expected)
    if found is None:
        tell = None if progress is None else _titled(progress, title)
        # Environments already run on all cores.
        with one_blas_thread():
            rows = measure(tell)
        found = {**head, "code": code(), "rows": rows}
        write_text(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def _titled(progress: Progress, title: str) -> atlas.Progress:
    return lambda done, total: progress(title, done, total)


def stored(
    path: Path, head: Mapping[str, Any], expected: Sequence[Mapping[str, Any]]
) -> Cell | None:
    """Return a finished cell, or None where it is missing, damaged or of another protocol.

    Examples
    --------
    >>> stored(Path("nowhere.json"), {}, []) is None
    True
    """
    try:
        found: Cell = json.loads(path.read_text("utf-8"))
        whole = all(
            _scored(row) and all(row[key] == wanted[key] for key in wanted)
            for row, wanted in zip(found["rows"], expected, strict=True)
        )
        return found if whole and all(found[key] == head[key] for key in head) else None
    except (
        OSError,
        ValueError,
        OverflowError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return None


def _scored(row: Mapping[str, Any]) -> bool:
    """Whether a row has every score, and numbers where tables add them up."""
    if not row.keys() >= set(SCORES) or (row["low"] is None) != (row["high"] is None):
        return False
    numbers = [row[key] for key in _NUMBERS if row[key] is not None or key in _ALWAYS]
    return all(type(value) in (int, float) and isfinite(value) for value in numbers)


def code() -> str:
    """Return a digest of the library's source, without what measures nothing.

    Examples
    --------
    >>> len(code()), code() == code()
    (12, True)
    """
    return source_digest(NOT_MEASURING)[:12]


def outdated(cells: Sequence[Cell]) -> list[Comparison]:
    """Say in one line how many cells another version of the library measured, if any did.

    They are kept, as most changes change no number; delete their files to measure them again.

    Examples
    --------
    >>> outdated([{"code": code()}])
    []
    """
    count = sum(cell.get("code") != code() for cell in cells)
    what = "cells that another version of the code measured"
    note = f"of {len(cells)}; delete them to measure again"
    return [Comparison(what, count, "reported", None, note=note)] if count else []
