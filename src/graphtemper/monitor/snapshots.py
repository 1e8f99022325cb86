"""Snapshots: a graph or a model's logits at one point in time, from files or from any source."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import check_integer
from graphtemper._core.printable import natural_key
from graphtemper._core.safe_reading import open_regular
from graphtemper.graph.digest import content_digest
from graphtemper.graph.graph import Graph
from graphtemper.models.logit_files import ARRAYS, EXPECTED
from graphtemper.models.predictor import as_graph
from graphtemper.scale.logit_tables import LogitArray, LogitParts, LogitTables, open_logits
from graphtemper.scale.parquet import parquet_files
from graphtemper.scale.stored_graph import Tables

TABLES = ("logits", "edges", "nodes")
"""Folders of a snapshot in Parquet, see `graphtemper.scale.StoredGraph`."""
# Fields of a graph that no watch reads.
_NOT_READ = (
    *("labels", "name", "class_names", "feature_names", "node_type_names", "edge_type_names"),
    *("train_masks", "val_masks", "test_masks"),
)
# A year with a month, and perhaps a day and a time, that are not part of a longer number.
_DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)([-_.]?)(0[1-9]|1[0-2])"
    r"(?:\2(0[1-9]|[12]\d|3[01])(?:[T_ -]?([01]\d|2[0-3])[-:_.]?([0-5]\d)(?!\d))?)?(?!\d)"
)


Kept = Graph | LogitParts | Tables
"""What a snapshot holds once it is loaded."""
Given = Any
"""What a caller names: paths and folders, snapshots, or contents by name; see `snapshots_of`."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A named snapshot of a graph or of logits, for `Watch.follow`.

    Attributes
    ----------
    name
        Identifies the snapshot in the log.
    content
        A `Graph`, a PyG ``Data`` or logits (N, K); or a function that returns one, which is called
        when the snapshot is measured, and whose return value is not kept.
    nodes
        Nodes of a graph to evaluate (default: all).
    when
        Its place in time, a string that sorts by time such as ``"2026-05"``. A watch refuses a
        snapshot that is older than the newest of its log. Default: the date in its name, if any.
    digest
        A checksum of its content; by default it is computed from the content.
    place
        The file or folder that it is read from (optional): while its stamp does not change, a
        logged snapshot is not read again.
    """

    name: str
    content: Any
    nodes: NDArray[np.int64] | None = None
    when: str | None = field(default=None, kw_only=True)
    digest: str | None = field(default=None, kw_only=True)
    place: Path | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.when is None:
            object.__setattr__(self, "when", date_of(self.name))

    def load(self, num_classes: int) -> Kept:
        """Return the content; an array is one of logits."""
        content = self.content
        if callable(content) and not hasattr(content, "num_nodes"):
            content = content()
        if isinstance(content, Graph | LogitTables | LogitArray | Tables):
            return content
        if hasattr(content, "num_nodes"):
            return as_graph(content)
        return LogitArray(np.asarray(content), num_classes)

    def stamp(self) -> str | None:
        """Return a stamp of its files, which changes when they do; their contents are not read.

        A file that is written to or replaced gets a new change time, which only the operating
        system sets, or another inode.
        """
        if self.place is None:
            return None
        inside = sorted(self.place.rglob("*")) if self.place.is_dir() else [self.place]
        facts = []
        for file in inside:
            if not file.is_dir():
                with open_regular(file) as stream:
                    status = os.fstat(stream.fileno())
                times = (status.st_mtime_ns, status.st_ctime_ns)
                facts.append((str(file), status.st_size, *times, status.st_ino, status.st_dev))
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def is_older_than(self, name: str, when: str | None) -> bool:
        """Return whether it comes before another in time; names of files are in order of time.

        Examples
        --------
        >>> day2 = Snapshot("day2", Graph, place=Path("day2"))
        >>> day2.is_older_than("day10", None), day2.is_older_than("day1", None)
        (True, False)
        """
        if self.when and when and self.when != when:
            return self.when < when
        return self.place is not None and natural_key(self.name) < natural_key(name)

    def checksum(self, content: Kept) -> str:
        """Return the checksum of what a watch reads: no labels, masks and names of a graph.

        Examples
        --------
        >>> g = Graph(features=[[1.0], [2.0]], edges=[[0, 1]], labels=[0, 1])
        >>> shot = Snapshot("day", g)
        >>> shot.checksum(g) == shot.checksum(g.replace(labels=None))
        True
        """
        if self.digest is not None:
            return self.digest
        if isinstance(content, Graph):
            return content_digest(content, _NOT_READ)
        if isinstance(content, Tables):
            return _checksum_of(content)
        digest = hashlib.sha256(f"{content.num_classes} classes\n".encode())
        for part in range(len(content)):
            for _, logits in content.batches(part):
                digest.update(np.ascontiguousarray(logits, np.float64).data)
        return digest.hexdigest()


def snapshots_of(given: Given, num_classes: int, *, logits: bool = False) -> list[Snapshot]:
    """Return snapshots, oldest first, from what a caller names.

    Parameters
    ----------
    given
        A path, a folder or several of them; a `Snapshot` or several; or a mapping from names to
        what a `Snapshot` holds, in its order.
    num_classes
        Number of classes of logits.
    logits
        Files are those of logits.

    Notes
    -----
    A graph is an ``.npz``, or a folder with the folders `TABLES` of Parquet files. Logits are a
    file (Parquet, ``.npy``, ``.npz`` with the key ``logits``, or CSV) or a folder of Parquet files,
    its parts. Any other folder holds snapshots, also if Spark gave folders of parts names such as
    ``day1.parquet``. Names that begin with a dot or an underscore are skipped as work in progress.

    If all names of files hold a date (`date_of`), the order is that of the dates; otherwise that of
    the names, with numbers in numerical order.

    Examples
    --------
    >>> [shot.when for shot in snapshots_of({"2026-05": Graph, "2026-06": Graph}, 2)]
    ['2026-05', '2026-06']
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 10):
    ...         np.save(Path(folder) / f"day{day}.npy", np.zeros((3, 2)))
    ...     [snapshot.name for snapshot in snapshots_of(folder, 2, logits=True)]
    ['day2.npy', 'day10.npy']
    """
    if isinstance(given, Mapping):
        return [Snapshot(name, content) for name, content in given.items()]
    several: list[Any] = [given] if isinstance(given, str | os.PathLike | Snapshot) else list(given)
    found = [one for one in several if isinstance(one, Snapshot)]
    if found and len(found) < len(several):
        raise errors.wrong_type("give either snapshots, or files and folders of them, not both.")
    if found:
        return found
    load: Callable[[Path], Kept] = _graph_at
    suffixes: tuple[str, ...] = (".npz",)
    is_one, expected = _holds_tables, ".npz graphs"
    if logits:
        load = partial(open_logits, num_classes=num_classes)
        suffixes, is_one, expected = ARRAYS, _holds_parts, f"{EXPECTED} files of logits"
    # Bytes of a name that are not UTF-8 are written as in day\xff.npz.
    named = [
        (os.fsencode(place.name or place.resolve().name).decode("utf-8", "backslashreplace"), place)
        for path in map(Path, several)
        for place in _places(path, suffixes, is_one)
    ]
    if not named:
        raise errors.empty(f"there are no snapshots; name {expected}, or a folder of them.")
    name, count = Counter(name for name, _ in named).most_common(1)[0]
    if count > 1:
        raise errors.repeated(
            f"two snapshots are called {name}; the log identifies snapshots by name, so rename "
            "one of them."
        )
    by_date = all(date_of(name) for name, _ in named)
    named.sort(key=lambda pair: ((date_of(pair[0]) or "") * by_date, natural_key(pair[0])))
    return [Snapshot(name, partial(load, place), place=place) for name, place in named]


def _places(path: Path, suffixes: Sequence[str], is_one: Callable[[Path], bool]) -> list[Path]:
    """Return where the snapshots at a path are; there must be at least one."""
    if path.is_file() or is_one(path):
        return [path]
    found = [item for item in _items(path) if item.suffix in suffixes or is_one(item)]
    if not found:
        raise errors.no_file(
            f"there is no snapshot at {path}; name {' or '.join(suffixes)} files or Parquet."
        )
    return found


def _items(folder: Path) -> list[Path]:
    """Return the items of a folder, without work in progress."""
    try:
        return [item for item in folder.iterdir() if item.name[0] not in "._"]
    except OSError as error:
        raise errors.unreadable(f"the folder {folder} cannot be read: {error.strerror}.") from error


def _holds_parts(place: Path) -> bool:
    """Return whether a place is a folder of Parquet files."""
    return place.is_dir() and any(
        item.suffix == ".parquet" and not item.is_dir() for item in _items(place)
    )


def _holds_tables(place: Path) -> bool:
    return all((place / name).is_dir() for name in TABLES)


def _checksum_of(tables: Tables) -> str:
    """Return a checksum of the bytes of files, which are not loaded."""
    total = hashlib.sha256()
    for folder in tables[:3]:
        for file in parquet_files(folder):
            with open_regular(file) as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def _graph_at(place: Path) -> Graph | Tables:
    if _holds_tables(place):
        logits, graph, features = (place / name for name in TABLES)
        return Tables(logits, graph, features)
    return Graph.load(place)


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


def windows(graph: Graph, count: int) -> Iterator[Snapshot]:
    """Split a graph with times into ``count`` spans of about equally many nodes, as snapshots.

    A snapshot holds all nodes up to the end of its span, and evaluates those of the span. Nodes of
    unknown time (0) are left out. The graph grows from span to span, which alone can raise an
    alarm without the model getting worse.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]], time=[1, 1, 2, 3])
    >>> [(s.name, s.load(2).num_nodes, s.nodes.tolist()) for s in windows(g, 2)]
    [('1', 2, [0, 1]), ('2 to 3', 4, [2, 3])]
    """
    check_integer(count, "count", 1)
    if graph.time is None or not graph.time.any():
        raise errors.empty("the graph has no times; follow snapshots of it instead.")
    content = content_digest(graph, _NOT_READ)
    known_times = graph.time[graph.time != 0]
    quantiles = np.arange(1, count + 1) / count
    ends = np.unique(np.quantile(known_times, quantiles, method="inverted_cdf"))
    start = int(known_times.min()) - 1
    for end in ends:
        present = np.flatnonzero((graph.time != 0) & (graph.time <= end))
        evaluated = np.flatnonzero(graph.time[present] > start)
        first = int(graph.time[present][evaluated].min())
        name = f"{first}" if first == end else f"{first} to {end}"
        digest = hashlib.sha256(f"{content} {name}".encode()).hexdigest()
        yield Snapshot(name, partial(graph.subgraph, present), evaluated, digest=digest)
        start = int(end)
