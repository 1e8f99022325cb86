"""Snapshots: the target as it was at one moment, from files or from one graph with times."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import check_whole
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import Graph
from graphtemper.monitor.stamps import Stamp, digest, stamp
from graphtemper.scale.storage.shards import MANIFEST

Content = TypeVar("Content", covariant=True)


@dataclass(frozen=True, eq=False)
class Stored(Generic[Content]):
    """One snapshot, wherever it is kept and whatever it is of.

    Attributes
    ----------
    name
        By which the log knows it.
    digest
        A checksum of its content, or how to take it.
    load
        How to get the content; called when it is the snapshot's turn, and not kept.
    stamp
        How to see cheaply whether the content may have changed; None where there is no way.
    """

    name: str
    digest: str | Callable[[], str]
    load: Callable[[], Content]
    stamp: Callable[[], Stamp] | None = field(default=None, kw_only=True)

    def checksum(self) -> str:
        """Return the checksum of the content."""
        return self.digest if isinstance(self.digest, str) else self.digest()


@dataclass(frozen=True, eq=False)
class Snapshot(Stored[Graph]):
    """A snapshot of the graph; ``nodes`` are those looked at, or all."""

    nodes: NDArray[np.int64] | None = None


def find_snapshots(paths: Sequence[str | os.PathLike[str]]) -> list[Snapshot]:
    """Return the graphs in files and folders, by name; numbers in names count as numbers.

    Names that begin with a dot or an underscore are left out of folders: work in progress.

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
            inside = [item for item in listed(path) if item.suffix == ".npz"]
            if not inside:
                refuse_shards(path)
                raise FileError(
                    f"the folder {path} holds no snapshot; expected .npz graphs. Logits are "
                    "watched without --predict."
                )
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise FileError(f"there is no snapshot {path}; name .npz files or a folder of them.")
    if not files:
        raise InputError("there are no snapshots to watch; name .npz files or a folder of them.")
    return [
        Snapshot(
            name,
            partial(digest, [file]),
            partial(Graph.load, file),
            stamp=partial(stamp, [file]),
        )
        for name, file in named(files)
    ]


def listed(folder: Path) -> list[Path]:
    """Return what is in a folder, but for work in progress, in the order of the names."""
    try:
        inside = [item for item in folder.iterdir() if item.name[0] not in "._"]
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be read: {error.strerror}.") from error
    return sorted(inside, key=lambda item: _natural(item.name))


def named(places: Sequence[Path]) -> list[tuple[str, Path]]:
    r"""Return files or folders with their names, each of which must be its own.

    Bytes of a name that are not UTF-8 are written as in ``day\xff.npz``.
    """
    names = [
        os.fsencode(place.name or place.resolve().name).decode("utf-8", "backslashreplace")
        for place in places
    ]
    double = [name for name, count in Counter(names).items() if count > 1]
    if double:
        raise InputError(
            f"two snapshots are called {min(double)}; give each a name of its own, because the log "
            "knows them by it."
        )
    return list(zip(names, places, strict=True))


def is_sharded_graph(folder: Path) -> bool:
    """Whether a folder is a graph that `graphtemper scale convert` made."""
    try:
        with (folder / MANIFEST).open("rb") as stream:
            return b"graphtemper.shards/" in stream.read(1000)
    except OSError:
        return False


def refuse_shards(folder: Path) -> None:
    """Refuse a folder that is a sharded graph, or holds some, with what to do instead."""
    if any(map(is_sharded_graph, (folder, *listed(folder)))):
        raise FileError(
            f"the folder {folder} holds a sharded graph, which is watched through its logits: have "
            "the model write them (Parquet, .npy or .npz) and name those without --predict, or run "
            "graphtemper scale recalibrate on each graph."
        )


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
    [('1', 2, [0, 1]), ('2 to 3', 4, [2, 3])]
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
        name = f"{first}" if first == end else f"{first} to {end}"
        yield Snapshot(
            name,
            hashlib.sha256(f"{content} {name}".encode()).hexdigest(),
            lambda there=there: graph.subgraph(there),  # type: ignore[misc]
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
