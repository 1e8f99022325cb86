"""Cells: finished measurements, one small JSON file each, so that a run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from graphtemper import errors
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.numeric import one_blas_thread
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.harness.provenance import read_json
from graphtemper_research.harness.uses import key, modules_of

Cell = dict[str, Any]
# Called with steps done and steps in all.
Show = Callable[[int, int], None]
# Called with a title, steps done and steps in all.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Case:
    """One measurement of a bench, with a file of its own.

    Parameters
    ----------
    title
        Names the file and the progress bar.
    head
        What the measurement depends on besides the code. A file with another head is stale.
    measure
        Returns the rows; called with a function that shows progress, or None. Workers can run it
        if it can be pickled.
    """

    title: str
    head: Mapping[str, Any]
    measure: Callable[[Show | None], Rows]


def finished(out: Path, schema: str) -> list[Cell]:
    """Return the cells of a schema in ``out/cells`` whose code is still the same."""
    paths = sorted((out / "cells").glob("*.json"))
    found = [cell for cell in map(_read, paths) if cell.get("schema") == schema and _current(cell)]
    if not found:
        raise errors.empty(f"{out / 'cells'} holds no cell of this code; run the bench first.")
    return found


def _current(cell: Cell) -> bool:
    return "uses" in cell and cell["code"] == key(*cell["uses"])


def _read(path: Path) -> Cell:
    """Read a cell; a damaged or foreign file is named in one sentence."""
    try:
        cell: Cell = read_json(path)
        if not isinstance(cell, dict):
            raise TypeError("a cell is an object")
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise errors.damaged(f"{path} is not a whole cell of a bench; delete it.") from error
    return cell


def finish(case: Case, folder: Path, progress: Progress | None = None) -> Cell:
    """Return a cell from its file ``folder/title.json``, or measure it and write the file.

    A cell is measured again where the code that it uses has changed (`uses`).

    Examples
    --------
    >>> import tempfile
    >>> def measure(show):
    ...     print("measuring")
    ...     return [{"shift": "none", "ece": 0.5}]
    >>> case = Case("cora", {"seed": 1}, measure)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = finish(case, Path(folder))
    ...     again = finish(case, Path(folder))
    measuring
    >>> first == again, first["seed"], first["rows"][0]["ece"]
    (True, 1, 0.5)
    """
    path = folder / f"{case.title}.json"
    cell = stored(path, case)
    if cell is None or not _current(cell):
        show = None if progress is None else _titled(progress, case.title)
        wall, cpu = perf_counter(), process_time()
        # Environments already run on all cores. Both limits are set once: setting one takes 4 ms,
        # and a cell would do so hundreds of times.
        with one_blas_thread():
            rows = case.measure(show)
        took = {"wall_seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}
        modules = modules_of(case.measure)
        code = {"uses": modules, "code": key(*modules)}
        cell = {**case.head, **code, **took, "rows": rows}
        write_text(path, json.dumps(cell, indent=1, allow_nan=False) + "\n")
    return cell


def _titled(progress: Progress, title: str) -> Show:
    return lambda done, total: progress(title, done, total)


def stored(path: Path, case: Case) -> Cell | None:
    """Return a finished cell, or None where it is missing, damaged or of another protocol.

    Examples
    --------
    >>> stored(Path("nowhere.json"), Case("nowhere", {}, lambda show: [])) is None
    True
    """
    try:
        cell = _read(path)
        return cell if all(cell.get(key) == value for key, value in case.head.items()) else None
    except errors.FileError:
        return None
