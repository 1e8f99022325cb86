"""Names, credits and whereabouts of the node-classification graphs.

Graphs are never part of the package. They are looked up in the folder named by
``GRAPHTEMPER_DATA``, then in ``../shared/data`` beside the checkout or the working directory, then
in the user's cache.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from graphtemper.errors import FileError, InputError
from graphtemper.graph import Graph

HETEROPHILOUS = ("roman_empire", "amazon_ratings", "tolokers", "minesweeper", "questions")


@dataclass(frozen=True)
class Dataset:
    """What is published about a graph: size, origin and licence.

    ``what`` reads node / edge / label; a licence marked "(repo)" is that of the upstream
    repository and may not have been meant for the data.
    """

    name: str
    family: str
    what: str
    nodes: int
    edges: int
    features: int
    classes: int
    homophily: float
    publication: str
    licence: str
    upstream: str


@cache
def _catalogue() -> dict[str, Dataset]:
    text = resources.files("graphtemper").joinpath("catalogue.csv").read_text("utf-8")
    entries = {}
    for row in csv.DictReader(text.splitlines()):
        numbers = {key: int(row.pop(key)) for key in ("nodes", "edges", "features", "classes")}
        homophily = float(row.pop("homophily"))
        entries[row["name"]] = Dataset(**row, **numbers, homophily=homophily)  # type: ignore[arg-type]
    return entries


CATALOGUE = _catalogue()


def folders() -> list[Path]:
    """Return the folders that are searched for graphs, in order."""
    places = [Path(value)] if (value := os.environ.get("GRAPHTEMPER_DATA")) else []
    checkout = Path(__file__).resolve().parents[2]
    places += [checkout.parent / "shared" / "data", Path.cwd().parent / "shared" / "data"]
    return [*places, cache_folder()]


def cache_folder() -> Path:
    """Return the user's cache folder for graphs (``XDG_CACHE_HOME`` is respected)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "graphtemper"


def find(name: str) -> Path | None:
    """Return the path of a graph's ``.npz``, or None where this machine does not have it.

    Examples
    --------
    >>> find("a graph that nobody has made") is None
    Traceback (most recent call last):
    graphtemper.errors.InputError: unknown graph 'a graph that nobody has made'; ...
    """
    if name not in CATALOGUE:
        raise InputError(f"unknown graph {name!r}; `graphtemper data list` shows the names.")
    for folder in folders():
        path = folder / f"{name}.npz"
        if path.is_file():
            return path
    return None


def load(name: str) -> Graph:
    """Load a graph of the catalogue by name."""
    path = find(name)
    if path is None:
        raise FileError(
            f"the graph {name!r} is not on this machine; put {name}.npz into a folder and set "
            "GRAPHTEMPER_DATA to it."
        )
    return Graph.load(path).replace(name=name)
