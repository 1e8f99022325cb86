"""Logits as Parquet files, read in batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.errors import DamagedError, InputError, TableError
from graphtemper.models.predictor import checked_logits
from graphtemper.scale.parquet import (
    File,
    Place,
    arrow,
    file_name,
    num_rows,
    open_parquet,
    parquet_files,
    read_batches,
    same_columns,
    to_floats,
)
from graphtemper.signals.passes import mixed

NODE, LIST = "node", "logits"
VALUES_AT_ONCE = 4_000_000
"""Logits that a task holds at a time."""


class LogitParts(Protocol):
    """Logits in parts, each of which is read in batches."""

    @property
    def num_classes(self) -> int:
        """Columns of the logits."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def sizes(self) -> list[int]:
        """Return the number of rows of every part."""

    def batches(self, shard: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield at least one batch: nodes (None if they have no names), and their logits."""


class NamedParts(LogitParts, Protocol):
    """Logits in parts, each of which has a name for its result."""

    def file_name(self, shard: int) -> str:
        """Return the name of a part's result."""


@dataclass(frozen=True)
class LogitTables:
    """Parquet files with one row per node: ``logit_0``, ``logit_1``, ..., or one list ``logits``.

    A column ``node`` names the nodes in the result. Without it, nodes are numbered in the order of
    the file names.
    """

    files: tuple[File, ...]
    num_classes: int

    @classmethod
    def open(cls, path: Place, num_classes: int) -> LogitTables:
        """Check that all files are present, complete, and have the same columns."""
        files = parquet_files(path)
        tables = cls(tuple(files), num_classes)
        tables._columns(same_columns(files))
        return tables

    def _columns(self, names: Sequence[str]) -> list[str]:
        if LIST in names:
            return [LIST]
        present = [name for name in names if re.fullmatch(r"logit_\d+", name)]
        if not present:
            raise TableError(
                f"{file_name(self.files[0])} has neither columns logit_0, logit_1, ... nor a list "
                "logits."
            )
        expected = [f"logit_{k}" for k in range(self.num_classes)]
        if sorted(present) != sorted(expected):
            raise TableError(
                f"{file_name(self.files[0])} has {len(present)} columns of logits, but the card is "
                f"for {self.num_classes} classes: name them logit_0 to {expected[-1]}, without "
                "others."
            )
        return expected

    @property
    def name(self) -> str:
        """What an error calls the logits."""
        return str(self.files[0] if len(self.files) == 1 else f"{self.files[0]} and the others")

    def __len__(self) -> int:
        return len(self.files)

    def file_name(self, shard: int) -> str:
        """Return the name of a part's result."""
        return file_name(self.files[shard])

    def sizes(self) -> list[int]:
        """Return the number of rows of every part."""
        return num_rows(list(self.files))

    def batches(self, shard: int) -> Iterator[tuple[NDArray[Any] | None, FloatArray]]:
        """Yield at least one batch: nodes (None if they have no names), and their logits."""
        path = self.files[shard]
        schema = open_parquet(path).schema_arrow
        columns, named, rows = self._columns(schema.names), NODE in schema.names, 0
        read = [*columns, NODE] if named else columns
        step = max(VALUES_AT_ONCE // self.num_classes, 1)
        empty = schema.empty_table().select(read)  # Spark writes empty files
        for batch in chain(read_batches(path, read, step), [empty]):
            if batch.num_rows or not rows:
                nodes = batch.column(NODE) if named else None
                yield nodes, self._logits(batch, columns, path, rows)
                rows += batch.num_rows

    def _logits(self, batch: Any, columns: list[str], path: File, start: int) -> FloatArray:
        if not batch.num_rows:
            return np.empty((0, self.num_classes))
        if columns == [LIST]:
            values = self._from_lists(batch.column(LIST), path)
        else:
            values = to_floats(batch, columns, path)
        try:
            return checked_logits(values, batch.num_rows)
        except InputError as error:
            raise DamagedError(f"{path}, from row {start} on: {error}") from error

    def _from_lists(self, column: Any, path: File) -> NDArray[Any]:
        types, kind = arrow("pyarrow.types"), column.type
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
        numbers = any(is_kind(kind) for is_kind in lists) and (
            types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
        )
        if numbers:
            lengths = arrow("pyarrow.compute").list_value_length(column).to_numpy(False)
            numbers = not column.null_count and bool((lengths == self.num_classes).all())
        if not numbers:
            raise TableError(
                f"{path}: the column logits must hold one list of {self.num_classes} numbers per "
                f"row, and holds {kind}."
            )
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(
            -1, self.num_classes
        )


def as_numbers(names: Any) -> NDArray[Any]:
    """Return a block of the column ``node`` as an array."""
    return np.asarray(names.to_numpy(zero_copy_only=False) if hasattr(names, "to_numpy") else names)


def checksum(numbers: NDArray[Any]) -> int:
    """Return a number that shows whether two tables name the same nodes, in any order."""
    return int(mixed(numbers.astype(np.uint64)).sum(dtype=np.uint64))
