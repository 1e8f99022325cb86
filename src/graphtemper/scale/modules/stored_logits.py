"""Logits of all nodes of a sharded graph on disk: computed on fields, or given by another job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.errors import DamagedError, OtherClassesError, PredictorError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import predict
from graphtemper.scale.conversion.tables import RowReader
from graphtemper.scale.logits.logit_files import as_numbers
from graphtemper.scale.logits.logit_tables import LogitParts
from graphtemper.scale.modules.reach import Module
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.signals.graph_parts import Field, Reach


@dataclass(frozen=True, eq=False)
class StoredLogits:
    """Logits and predicted classes of all nodes, in one file each per shard."""

    graph: ShardedGraph
    num_classes: int
    folder: Path

    def __len__(self) -> int:
        return len(self.graph.shards)

    def file_name(self, shard: int) -> str:
        """Return the name of a shard's result."""
        return f"part-{shard:05d}.parquet"

    def batches(self, shard: int) -> Iterator[tuple[Any, FloatArray]]:
        """Yield the nodes and the logits of a shard."""
        first, last, _ = self.graph.shards[shard]
        yield np.arange(first, last), self._open("logits", shard)

    def save(self, shard: int, logits: FloatArray) -> None:
        """Write the logits of a shard and the classes that they predict."""
        if logits.shape[1] != self.num_classes:
            raise OtherClassesError(
                f"the card is for {self.num_classes} classes but the model gives {logits.shape[1]}."
            )
        np.save(self.folder / f"logits-{shard}.npy", logits)
        np.save(self.folder / f"classes-{shard}.npy", logits.argmax(axis=1).astype(np.uint16))

    def classes(self) -> NDArray[np.uint16]:
        """Return the predicted classes of all nodes, two bytes each."""
        return np.concatenate([self._open("classes", shard) for shard in range(len(self))])

    def at(self, nodes: Rows) -> FloatArray:
        """Return the logits of sorted nodes."""
        return np.concatenate(
            [
                self._open("logits", shard)[nodes[(first <= nodes) & (nodes < last)] - first]
                for shard, (first, last, _) in enumerate(self.graph.shards)
            ]
        )

    def copy(self, given: LogitParts) -> None:
        """Copy logits that another job wrote, in the order of the nodes."""
        source = _in_order(given, self.graph.num_nodes)
        rows = RowReader(source)
        for shard, (first, last, _) in enumerate(self.graph.shards):
            self.save(shard, rows.take(last - first))
        for _ in source:  # to its end, where the rows are counted
            pass

    def _open(self, what: str, shard: int) -> NDArray[Any]:
        return np.asarray(np.load(self.folder / f"{what}-{shard}.npy", mmap_mode="r"))


def _in_order(given: LogitParts, total: int) -> Iterator[FloatArray]:
    """Yield given logits; refuse another number of rows, or rows in another order."""
    count = 0
    for part in range(len(given)):
        for names, logits in given.batches(part):
            expected = np.arange(count, count + len(logits))
            if names is not None and not np.array_equal(as_numbers(names), expected):
                raise DamagedError(
                    f"the column node of the logits must hold 0 to {total - 1} in this order; sort "
                    "the rows by node."
                )
            count += len(logits)
            yield logits
    if count != total:
        raise DamagedError(
            f"there are {count:,} rows of logits, but the graph has {total:,} nodes."
        )


def compute_shard(shard: int, *, module: Module, reach: Reach, stored: StoredLogits) -> None:
    """Run the model on fields of consecutive nodes, as many at a time as can be read."""
    first, last, _ = module.graph.shards[shard]
    whole, found = ShardedWhole(module.graph), []
    start, size = first, last - first
    with one_blas_thread():
        while start < last:
            nodes = np.arange(start, min(start + size, last))
            field = Field.of(whole, nodes, reach)
            rows, edges = (
                (0, 0) if field is None else (field.graph.num_nodes, field.graph.num_edges)
            )
            if field is None and nodes.size == 1:
                raise PredictorError(
                    f"what the model reads around node {start} is too large for memory; make the "
                    "logits of all nodes layer by layer, and give them as logits."
                )
            if field is None or (nodes.size > 1 and not whole.readable(rows, edges)):
                size = nodes.size // 2
                continue
            found.append(predict(module.predictor, field.graph)[field.rows(nodes)])
            start += nodes.size
            if whole.readable(2 * rows, 2 * edges):
                size = 2 * nodes.size
    stored.save(shard, np.concatenate(found))
