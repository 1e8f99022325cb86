"""Agreement of noisy passes on shards; noise is drawn and propagated in logit space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.operators import COLUMNS_AT_ONCE
from graphtemper.scale.clean_pass import Run
from graphtemper.scale.propagation import Noise, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.signals import pointwise as signals


@dataclass(frozen=True)
class _ClassSink:
    """A sink that adds noise to the clean logits and stores the predicted class of each pass."""

    clean: Columns
    predicted: Columns
    passes: int

    def put(self, rows: Rows, values: Any) -> None:
        clean = self.clean.open()[rows.first : rows.last]
        by_pass = values.reshape(len(values), self.passes, -1) + clean[:, None, :]
        self.predicted.write(rows.first, by_pass.argmax(axis=2))


def noise_agreements(
    run: Run, level: float, stds: Sequence[FloatArray], passes: int, seed: int, keys: Columns
) -> list[float]:
    """Return how often two noisy passes agree, for each of several column standard deviations.

    As many passes as are efficient are propagated together. A pass leaves one class per node.
    """
    clean = run.clean
    factors = [clean.model.noise_factor(level * std) for std in stds]
    step = max(COLUMNS_AT_ONCE // (clean.num_classes * len(stds)), 1)
    predictions = []
    for start in range(0, passes, step):
        numbers = range(start, min(start + step, passes))
        terms = Noise(factors, numbers, clean.model.hops_used, clean.num_classes, seed, keys)
        width = len(stds) * len(numbers)
        predicted = run.workspace.stage_columns(f"noise-{start}", width, np.int32)
        sink = _ClassSink(clean.values, predicted, width)
        operator, hops = clean.operator, clean.model.hops
        run.workspace.stage(
            f"noise-{start}",
            partial(propagate, run.engine, clean.graph, operator, terms, hops, run.workspace, sink),
            predicted,
        )
        predictions.append(predicted)
    work = partial(
        _disagreements,
        graph=clean.graph,
        predictions=predictions,
        num_stds=len(stds),
        num_classes=clean.num_classes,
    )
    sums = run.map(work)
    return [1.0 - value / clean.graph.num_nodes for value in np.sum(sums, axis=0)]


def _disagreements(
    shard: int,
    *,
    graph: ShardedGraph,
    predictions: Sequence[Columns],
    num_stds: int,
    num_classes: int,
) -> list[float]:
    """Return the sum over nodes of the fraction of pass pairs that disagree, per deviation."""
    first, last, _ = graph.shards[shard]
    rows = np.arange(last - first)
    sums = []
    for position in range(num_stds):
        votes = np.zeros((last - first, num_classes), dtype=np.int64)
        for columns in predictions:
            by_std = columns.open()[first:last].reshape(last - first, num_stds, -1)
            for classes in by_std[:, position].T:
                votes[rows, classes] += 1
        sums.append(float(signals.instability(votes).sum()))
    return sums
