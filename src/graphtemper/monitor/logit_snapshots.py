"""Snapshots of logits that a model wrote as Parquet, ``.npy`` or ``.npz``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.files import open_array, read_npz
from graphtemper._core.stamps import Stamp, stamp
from graphtemper.errors import FileError, InputError
from graphtemper.models.predictor import checked_logits
from graphtemper.monitor.snapshots import (
    StoredSnapshot,
    is_sharded_graph,
    list_folder,
    refuse_shards,
    with_unique_names,
)
from graphtemper.scale.logits.logit_tables import LogitParts, LogitTables
from graphtemper.scale.storage.parquet import parquet_files
from graphtemper.scale.storage.shards import VALUES_AT_ONCE

_ARRAYS = (".npz", ".npy")
_EXPECTED = "name Parquet, .npz or .npy files of logits, or a folder of them."


@dataclass(frozen=True, eq=False)
class LogitSnapshot(StoredSnapshot[LogitParts]):
    """A snapshot of a model's logits, without the graph.

    ``may_crash`` is set if a damaged file can end the process that reads it.
    """

    may_crash: bool = field(default=False, kw_only=True)

    @staticmethod
    def digest_of(content: LogitParts) -> str:
        """Return a checksum of the logits; other columns and arrays do not matter.

        Examples
        --------
        >>> parts = LogitArray(np.array([[0.0, 2.0]]), 2)
        >>> LogitSnapshot.digest_of(parts)[:16]
        '9b6ce3a0f8830caa'
        """
        hashed = HashedParts(content)
        return hashed.digest()


class HashedParts:
    """Logits in parts, hashed while they are read for the first time in their order."""

    def __init__(self, parts: LogitParts) -> None:
        self._parts, self._num_hashed = parts, 0
        self._hash = hashlib.sha256(f"{parts.num_classes} classes\n".encode())

    @property
    def num_classes(self) -> int:
        """Columns of the logits."""
        return self._parts.num_classes

    def __len__(self) -> int:
        return len(self._parts)

    def batches(self, shard: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the nodes of a part and their logits."""
        if shard != self._num_hashed:
            yield from self._parts.batches(shard)
            return
        for nodes, logits in self._parts.batches(shard):
            self._hash.update(np.ascontiguousarray(logits, np.float64).data)
            yield nodes, logits
        self._num_hashed += 1

    def digest(self) -> str:
        """Return the digest of all logits; parts that were not read yet are read now."""
        while self._num_hashed < len(self):
            for _ in self.batches(self._num_hashed):
                pass
        return self._hash.hexdigest()


@dataclass(frozen=True, eq=False)
class LogitArray:
    """Logits (N, K) in one array, possibly memory-mapped, read in blocks of rows.

    Examples
    --------
    >>> parts = LogitArray(np.array([[0.0, 2.0], [1.0, 0.0]]), 2)
    >>> len(parts), [logits.tolist() for _, logits in parts.batches(0)]
    (1, [[[0.0, 2.0], [1.0, 0.0]]])
    """

    values: NDArray[Any]
    num_classes: int

    @classmethod
    def open(cls, path: Path, num_classes: int) -> LogitArray:
        """Read the key ``logits`` of an ``.npz``, or memory-map an ``.npy``."""
        if path.suffix == ".npz":
            arrays = read_npz(path)
            if "logits" not in arrays:
                raise FileError(
                    f"{path}: key 'logits' is missing; save the array under that name. To watch "
                    "graphs, name their model with --predict."
                )
            values = arrays["logits"]
        else:
            values = open_array(path, "logits")
        if values.ndim != 2 or values.shape[1] != num_classes:
            raise FileError(
                f"{path}: the logits must have shape (N, {num_classes}), as the card has "
                f"{num_classes} classes, not {values.shape}."
            )
        return cls(values, num_classes)

    @property
    def _step(self) -> int:
        return max(VALUES_AT_ONCE // self.num_classes, 1)

    def __len__(self) -> int:
        return max(-(-len(self.values) // self._step), 1)

    def batches(self, shard: int) -> Iterator[tuple[None, FloatArray]]:
        """Yield the logits of one part, if it has any."""
        start = shard * self._step
        rows = self.values[start : start + self._step]
        if len(rows):
            try:
                yield None, checked_logits(rows, len(rows))
            except InputError as error:
                raise FileError(f"from row {start} on: {error}") from error


def find_logits(paths: Sequence[str | os.PathLike[str]], num_classes: int) -> list[LogitSnapshot]:
    """Return the snapshots of logits in files and folders, sorted by name.

    A file is a snapshot: Parquet, ``.npy``, or ``.npz`` with the key ``logits``. A folder of
    Parquet files is one snapshot too; the files are its shards, as for
    `graphtemper.scale.recalibrate_logits`. Any other folder holds snapshots: its files and its
    folders of shards, also if Spark gave these folders names such as ``day1.parquet``. Names that
    begin with a dot or an underscore are skipped.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 10):
    ...         np.save(Path(folder) / f"day{day}.npy", np.zeros((3, 2)))
    ...     [snapshot.name for snapshot in find_logits([folder], num_classes=2)]
    ['day2.npy', 'day10.npy']
    """
    places: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            places += _snapshots_in(path)
        elif path.is_file() and path.suffix in (*_ARRAYS, ".parquet"):
            places.append(path)
        else:
            raise FileError(f"there is no snapshot {path}; {_EXPECTED}")
    if not places:
        raise InputError(f"there are no snapshots to watch; {_EXPECTED}")
    return [
        LogitSnapshot(
            name,
            None,
            partial(_load, place, num_classes),
            stamp=partial(_stamp, place),
            may_crash=place.suffix != ".npz",  # an .npy is mapped, and may be cut off meanwhile
        )
        for name, place in with_unique_names(places)
    ]


def _snapshots_in(folder: Path) -> list[Path]:
    if is_sharded_graph(folder):
        refuse_shards(folder)  # its arrays are not logits
    items = [
        item
        for item in list_folder(folder)
        if _holds_shards(item) or (item.suffix in _ARRAYS and not os.path.isdir(item))
    ]
    if _holds_shards(folder):
        if items:
            raise FileError(
                f"the folder {folder} holds Parquet files and, as {items[0].name}, other "
                "snapshots; keep the shards of a snapshot in a separate folder."
            )
        return [folder]
    if not items:
        refuse_shards(folder)
        raise FileError(f"the folder {folder} holds no snapshot; {_EXPECTED}")
    return items


def _holds_shards(place: Path) -> bool:
    """Return whether a place is a folder of Parquet files."""
    if not os.path.isdir(place):
        return False
    try:
        items = list_folder(place)
        return any(item.suffix == ".parquet" and not os.path.isdir(item) for item in items)
    except FileError:
        return True  # a folder that cannot be read is a snapshot that cannot be measured


def _stamp(place: Path) -> Stamp:
    return stamp(parquet_files(place) if place.is_dir() else [place])


def _load(place: Path, num_classes: int) -> LogitParts:
    if place.suffix in _ARRAYS and place.is_file():
        return LogitArray.open(place, num_classes)
    return LogitTables.open(place, num_classes)
