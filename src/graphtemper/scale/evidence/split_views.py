"""Split views on shards: the model on halves of its columns, see `graphtemper.signals.split_views`.

All first halves of some splits, and the whole, are propagated side by side; second halves follow by
subtraction. Views are centred over all nodes, so a first stage adds up the columns and a second one
multiplies the views of each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.operators import COLUMNS_AT_ONCE
from graphtemper.models.linear import LinearGNN
from graphtemper.scale.clean_pass import Run
from graphtemper.scale.evidence.sums import RatioSums, total
from graphtemper.scale.propagation import Kept, Projected, Values, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import VALUES_AT_ONCE, ShardedGraph
from graphtemper.signals.evidence import Probe
from graphtemper.signals.neighbours import Covariance
from graphtemper.signals.split_views import column_halves


@dataclass(frozen=True, eq=False)
class _Views:
    """Some splits: their views on disk, and what makes their own views from features.

    Columns are the first halves' K logits, split after split, then those of all columns.
    """

    graph: ShardedGraph
    classes: int
    views: Columns
    own_weights: Values
    own_constants: Values

    def sums(self, shard: int) -> FloatArray:
        """Return the sum over nodes of views, and of own views: (2, C)."""
        found = np.zeros((2, self.own_constants.size))
        for _, *both in self._pieces(shard):
            for place, values in enumerate(both):
                found[place] += values.sum(axis=0, dtype=np.float64)
        return found

    def products(self, shard: int, means: FloatArray, out: Columns) -> None:
        """Write each node's products of first and second half, summed over splits: (n, 2)."""
        for first, *both in self._pieces(shard):
            rows = [self._product(v, m) for v, m in zip(both, means, strict=True)]
            out.write(first, np.column_stack(rows))

    def _product(self, values: Values, mean: FloatArray) -> FloatArray:
        by_split = (values - mean).reshape(len(values), -1, self.classes)
        by_split -= by_split.mean(axis=2, keepdims=True)
        first, whole = by_split[:, :-1], by_split[:, -1:]
        return np.asarray(np.einsum("isk,isk->i", first, whole - first))

    def _pieces(self, shard: int) -> Iterator[tuple[int, Values, Values]]:
        """Yield the first node, the views and the own views of a shard's nodes, some at a time."""
        start, end, _ = self.graph.shards[shard]
        features, views = self.graph.features(shard), self.views.open()
        step = max(VALUES_AT_ONCE // self.own_constants.size, 1)
        for first in range(start, end, step):
            last = min(first + step, end)
            own = features[first - start : last - start] @ self.own_weights + self.own_constants
            yield first, views[first:last], np.asarray(own)


def half_covariances(run: Run, probe: Probe, mean: FloatArray) -> tuple[Covariance, Covariance]:
    """Return the covariance between halves of the columns, of the model and of its own view."""
    clean = run.clean
    halves = column_halves(clean.graph.num_features, probe.splits, probe.seed)
    step = max(COLUMNS_AT_ONCE // clean.num_classes, 1)
    kept = []
    for start in range(0, len(halves), step):
        out = run.room.lasting(f"halves-{start}", 2, np.float64)
        work = partial(_write_products, run, halves[start : start + step], mean, out)
        run.room.stage(f"halves-{start}", work, out)
        kept.append(out)
    weight = probe.splits * probe.temperature**2
    sums = run.map(partial(_ratio_sums, graph=clean.graph, kept=kept, weight=weight))
    whole, alone = (total(list(parts)).covariance for parts in zip(*sums, strict=True))
    return whole, alone


def _write_products(run: Run, halves: NDArray[np.bool_], mean: FloatArray, out: Columns) -> None:
    views = _propagated(run, halves, mean)
    means = np.sum(run.map(views.sums), axis=0) / run.clean.graph.num_nodes
    run.map(partial(views.products, means=means, out=out))
    views.views.remove()


def _propagated(run: Run, halves: NDArray[np.bool_], mean: FloatArray) -> _Views:
    clean = run.clean
    terms = _terms(clean.graph, clean.model, halves, mean)
    columns = run.room.columns("views", terms.width, np.float32)
    operator, hops = clean.operator, clean.model.hops
    propagate(run.engine, clean.graph, operator, terms, hops, run.room, Kept(columns))
    used = [matrix for matrix in terms.weights if matrix is not None]
    return _Views(
        graph=clean.graph,
        classes=clean.num_classes,
        views=columns,
        own_weights=np.sum(used, axis=0, dtype=np.float32),
        own_constants=np.sum(terms.constants, axis=0, dtype=np.float32),
    )


def _terms(
    graph: ShardedGraph, model: LinearGNN, halves: NDArray[np.bool_], mean: FloatArray
) -> Projected:
    """Project each half, the other half set to the column mean, and all columns plus the mean.

    The two halves' views sum to the view of all columns plus that of the means alone.
    """
    width = (len(halves) + 1) * model.intercept_.size
    weights: list[Values | None] = [None] * (model.hops + 1)
    constants = [np.zeros(width, np.float32) for _ in range(model.hops + 1)]
    for position, hop in enumerate(model.hops_used):
        plain = model.weights_[position]
        seen = [plain * half[:, None] for half in halves]
        weights[hop] = np.hstack([*seen, plain]).astype(np.float32)
        unseen = [mean @ (plain - part) for part in seen]
        constants[hop] = np.concatenate([*unseen, mean @ plain]).astype(np.float32)
    return Projected(graph, weights, constants, width)


def _ratio_sums(
    shard: int, *, graph: ShardedGraph, kept: list[Columns], weight: float
) -> tuple[RatioSums, RatioSums]:
    first, last, _ = graph.shards[shard]
    both = np.asarray(sum(columns.open()[first:last] for columns in kept))
    ones = np.full(last - first, weight)
    return RatioSums.of(both[:, 0], ones), RatioSums.of(both[:, 1], ones)
