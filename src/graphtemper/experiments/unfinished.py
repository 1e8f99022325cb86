"""Which figures a run of all of them has finished, so that an interrupted run goes on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import graphtemper
from graphtemper.errors import FileError
from graphtemper.experiments.outcome import read_outcome, write_text

FILE = "unfinished.json.part"


def finished(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes that an interrupted run of this very code left, by name.

    Examples
    --------
    >>> finished(Path("nowhere"))
    {}
    """
    try:
        found = json.loads((folder / FILE).read_text("utf-8"))
        if found["code"] != _code():
            return {}
        return {str(name): read_outcome(folder / f"{name}.json") for name in found["finished"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, FileError):
        return {}


def remember(folder: Path, names: list[str]) -> None:
    """Keep the names of the figures whose files are whole."""
    write_text(folder / FILE, json.dumps({"code": _code(), "finished": names}) + "\n")


def forget(folder: Path) -> None:
    """Remove what was kept, as the run is over."""
    (folder / FILE).unlink(missing_ok=True)


def _code() -> str:
    """Return a digest of the whole package: after any change every figure is made again."""
    root = Path(graphtemper.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()
