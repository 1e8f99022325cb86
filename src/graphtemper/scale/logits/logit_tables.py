"""Logits as Parquet files, read in batches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import FileError, InputError
from graphtemper.models.predictor import checked_logits
from graphtemper.scale.storage.parquet import (
    arrow,
    check_footer,
    check_same_columns,
    empty_table,
    expand_names,
    is_number_list,
    is_string,
    open_parquet,
    parquet_files,
    to_floats,
)
from graphtemper.scale.storage.shards import VALUES_AT_ONCE

NODE, LIST = "node", "logits"
_NAMES_AT_ONCE = 200_000


class LogitParts(Protocol):
    """Logits in parts, each of which is read in batches."""

    @property
    def num_classes(self) -> int:
        """Columns of the logits."""

    def __len__(self) -> int:
        """Return the number of parts."""

    def batches(self, shard: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the nodes of a part (None if they have no names) and their logits."""


def scaled_batches(parts: LogitParts, shard: int, temperature: float) -> Iterator[FloatArray]:
    """Yield the logits of a part in batches, divided by a temperature."""
    for _, logits in parts.batches(shard):
        yield logits / temperature


@dataclass(frozen=True)
class LogitTables:
    """Parquet files with one row per node: ``logit_0``, ``logit_1``, ..., or one list ``logits``.

    A column ``node`` names the nodes in the result. Without it, nodes are numbered in the order of
    the file names.
    """

    files: tuple[Path, ...]
    num_classes: int

    @classmethod
    def open(cls, path: str | os.PathLike[str], num_classes: int) -> LogitTables:
        """Check that all files are present, complete, and have the same columns."""
        files = parquet_files(Path(path).absolute())  # workers may run in other directories
        names = open_parquet(files[0]).schema_arrow.names
        check_same_columns(files, names)
        tables = cls(tuple(files), num_classes)
        tables._columns(names)
        return tables

    def _columns(self, names: Sequence[str]) -> list[str]:
        if LIST in names:
            return [LIST]
        present = [name for name in names if re.fullmatch(r"logit_\d+", name)]
        if not present:
            raise FileError(
                f"{self.files[0].name} has neither columns logit_0, logit_1, ... nor a list logits."
            )
        expected = [f"logit_{k}" for k in range(self.num_classes)]
        if sorted(present) != sorted(expected):
            raise FileError(
                f"{self.files[0].name} has {len(present)} columns of logits, but the card is for "
                f"{self.num_classes} classes: name them logit_0 to {expected[-1]}, without others."
            )
        return expected

    def __len__(self) -> int:
        return len(self.files)

    def file_name(self, shard: int) -> str:
        """Return the name of a part's result."""
        return self.files[shard].name

    def empty_batch(self, shard: int) -> tuple[Any, FloatArray]:
        """Return no nodes, with the type they have in a file, and no logits."""
        schema = open_parquet(self.files[shard]).schema_arrow
        named = NODE in schema.names
        nodes = arrow().array([], schema.field(NODE).type) if named else np.empty(0, np.int64)
        return nodes, np.empty((0, self.num_classes))

    def batches(self, shard: int) -> Iterator[tuple[NDArray[Any] | None, FloatArray]]:
        """Yield the nodes of a file (None if they have no names) and their logits."""
        path = self.files[shard]
        schema = open_parquet(path).schema_arrow
        named, columns, rows = NODE in schema.names, self._columns(schema.names), 0
        file = open_parquet(path, [NODE] if named and is_string(schema.field(NODE)) else [])
        self._check_types(file, columns, path)
        logits_per_row = self.num_classes if columns == [LIST] else 1
        values_per_row = dict.fromkeys(columns, logits_per_row) | ({NODE: 1} if named else {})
        check_footer(path, values_per_row)
        step = max(VALUES_AT_ONCE // self.num_classes, 1)
        step = min(step, _NAMES_AT_ONCE) if named else step
        try:
            for batch in file.iter_batches(batch_size=step, columns=list(values_per_row)):
                if not batch.num_rows:
                    continue
                nodes = expand_names(batch[NODE], schema.field(NODE).type, path) if named else None
                yield nodes, self._logits(batch, columns, path, rows)
                rows += batch.num_rows
        except FileError:
            raise
        except (OSError, ValueError, arrow().ArrowException) as error:
            raise FileError(f"{path} is truncated or damaged.") from error

    def _check_types(self, file: Any, columns: list[str], path: Path) -> None:
        empty = empty_table(file, columns)
        if columns != [LIST]:
            to_floats(empty, columns, path)
        elif not is_number_list(empty[LIST].type):
            raise FileError(
                f"{path}: the column logits must hold one list of {self.num_classes} numbers "
                f"per row, not {empty[LIST].type}."
            )

    def _logits(self, batch: Any, columns: list[str], path: Path, start: int) -> FloatArray:
        if columns == [LIST]:
            column = batch.column(LIST)
            lengths = arrow("pyarrow.compute").list_value_length(column).to_numpy(False)
            if column.null_count or not (lengths == self.num_classes).all():
                raise FileError(f"{path}: every list must hold {self.num_classes} logits.")
            values = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.num_classes)
        else:
            values = to_floats(batch, columns, path)
        try:
            return checked_logits(values, batch.num_rows)
        except InputError as error:
            raise FileError(f"{path}, from row {start} on: {error}") from error
