"""Snapshots: the target at one point in time, from files or from one graph with times."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import check_integer
from graphtemper._core.printable import natural_key
from graphtemper._core.safe_reading import open_regular
from graphtemper._core.stamps import Stamp, stamp
from graphtemper.errors import FileError, InputError
from graphtemper.graph.digest import content_digest
from graphtemper.graph.graph import Graph
from graphtemper.scale.storage.shards import MANIFEST

Content = TypeVar("Content")
# Fields of a graph that no watch reads.
_MASKS = ("train_masks", "val_masks", "test_masks")
_TYPE_NAMES = ("node_type_names", "edge_type_names")
# A year with a month, and perhaps a day and a time, that are not part of a longer number.
_DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)([-_.]?)(0[1-9]|1[0-2])"
    r"(?:\2(0[1-9]|[12]\d|3[01])(?:[T_ -]?([01]\d|2[0-3])[-:_.]?([0-5]\d)(?!\d))?)?(?!\d)"
)
_NOT_READ = ("labels", "name", "class_names", "feature_names", *_TYPE_NAMES, *_MASKS)


@dataclass(frozen=True, eq=False)
class StoredSnapshot(ABC, Generic[Content]):
    """A named snapshot of a graph or of logits.

    Attributes
    ----------
    name
        Identifies the snapshot in the log.
    digest
        A checksum of its content; None to compute it from what `load` returns.
    load
        Returns the content; called when the snapshot is measured, and not cached.
    stamp
        Returns a stamp that shows cheaply whether the content may have changed (optional).
    when
        Its place in time, a string that sorts by time such as ``"2026-05"`` (optional). A watch
        refuses a snapshot that is older than the newest of its log.
    named_in_order
        Whether names sort by time, with numbers in numerical order. Then names show which of two
        snapshots is older where times are unknown or equal.
    """

    name: str
    digest: str | None
    load: Callable[[], Content]
    stamp: Callable[[], Stamp] | None = field(default=None, kw_only=True)
    when: str | None = field(default=None, kw_only=True)
    named_in_order: bool = field(default=False, kw_only=True)

    def is_older_than(self, name: str, when: str | None) -> bool:
        """Return whether this snapshot comes before another one in time, as far as is known.

        Examples
        --------
        >>> day2 = Snapshot("day2", None, Graph, named_in_order=True)
        >>> day2.is_older_than("day10", None), day2.is_older_than("day1", None)
        (True, False)
        """
        if self.when is not None and when is not None and self.when != when:
            return self.when < when
        return self.named_in_order and natural_key(self.name) < natural_key(name)

    def checksum(self) -> str:
        """Return the checksum of the content, which is loaded unless the digest is given."""
        return self.digest if self.digest is not None else self.digest_of(self.load())

    @staticmethod
    @abstractmethod
    def digest_of(content: Content) -> str:
        """Return the checksum of the part of a content that a watch reads."""


@dataclass(frozen=True, eq=False)
class Snapshot(StoredSnapshot[Graph]):
    """A snapshot of a graph; ``nodes`` are those to evaluate (default: all)."""

    nodes: NDArray[np.int64] | None = None

    @staticmethod
    def digest_of(content: Graph) -> str:
        """Return a checksum of a graph without its labels, masks and names.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [2.0]], edges=[[0, 1]], labels=[0, 1])
        >>> Snapshot.digest_of(g) == Snapshot.digest_of(g.replace(labels=None))
        True
        """
        return content_digest(content, _NOT_READ)


def find_snapshots(paths: Sequence[str | os.PathLike[str]]) -> list[Snapshot]:
    """Return the graphs in files and folders, oldest first.

    If all names hold a date (`date_of`), the order is that of the dates; otherwise that of the
    names, with numbers in numerical order. In folders, names that begin with a dot or an underscore
    are skipped as work in progress.

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
    for path in map(Path, paths):
        if path.is_dir():
            inside = [item for item in list_folder(path) if item.suffix == ".npz"]
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
            None,
            partial(Graph.load, file),
            stamp=partial(stamp, [file]),
            when=date_of(name),
            named_in_order=True,
        )
        for name, file in in_order(files)
    ]


