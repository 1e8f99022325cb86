"""Snapshots: the target graph as it was at one moment, from files or from one graph with times."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphtemper._arrays import check_whole
from graphtemper.errors import FileError, InputError
from graphtemper.graph import Graph
from graphtemper.subgraph import induced

_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A name, a checksum, and a way to load the graph; ``nodes`` are those looked at, or all.

    Graphs are loaded one at a time, when it is their turn.
    """

    name: str
    digest: str
    load: Callable[[], Graph]
    nodes: NDArray[np.int64] | None = None


def find_snapshots(paths: Sequence[str | os.PathLike[str]]) -> list[Snapshot]:
    """Return the snapshots in files and folders, by name; numbers in names count as numbers.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper import csbm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 10):
    ...         csbm.sample(20, 3, 0.8, 1.0, seed=day).save(Path(folder) / f"day{day}.npz")
    ...     [snapshot.name for snapshot in find_snapshots([folder])]
    ['day2.npz', 'day10.npz']
    """
    files: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = sorted(path.glob("*.npz"), key=lambda file: _natural(file.name))
            if not inside:
                raise FileError(f"the folder {path} holds no snapshot; expected .npz graphs.")
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise FileError(f"there is no snapshot {path}; name .npz files or a folder of them.")
    if not files:
        raise InputError("there are no snapshots to watch; name .npz files or a folder of them.")
    names = [file.name for file in files]
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise InputError(
            f"two snapshots are called {min(double)}; give each a name of its own, because the log "
            "knows them by it."
        )
    return [
        Snapshot(file.name, _digest(file), lambda file=file: Graph.load(file))  # type: ignore[misc]
        for file in files
    ]


def windows(graph: Graph, count: int) -> Iterator[Snapshot]:
    """Yield ``count`` snapshots of one graph with times: its nodes from one span of time each.

    Spans hold equally many nodes where times allow it. Each snapshot is the graph of all nodes up
    to the end of its span, as it stood then, and the nodes of the span are those looked at. Nodes
    whose time is 0 are left out: it is not known. The graph grows from span to span, and growth is
    a change like any other: an alarm over windows need not mean that the model got worse.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]], time=[1, 1, 2, 3])
    >>> [(s.name, s.load().num_nodes, s.nodes.tolist()) for s in windows(g, 2)]
    [('1', 2, [0, 1]), ('2-3', 4, [2, 3])]
    """
    check_whole(count, "count", 1)
    if graph.time is None:
        raise InputError("the graph has no times; name a folder of snapshots instead.")
    known = graph.time[graph.time != 0]
    if not known.size:
        raise InputError("no node of the graph has a known time.")
    content = _content(graph)
    ends = np.unique(np.quantile(known, np.arange(1, count + 1) / count, method="inverted_cdf"))
    start = int(known.min()) - 1
    for end in ends:
        there = np.flatnonzero((graph.time != 0) & (graph.time <= end))
        looked_at = np.flatnonzero(graph.time[there] > start)
        first = int(graph.time[there][looked_at].min())
        name = f"{first}" if first == end else f"{first}-{end}"
        yield Snapshot(
            name,
            hashlib.sha256(f"{content} {name}".encode()).hexdigest(),
            lambda there=there: induced(graph, there),  # type: ignore[misc]
            looked_at,
        )
        start = int(end)


def _content(graph: Graph) -> str:
    """Return a checksum of what a model sees of a graph, and of its times."""
    features = graph.features
    parts = (
        (features,)
        if isinstance(features, np.ndarray)
        else (features.data, features.indices, features.indptr)
    )
    found = hashlib.sha256()
    for part in (*parts, graph.edges, graph.time):
        found.update(np.ascontiguousarray(part).view(np.uint8).data)
    return found.hexdigest()


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts day2 before day10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                found.update(chunk)
    except OSError as error:
        raise FileError(f"the snapshot {path} cannot be read: {error.strerror}.") from error
    return found.hexdigest()
