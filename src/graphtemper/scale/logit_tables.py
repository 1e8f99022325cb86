"""Logits in parts, read in batches: Parquet files, or an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper.errors import FileError, InputError
from graphtemper.models.logit_files import LOGITS, NODE, read_array
from graphtemper.models.predictor import checked_logits
from graphtemper.scale.parquet import Place, Table, arrow, file_name, to_floats

VALUES_AT_ONCE = 4_000_000
"""Logits that a task holds at a time."""


@dataclass(frozen=True)
class LogitTables:
    """Parquet files with one row per node: ``logit_0``, ``logit_1``, ..., or one list ``logits``.

    A column ``node`` names the nodes in the result. Without it, nodes are numbered in the order of
    the file names.
    """

    table: Table
    num_classes: int
    values_at_once: int = VALUES_AT_ONCE

    @classmethod
    def open(cls, place: Place, num_classes: int) -> LogitTables:
        """Check that all files are present, complete, and have the same columns."""
        table = Table.open(place)
        found = sorted(name for name in table.columns if name.startswith("logit_"))
        if LOGITS not in table.columns and found != sorted(_columns(num_classes)):
            said = f"{len(found)} columns of logits for {num_classes} classes"
            raise errors.table(
                f"{table.files[0]} has {said}; name them logit_0, logit_1, and so on."
            )
        return cls(table, num_classes)

    @property
    def num_nodes(self) -> int:
        """Number of rows."""
        return self.table.num_rows

    def __len__(self) -> int:
        return len(self.table.files)

    def file_name(self, part: int) -> str:
        """Return the name of a part's result: that of its file, numbered if others have it."""
        names = [file_name(file) for file in self.table.files]
        return names[part] if len({*names}) == len(names) else f"{part:05d}-{names[part]}"

    def batches(self, part: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield at least one batch: names of nodes, and their logits (n, K)."""
        known, file = self.table.columns, self.table.files[part]
        columns = [LOGITS] if LOGITS in known else _columns(self.num_classes)
        names = [*columns, *[NODE] * (NODE in known)]
        read = self._from_lists if LOGITS in known else partial(to_floats, names=columns)
        most = self.values_at_once * len(names) // self.num_classes
        for row, batch in self.table.batches(part, names, most):
            here = batch[NODE] if NODE in known else np.arange(row, row + batch.num_rows)
            yield here, _checked(read(batch, file=file), f"{file}", row)

    def _from_lists(self, batch: Any, file: Any) -> NDArray[Any]:
        pyarrow, column = arrow(), batch[LOGITS]
        try:
            rows = column.cast(pyarrow.list_(pyarrow.float64(), self.num_classes)).flatten()
            if not column.null_count:
                values: NDArray[Any] = rows.to_numpy(zero_copy_only=False)
                return values.reshape(-1, self.num_classes)
        except pyarrow.ArrowException:
            pass
        raise errors.table(f"{file}: logits must hold {self.num_classes} numbers in every row.")


def _columns(num_classes: int) -> list[str]:
    return [f"logit_{k}" for k in range(num_classes)]


def _checked(values: NDArray[Any], name: str, row: int) -> NDArray[Any]:
    try:
        return checked_logits(values, len(values)) if len(values) else values
    except InputError as error:
        raise errors.damaged(f"{name}, from row {row} on: {error}") from error


@dataclass(frozen=True, eq=False)
class LogitArray:
    """Logits (N, K) in one array, possibly memory-mapped, read in blocks of rows.

    ``nodes`` are the numbers of the rows' nodes; None if rows are in the graph's order.

    Examples
    --------
    >>> parts = LogitArray(np.array([[0.0, 2.0], [1.0, 0.0]]), 2)
    >>> [(nodes.tolist(), logits.tolist()) for nodes, logits in parts.batches(0)]
    [([0, 1], [[0.0, 2.0], [1.0, 0.0]])]
    """

    values: NDArray[Any]
    num_classes: int
    nodes: NDArray[np.int64] | None = None
    name: str = "logits"
    values_at_once: int = VALUES_AT_ONCE

    @property
    def num_nodes(self) -> int:
        """Number of rows."""
        return len(self.values)

    def __len__(self) -> int:
        return 1

    def file_name(self, _part: int) -> str:
        """Return the name of the result."""
        return f"{Path(self.name).stem}.parquet"

    def batches(self, _part: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield at least one batch: numbers of nodes, and their logits (n, K)."""
        step = max(self.values_at_once // self.num_classes, 1)
        nodes = np.arange(len(self.values)) if self.nodes is None else self.nodes
        for row in range(0, max(len(self.values), 1), step):
            rows = slice(row, row + step)
            yield nodes[rows], _checked(self.values[rows], self.name, row)


LogitParts = LogitTables | LogitArray
LogitPlace = Place | LogitParts
"""Where logits are: files, or logits that are open already."""


def open_logits(place: LogitPlace, num_classes: int) -> LogitParts:
    """Open logits: Parquet files, or an array in a file of another format.

    Examples
    --------
    >>> open_logits("logits.xlsx", 2)
    Traceback (most recent call last):
    graphtemper.errors.FileError: cannot read logits from logits.xlsx; save them as .npy, ...
    """
    if isinstance(place, LogitParts):
        return place
    path = Path(place)
    if path.is_dir() or path.suffix in ("", ".parquet"):
        return LogitTables.open(place, num_classes)
    nodes, values = read_array(path, num_classes)
    return LogitArray(values, num_classes, nodes, path.name)


def read_logits(place: LogitPlace, num_nodes: int, num_classes: int) -> FloatArray:
    """Read the logits (N, K) of a graph's nodes, in the order of the nodes."""
    parts = open_logits(place, num_classes)
    names, rows = zip(*(x for part in range(len(parts)) for x in parts.batches(part)), strict=True)
    try:
        logits = checked_logits(np.concatenate(rows), num_nodes)
        nodes = np.concatenate([as_numbers(some, num_nodes) for some in names])
        check_all(np.bincount(nodes, minlength=num_nodes) > 0)
    except (InputError, FileError) as error:
        raise errors.damaged(f"{place}: {error}") from error
    return np.asarray(logits[np.argsort(nodes)])


def as_numbers(names: Any, num_nodes: int) -> NDArray[Any]:
    """Return the names of nodes as integers, or refuse them."""
    nodes = np.asarray(names)
    if nodes.dtype.kind not in "iu" or ((nodes < 0) | (nodes >= num_nodes)).any():
        raise errors.table(f"the column node must hold integers from 0 to {num_nodes - 1}.")
    return nodes


def check_all(seen: NDArray[np.bool_]) -> None:
    """Refuse logits in which a node is missing; as many rows as nodes then repeat another."""
    if not seen.all():
        raise errors.damaged(
            f"node {seen.argmin()} is missing; name 0 to {seen.size - 1} each once."
        )
