"""Snapshots of logits: the model ran elsewhere, and left Parquet, ``.npy`` or ``.npz``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.files import open_array, read_npz
from graphtemper.errors import FileError, InputError
from graphtemper.models.predictor import checked_logits
from graphtemper.monitor.snapshots import Stored, is_sharded_graph, listed, named, refuse_shards
from graphtemper.monitor.stamps import Stamp, digest, stamp
from graphtemper.scale.logits.logit_tables import LogitParts, LogitTables
from graphtemper.scale.storage.parquet import parquet_files
from graphtemper.scale.storage.shards import VALUES_AT_ONCE

_ARRAYS = (".npz", ".npy")
_WANTED = "name Parquet, .npz or .npy files of logits, or a folder of them."


@dataclass(frozen=True, eq=False)
class LogitSnapshot(Stored[LogitParts]):
    """A snapshot of what the model said, without the graph."""


@dataclass(frozen=True, eq=False)
class LogitArray:
    """Logits (N, K) in one array, which may be mapped from disk, read so many rows at a time.

    Examples
    --------
    >>> import numpy as np
    >>> parts = LogitArray(np.array([[0.0, 2.0], [1.0, 0.0]]), 2)
    >>> len(parts), [logits.tolist() for _, logits in parts.batches(0)]
    (1, [[[0.0, 2.0], [1.0, 0.0]]])
    """

    values: NDArray[Any]
    num_classes: int

    @classmethod
    def open(cls, path: Path, num_classes: int) -> LogitArray:
        """Open an ``.npz`` with the key ``logits``, which is unpacked whole, or map an ``.npy``."""
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
    """Return the snapshots of logits in files and folders, by name.

    A file is a snapshot (Parquet, ``.npy``, or ``.npz`` with the key ``logits``). So is a folder
    that holds Parquet files: they are its shards, as for `graphtemper.scale.recalibrate_logits`. Of
    any other folder, the files and the folders of shards in it are, also where Spark has given
    those folders names such as ``day1.parquet``. Names that begin with a dot or an underscore are
    left out.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for day in (2, 10):
    ...         np.save(Path(folder) / f"day{day}.npy", np.zeros((3, 2)))
    ...     [snapshot.name for snapshot in find_logits([folder], num_classes=2)]
    ['day2.npy', 'day10.npy']
    """
    places: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            places += _inside(path)
        elif path.is_file() and path.suffix in (*_ARRAYS, ".parquet"):
            places.append(path)
        else:
            raise FileError(f"there is no snapshot {path}; {_WANTED}")
    if not places:
        raise InputError(f"there are no snapshots to watch; {_WANTED}")
    return [
        LogitSnapshot(
            name,
            partial(_digest, place),
            partial(_load, place, num_classes),
            stamp=partial(_stamp, place),
        )
        for name, place in named(places)
    ]


def _inside(folder: Path) -> list[Path]:
    if is_sharded_graph(folder):
        refuse_shards(folder)  # its arrays are no logits
    found = [
        item
        for item in listed(folder)
        if _sharded(item) or (item.suffix in _ARRAYS and not os.path.isdir(item))
    ]
    if _sharded(folder):
        if found:
            raise FileError(
                f"the folder {folder} holds Parquet files and, as {found[0].name}, other "
                "snapshots; keep the shards of a snapshot in a folder of their own."
            )
        return [folder]
    if not found:
        refuse_shards(folder)
        raise FileError(f"the folder {folder} holds no snapshot; {_WANTED}")
    return found


def _sharded(place: Path) -> bool:
    if not os.path.isdir(place):
        return False
    try:
        inside = listed(place)
        return any(item.suffix == ".parquet" and not os.path.isdir(item) for item in inside)
    except FileError:
        return True  # what cannot be looked into is a snapshot that cannot be measured


def _files(place: Path) -> list[Path]:
    return parquet_files(place) if place.is_dir() else [place]


def _digest(place: Path) -> str:
    return digest(_files(place))


def _stamp(place: Path) -> Stamp:
    return stamp(_files(place))


def _load(place: Path, num_classes: int) -> LogitParts:
    if place.suffix in _ARRAYS and place.is_file():
        return LogitArray.open(place, num_classes)
    return LogitTables.open(place, num_classes)
