"""Snapshots of logits that a model wrote, in any format of `scale.logits.logit_files`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.stamps import Stamp, stamp
from graphtemper.errors import FileError, InputError
from graphtemper.monitor.snapshots import (
    StoredSnapshot,
    date_of,
    in_order,
    is_sharded_graph,
    list_folder,
    refuse_shards,
)
from graphtemper.scale.logits.logit_files import ARRAYS, EXPECTED, FORMATS, open_logits
from graphtemper.scale.logits.logit_tables import LogitParts
from graphtemper.scale.storage.parquet import parquet_files

_EXPECTED = f"name {EXPECTED} files of logits, or a folder of them."


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
        >>> from graphtemper.monitor import LogitArray
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


def find_logits(paths: Sequence[str | os.PathLike[str]], num_classes: int) -> list[LogitSnapshot]:
    """Return the snapshots of logits in files and folders, oldest first as in `find_snapshots`.

    A file is a snapshot: Parquet, ``.npy``, ``.npz`` with the key ``logits``, CSV or safetensors. A
    folder of Parquet files is one snapshot too; the files are its shards, as for
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
        elif path.is_file() and path.suffix in FORMATS:
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
            # An .npy is mapped, and may be cut off meanwhile.
            may_crash=place.suffix in (".npy", ".parquet") or place.is_dir(),
            when=date_of(name),
            named_in_order=True,
        )
        for name, place in in_order(places)
    ]


def _snapshots_in(folder: Path) -> list[Path]:
    if is_sharded_graph(folder):
        refuse_shards(folder)  # its arrays are not logits
    items = [
        item
        for item in list_folder(folder)
        if _holds_shards(item) or (item.suffix in ARRAYS and not os.path.isdir(item))
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
    return open_logits(place, num_classes)
