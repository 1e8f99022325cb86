"""Which figures a run of all of them has finished, so that an interrupted run resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphtemper.errors import FileError
from graphtemper_research.harness.code_digest import whole_digest
from graphtemper_research.harness.outcome import read_outcome, write_text

FILE = "unfinished.json.part"


def finished(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes that an interrupted run of this very code left, by name.

    Examples
    --------
    >>> finished(Path("nowhere"))
    {}
    """
    try:
        journal = json.loads((folder / FILE).read_text("utf-8"))
        if journal["code"] != whole_digest():  # after any change every figure is made again
            return {}
        return {str(name): read_outcome(folder / f"{name}.json") for name in journal["finished"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, FileError):
        return {}


def remember(folder: Path, names: list[str]) -> None:
    """Write the names of the figures whose files are whole."""
    write_text(folder / FILE, json.dumps({"code": whole_digest(), "finished": names}) + "\n")


def forget(folder: Path) -> None:
    """Remove the names, since the run is over."""
    (folder / FILE).unlink(missing_ok=True)
