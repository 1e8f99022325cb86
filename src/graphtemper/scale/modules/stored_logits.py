"""Logits of all nodes of a sharded graph on disk: computed on fields, or given by another job."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.heap import reused_memory
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.errors import FileError, InputError
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import predict
from graphtemper.scale.engine import Engine
from graphtemper.scale.logits.logit_files import open_logits
from graphtemper.scale.logits.logit_tables import LogitParts
from graphtemper.scale.modules.reach import Module, field_of
from graphtemper.scale.modules.sharded_fields import ShardedWhole, most_links
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.scale.storage.workspace import Workspace
from graphtemper.signals.graph_parts import Field, Reach, relative_work


@dataclass(frozen=True, eq=False)
class StoredLogits:
    """Logits of all nodes, one file per shard, and predicted classes.

    Attributes
    ----------
    graph
        The sharded graph.
    temperature
        The source temperature, by which `logits` are divided.
    parts
        Logits (n, K) of each shard.
    classes
        Predicted classes (N, 1).
    """

    graph: ShardedGraph
    temperature: float
    parts: tuple[Columns, ...]
    classes: Columns

    @classmethod
    def describe(
        cls, graph: ShardedGraph, temperature: float, num_classes: int, stages: Workspace
    ) -> StoredLogits:
        """Return the files of a workspace, which exist once the logits are computed."""
        parts = (
            Columns.describe(
                stages.folder / f"logits-{number:05d}.npy",
                (shard.last - shard.first, num_classes),
                np.float64,
            )
            for number, shard in enumerate(graph.shards)
        )
        return cls(graph, temperature, tuple(parts), stages.stage_columns("classes", 1, np.int32))

    @property
    def num_classes(self) -> int:
        """Number of classes, K."""
        return self.parts[0].shape[1]

    def logits(self, shard: int) -> FloatArray:
        """Return a shard's logits at the source temperature, (n, K)."""
        return np.asarray(self.parts[shard].open()) / self.temperature

    def logit_blocks(self, shard: int) -> list[FloatArray]:
        """Return a shard's `logits` as the blocks that `graphtemper.scale.matching` reads."""
        return [self.logits(shard)]

    def raw(self, nodes: Rows) -> FloatArray:
        """Return the logits of sorted nodes, not divided by the temperature."""
        lasts = np.array([shard.last for shard in self.graph.shards])
        shards = np.searchsorted(lasts, nodes, "right")
        rows = [
            self.parts[shard].open()[nodes[shards == shard] - self.graph.shards[shard].first]
            for shard in np.unique(shards).tolist()
        ]
        return np.concatenate(rows)


def write_classes(engine: Engine, stored: StoredLogits, stages: Workspace) -> None:
    """Write the predicted class of every node."""
    work = partial(_write_classes, stored=stored)
    stages.stage(
        "classes",
        lambda: engine.map(work, range(len(stored.graph.shards))) and None,
        stored.classes,
    )


def _write_classes(shard: int, *, stored: StoredLogits) -> None:
    logits = stored.parts[shard].open()
    stored.classes.write(stored.graph.shards[shard].first, logits.argmax(axis=1)[:, None])


def compute_on_fields(
    engine: Engine, module: Module, reach: Reach, stored: StoredLogits, stages: Workspace
) -> float:
    """Compute the logits of every shard on the fields of its nodes; return the work of it.

    Every shard is a stage of its own. The work is relative to one pass over the whole graph.
    """
    task = partial(_compute_shard, module=module, reach=reach, stored=stored, stages=stages)
    return float(sum(engine.map(task, range(len(stored.parts)))))


def _compute_shard(
    shard: int, *, module: Module, reach: Reach, stored: StoredLogits, stages: Workspace
) -> float:
    columns = stored.parts[shard]
    work = partial(_run_fields, shard, module, reach, columns)
    with one_blas_thread(), reused_memory():
        return float(stages.stage(columns.path.stem, work, columns))


def _run_fields(shard: int, module: Module, reach: Reach, columns: Columns) -> float:
    """Run the model on fields of consecutive nodes, as many at a time as can be read."""
    first, last, _ = module.graph.shards[shard]
    whole, links = ShardedWhole(module.graph), most_links(module.graph)
    work, start, size = 0.0, first, last - first
    while start < last:
        nodes = np.arange(start, min(start + size, last))
        field = Field.of(whole, nodes, reach) if nodes.size > 1 else field_of(whole, start, reach)
        if field is None or (nodes.size > 1 and field.graph.num_edges > links):
            size = nodes.size // 2
            continue
        rows, edges = field.graph.num_nodes, field.graph.num_edges
        logits = _checked(predict(module.predictor, field.graph), columns)
        columns.write(start - first, logits[field.rows(nodes)])
        work += relative_work(field.graph, whole)
        start += nodes.size
        if whole.readable(2 * rows, 2 * edges) and 2 * edges <= links:
            size = 2 * nodes.size
    return work


def compute_whole(engine: Engine, module: Module, stored: StoredLogits, stages: Workspace) -> float:
    """Compute all logits by one pass over the graph in memory; return the work, 1."""

    def work() -> float:
        engine.map(partial(_run_whole, module=module, stored=stored), [0])
        return 1.0

    return float(stages.stage("whole", work, *stored.parts))


def _run_whole(_: int, *, module: Module, stored: StoredLogits) -> None:
    with one_blas_thread(), reused_memory():
        logits = predict(module.predictor, module.graph.to_graph())
    for shard, columns in zip(module.graph.shards, stored.parts, strict=True):
        columns.write(0, _checked(logits[shard.first : shard.last], columns))


def _checked(logits: FloatArray, columns: Columns) -> FloatArray:
    if logits.shape[1] != columns.shape[1]:
        raise InputError(
            f"the card is for {columns.shape[1]} classes but the model gives {logits.shape[1]}."
        )
    return logits


def copy_given(logits: str | os.PathLike[str], stored: StoredLogits, stages: Workspace) -> float:
    """Copy logits that another job wrote, in the order of the nodes; return the work, 0."""
    parts = open_logits(logits, stored.num_classes)

    def work() -> float:
        _copy(parts, stored, logits)
        return 0.0

    return float(stages.stage("given", work, *stored.parts))


def _copy(parts: LogitParts, stored: StoredLogits, path: str | os.PathLike[str]) -> None:
    row, total = 0, stored.graph.num_nodes
    for number in range(len(parts)):
        for names, logits in parts.batches(number):
            end = row + len(logits)
            if end > total:
                raise FileError(f"{path} has more rows than the graph has nodes, {total:,}.")
            if names is not None and not _consecutive(names, row):
                raise FileError(
                    f"{path}: the column node must hold 0 to {total - 1} in this order; sort the "
                    "rows by node."
                )
            for (first, last, _), columns in zip(stored.graph.shards, stored.parts, strict=True):
                low, high = max(first, row), min(last, end)
                if low < high:
                    columns.write(low - first, logits[low - row : high - row])
            row = end
    if row != total:
        raise FileError(f"{path} has {row:,} rows, but the graph has {total:,} nodes.")


def _consecutive(names: Any, first: int) -> bool:
    numbers = names.to_numpy(zero_copy_only=False) if hasattr(names, "to_numpy") else names
    return np.array_equal(numbers, np.arange(first, first + len(numbers)))


def whole_graph(stored: StoredLogits) -> tuple[Graph, FloatArray]:
    """Load the graph and its logits into memory."""
    return stored.graph.to_graph(), np.concatenate([part.open() for part in stored.parts])
