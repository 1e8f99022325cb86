"""Agreement of noisy passes on shards: noise is drawn and propagated in logit space."""

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
from graphtemper.signals.passes import noise_factor


@dataclass(frozen=True)
class _Classes:
    """A sink that adds changes to the clean logits and keeps the predicted class of each pass."""

    clean: Columns
    predicted: Columns
    passes: int

    def put(self, rows: Rows, values: Any) -> None:
        clean = self.clean.open()[rows.first : rows.last]
        by_pass = values.reshape(len(values), self.passes, -1) + clean[:, None, :]
        self.predicted.write(rows.first, by_pass.argmax(axis=2))


def noise_agreements(
    run: Run, level: float, stds: Sequence[FloatArray], passes: int, seed: int
) -> list[float]:
    """Return how often two noisy passes agree, for noise of each of some column deviations.

    As many passes and deviations are propagated together as columns are worth it; what stays of a
    pass is one class a node.
    """
    clean = run.clean
    factors = [noise_factor(clean.model, level * std) for std in stds]
    together = max(COLUMNS_AT_ONCE // (clean.num_classes * len(stds)), 1)
    kept = []
    for start in range(0, passes, together):
        some = range(start, min(start + together, passes))
        terms = Noise(factors, some, clean.model.hops_used, clean.num_classes, seed)
        width = len(stds) * len(some)
        predicted = run.room.lasting(f"noise-{start}", width, np.int32)
        sink = _Classes(clean.values, predicted, width)
        operator, hops = clean.operator, clean.model.hops
        run.room.stage(
            f"noise-{start}",
            partial(propagate, run.engine, clean.graph, operator, terms, hops, run.room, sink),
            predicted,
        )
        kept.append(predicted)
    count = clean.num_classes
    sums = run.map(
        partial(_disagreements, graph=clean.graph, kept=kept, stds=len(stds), classes=count)
    )
    return [1.0 - value / clean.graph.num_nodes for value in np.sum(sums, axis=0)]


def _disagreements(
    shard: int, *, graph: ShardedGraph, kept: Sequence[Columns], stds: int, classes: int
) -> list[float]:
    """Return the sum over nodes of the share of pairs of passes that disagree, by deviation."""
    first, last, _ = graph.shards[shard]
    rows = np.arange(last - first)
    found = []
    for place in range(stds):
        votes = np.zeros((last - first, classes), dtype=np.int64)
        for columns in kept:
            predicted = columns.open()[first:last].reshape(last - first, stds, -1)[:, place]
            for number in range(predicted.shape[1]):
                votes[rows, predicted[:, number]] += 1
        found.append(float(signals.instability(votes).sum()))
    return found
