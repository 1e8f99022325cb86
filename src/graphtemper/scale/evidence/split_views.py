"""Split views on shards: the model on halves of its columns, see `graphtemper.signals.covariances`.

The first halves of several splits and the full view are propagated together; second halves follow
by subtraction. Views are centred over all nodes, so a first pass over the shards adds up the
columns and a second one multiplies the two views of each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.operators import COLUMNS_AT_ONCE
from graphtemper.models.linear_passes import LinearPasses
from graphtemper.scale.clean_pass import Run
from graphtemper.scale.evidence.sums import RatioSums, total
from graphtemper.scale.propagation import ColumnSink, Projected, Values, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import VALUES_AT_ONCE, ShardedGraph
from graphtemper.signals.covariances import Covariance, column_halves
from graphtemper.signals.evidence import Probe


@dataclass(frozen=True, eq=False)
class _Views:
    """The views of several splits on disk, and the weights of their own views.

    The columns are the K logits of the first half of each split, then those of the full view.
    """

    graph: ShardedGraph
    classes: int
    views: Columns
    own_weights: Values
    own_constants: Values

    def sums(self, shard: int) -> FloatArray:
        """Return the sums over nodes of views and of own views: (2, C)."""
        sums = np.zeros((2, self.own_constants.size))
        for _, *both in self._blocks(shard):
            for position, values in enumerate(both):
                sums[position] += values.sum(axis=0, dtype=np.float64)
        return sums

    def write_products(self, shard: int, means: FloatArray, out: Columns) -> None:
        """Write each node's products of first and second half, summed over splits: (n, 2)."""
        for first, *both in self._blocks(shard):
            rows = [self._product(v, m) for v, m in zip(both, means, strict=True)]
            out.write(first, np.column_stack(rows))

    def _product(self, values: Values, mean: FloatArray) -> FloatArray:
        by_split = (values - mean).reshape(len(values), -1, self.classes)
        by_split -= by_split.mean(axis=2, keepdims=True)
        first, full = by_split[:, :-1], by_split[:, -1:]
        return np.asarray(np.einsum("isk,isk->i", first, full - first))

    def _blocks(self, shard: int) -> Iterator[tuple[int, Values, Values]]:
        """Yield the first node, the views and the own views of each block of a shard."""
        start, end, _ = self.graph.shards[shard]
        features, views = self.graph.features(shard), self.views.open()
        step = max(VALUES_AT_ONCE // self.own_constants.size, 1)
        for first in range(start, end, step):
            last = min(first + step, end)
            own = features[first - start : last - start] @ self.own_weights + self.own_constants
            yield first, views[first:last], np.asarray(own)


def half_covariances(run: Run, probe: Probe, mean: FloatArray) -> tuple[Covariance, Covariance]:
    """Return the covariances between column halves, of the model's views and of its own views."""
    clean = run.clean
    halves = column_halves(clean.graph.num_features, probe.splits, probe.seed)
    step = max(COLUMNS_AT_ONCE // clean.num_classes, 1)
    products = []
    for start in range(0, len(halves), step):
        out = run.workspace.stage_columns(f"halves-{start}", 2, np.float64)
        work = partial(_write_products, run, halves[start : start + step], mean, out)
        run.workspace.stage(f"halves-{start}", work, out)
        products.append(out)
    weight = probe.splits * probe.temperature**2
    sums = run.map(partial(_ratio_sums, graph=clean.graph, products=products, weight=weight))
    model, own = (total(list(parts)).covariance for parts in zip(*sums, strict=True))
    return model, own


def _write_products(run: Run, halves: NDArray[np.bool_], mean: FloatArray, out: Columns) -> None:
    views = _propagated(run, halves, mean)
    means = np.sum(run.map(views.sums), axis=0) / run.clean.graph.num_nodes
    run.map(partial(views.write_products, means=means, out=out))
    views.views.remove()


def _propagated(run: Run, halves: NDArray[np.bool_], mean: FloatArray) -> _Views:
    clean = run.clean
    terms = _terms(clean.graph, clean.model, halves, mean)
    columns = run.workspace.scratch_columns("views", terms.width, np.float32)
    operator, hops = clean.operator, clean.model.hops
    sink = ColumnSink(columns)
    propagate(run.engine, clean.graph, operator, terms, hops, run.workspace, sink)
    used = [matrix for matrix in terms.weights if matrix is not None]
    return _Views(
        graph=clean.graph,
        classes=clean.num_classes,
        views=columns,
        own_weights=np.sum(used, axis=0, dtype=np.float32),
        own_constants=np.sum(terms.constants, axis=0, dtype=np.float32),
    )


def _terms(
    graph: ShardedGraph, model: LinearPasses, halves: NDArray[np.bool_], mean: FloatArray
) -> Projected:
    """Return the projections of each half, with the other half at its mean, and of the full view.

    The two halves' views add up to the view of all columns plus that of the column means.
    """
    width = (len(halves) + 1) * model.num_classes
    weights: list[Values | None] = [None] * (model.hops + 1)
    constants = [np.zeros(width, np.float32) for _ in range(model.hops + 1)]
    for position, hop in enumerate(model.hops_used):
        full = model.weights[position]
        masked = [full * half[:, None] for half in halves]
        weights[hop] = np.hstack([*masked, full]).astype(np.float32)
        offsets = [mean @ (full - part) for part in masked]
        constants[hop] = np.concatenate([*offsets, mean @ full]).astype(np.float32)
    return Projected(graph, weights, constants, width)


def _ratio_sums(
    shard: int, *, graph: ShardedGraph, products: list[Columns], weight: float
) -> tuple[RatioSums, RatioSums]:
    first, last, _ = graph.shards[shard]
    summed = np.asarray(sum(columns.open()[first:last] for columns in products))
    weights = np.full(last - first, weight)
    return RatioSums.of(summed[:, 0], weights), RatioSums.of(summed[:, 1], weights)