def date_of(name: str) -> str | None:
    """Return the date in a file's name in ISO format: a month, a day, or a time; None without one.

    Examples
    --------
    >>> date_of("graph-2026-05.npz"), date_of("20260517.npz"), date_of("2026-05-17T08-30.parquet")
    ('2026-05', '2026-05-17', '2026-05-17T08:30')
    >>> [date_of(name) for name in ("day12.npz", "2024-20.npz", "2026.npz", "id-120260517.npz")]
    [None, None, None, None]
    """
    match = _DATE.search(name)
    if match is None:
        return None
    year, separator, month, day, hour, minute = match.groups()
    if day is None:
        return f"{year}-{month}" if separator else None  # six digits may be anything
    date = f"{year}-{month}-{day}"
    return date if hour is None else f"{date}T{hour}:{minute}"


def list_folder(folder: Path) -> list[Path]:
    """Return the items of a folder in natural order, without work in progress."""
    try:
        items = [item for item in folder.iterdir() if item.name[0] not in "._"]
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be read: {error.strerror}.") from error
    return sorted(items, key=lambda item: natural_key(item.name))


def in_order(places: Sequence[Path]) -> list[tuple[str, Path]]:
    r"""Return files or folders with their names, oldest first; refuse two of the same name.

    Bytes of a name that are not UTF-8 are written as in ``day\xff.npz``.
    """
    names = [
        os.fsencode(place.name or place.resolve().name).decode("utf-8", "backslashreplace")
        for place in places
    ]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"two snapshots are called {min(repeated)}; the log identifies snapshots by name, so "
            "rename one of them."
        )
    dates = [date_of(name) for name in names]
    by_date = None not in dates
    keys = [
        (date if by_date else "", natural_key(name))
        for date, name in zip(dates, names, strict=True)
    ]
    return [
        pair
        for _, pair in sorted(
            zip(keys, zip(names, places, strict=True), strict=True), key=lambda item: item[0]
        )
    ]


def is_sharded_graph(folder: Path) -> bool:
    """Return whether a folder was written by `graphtemper scale convert`."""
    manifest = folder / MANIFEST
    try:
        with open_regular(manifest) as stream:
            return b"graphtemper.shards/" in stream.read(1000)
    except OSError:
        return False


def refuse_shards(folder: Path) -> None:
    """Refuse a folder that is or holds a sharded graph, and say what to do instead."""
    if any(map(is_sharded_graph, (folder, *list_folder(folder)))):
        raise FileError(
            f"the folder {folder} holds a sharded graph, which is watched through its logits: have "
            "the model write them (Parquet, .npy or .npz) and name those without --predict, or run "
            "graphtemper scale recalibrate on each graph."
        )


def windows(graph: Graph, count: int) -> Iterator[Snapshot]:
    """Split a graph with times into ``count`` spans of about equally many nodes, as snapshots.

    A snapshot holds all nodes up to the end of its span, and evaluates those of the span. Nodes of
    unknown time (0) are left out. The graph grows from span to span, which alone can raise an
    alarm without the model getting worse.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]], time=[1, 1, 2, 3])
    >>> [(s.name, s.load().num_nodes, s.nodes.tolist()) for s in windows(g, 2)]
    [('1', 2, [0, 1]), ('2 to 3', 4, [2, 3])]
    """
    check_integer(count, "count", 1)
    if graph.time is None:
        raise InputError("the graph has no times; name a folder of snapshots instead.")
    known_times = graph.time[graph.time != 0]
    if not known_times.size:
        raise InputError("no node of the graph has a known time.")
    content = Snapshot.digest_of(graph)
    quantiles = np.arange(1, count + 1) / count
    ends = np.unique(np.quantile(known_times, quantiles, method="inverted_cdf"))
    start = int(known_times.min()) - 1
    for end in ends:
        present = np.flatnonzero((graph.time != 0) & (graph.time <= end))
        evaluated = np.flatnonzero(graph.time[present] > start)
        first = int(graph.time[present][evaluated].min())
        name = f"{first}" if first == end else f"{first} to {end}"
        yield Snapshot(
            name,
            hashlib.sha256(f"{content} {name}".encode()).hexdigest(),
            partial(graph.subgraph, present),
            evaluated,
        )
        start = int(end)
