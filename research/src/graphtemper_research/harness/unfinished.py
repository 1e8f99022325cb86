"""Which figures a run of all of them has finished, so that an interrupted run resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphtemper._core.safe_reading import parse_json, read_bytes
from graphtemper._core.stamps import stamp
from graphtemper.errors import FileError
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.code_digest import combined, whole_digest
from graphtemper_research.harness.outcome import read_outcome, write_text

FILE = "unfinished.json.part"


def finished(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the outcomes that an interrupted run of this code on these graphs left, by name.

    Examples
    --------
    >>> finished(Path("nowhere"))
    {}
    """
    try:
        journal = parse_json(read_bytes(folder / FILE, 1_000_000))
        if journal["key"] != _key():  # after any change every figure is made again
            return {}
        return {str(name): read_outcome(folder / f"{name}.json") for name in journal["finished"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, FileError):
        return {}


def remember(folder: Path, names: list[str]) -> None:
    """Write the names of the figures whose files are whole."""
    write_text(folder / FILE, json.dumps({"key": _key(), "finished": names}) + "\n")


def _key() -> str:
    """Return a digest of the code, and of the sizes and times of the graphs on this machine."""
    found = (datasets.find(name) for name in datasets.CATALOGUE)
    return combined(whole_digest(), stamp([path for path in found if path is not None]))


def forget(folder: Path) -> None:
    """Remove the names, since the run is over."""
    (folder / FILE).unlink(missing_ok=True)
