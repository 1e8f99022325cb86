"""Evidence about any model on a sharded graph: sums over all logits, and passes over a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.heap import reused_memory
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.errors import InputError
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.modules.reach import Module
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.modules.stored_logits import StoredLogits, whole_graph
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.signals import evidence, receptive_field, sampling
from graphtemper.signals.covariances import Covariance, centred
from graphtemper.signals.evidence import Evidence, Probe
from graphtemper.signals.graph_parts import Reach
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Keys, mixed

_COVARIANCES = ("feature", "own_feature", "edge", "wedge", "held")
_ARRAYS = ("mean", "covariance", "predicted_shares")


@dataclass(frozen=True)
class Sampled:
    """How many nodes and links a sample has, how deep its fields are, and the work of a pass."""

    nodes: int
    links: int
    depth: int
    work: float


def predicted_homophily(engine: Engine, graph: ShardedGraph, classes: Columns) -> float | None:
    """Return `graphtemper.signals.predicted_homophily` of all edges; None without any."""
    work = partial(_agreeing, graph=graph, classes=classes)
    agreeing = sum(engine.map(work, range(len(graph.shards))))
    return agreeing / (2 * graph.num_edges) if graph.num_edges else None


def _agreeing(shard: int, *, graph: ShardedGraph, classes: Columns) -> int:
    predicted = classes.open()[:, 0]
    return sum(
        int((predicted[rows.ends] == predicted[rows.indices]).sum()) for rows in graph.blocks(shard)
    )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Nodes with the lowest draws of each stratum, and the numbers of nodes of all strata."""

    groups: NDArray[np.int64]
    draws: Keys
    nodes: NDArray[np.int64]
    counts: NDArray[np.int64]
    start: float

    def __call__(self, size: int) -> NDArray[np.int64]:
        """Return a sample of ``size`` nodes, sorted."""
        take = sampling.allocated(self.counts, min(size, int(self.counts.sum())), self.start)
        return np.sort(self.nodes[sampling.lowest(self.groups, self.draws, take)])


def draw_nodes(engine: Engine, stored: StoredLogits, seed: int, keys: Columns) -> _Drawn:
    """Draw candidates for samples in proportion to strata of class and confidence, by keys."""
    shards = range(len(stored.parts))
    rng = stream(seed, "sampled nodes")
    counts = total(engine.map(partial(_count_strata, stored=stored), shards))
    start, salt = rng.random(), sampling.salt(rng)
    largest = sampling.allocated(counts, min(max(receptive_field.SIZES), counts.sum()), start)
    # A smaller sample may take one more of a stratum than a larger one, by rounding.
    work = partial(_lowest, stored=stored, take=largest + 1, salt=salt, keys=keys)
    groups, draws, nodes = (
        np.concatenate(column) for column in zip(*engine.map(work, shards), strict=True)
    )
    return _Drawn(groups, draws, nodes, counts, start)


def _strata(shard: int, stored: StoredLogits) -> NDArray[np.int64]:
    return sampling.strata(temperatures.apply(stored.logits(shard)))


def _count_strata(shard: int, *, stored: StoredLogits) -> NDArray[np.int64]:
    most = sampling.num_strata(stored.num_classes)
    return np.bincount(_strata(shard, stored), minlength=most)


def _lowest(
    shard: int, *, stored: StoredLogits, take: NDArray[np.int64], salt: np.uint64, keys: Columns
) -> tuple[NDArray[np.int64], Keys, NDArray[np.int64]]:
    first, last, _ = stored.graph.shards[shard]
    groups, nodes = _strata(shard, stored), np.arange(first, last)
    draws = mixed(keys.open()[first:last, 0] + salt)
    chosen = sampling.lowest(groups, draws, take)
    return groups[chosen], draws[chosen], nodes[chosen]


@dataclass(frozen=True, eq=False)
class SampleTask:
    """What the evidence of a sample is measured with, as the worker that does it needs it.

    Attributes
    ----------
    module, reach
        The model and the graph, and how far the model reads.
    stored
        Logits of all nodes.
    probe
        How the card measured the source.
    basic
        Evidence that is known from all nodes.
    moments
        Mean and standard deviation of the feature columns.
    keys
        Numbers by which nodes are drawn.
    """

    module: Module
    reach: Reach
    stored: StoredLogits
    probe: Probe
    basic: Evidence
    moments: tuple[FloatArray, FloatArray]
    keys: Columns

    def __call__(self, drawn: _Drawn) -> dict[str, Any] | None:
        """Return the evidence and the sample as plain values, or None if fields are too large."""
        module, reach = self.module, self.reach
        whole = ShardedWhole(module.graph, node_keys=self.keys)
        with one_blas_thread(), reused_memory():
            sample = receptive_field.sample(
                whole, drawn, module.predictor, reach, self.moments, module.seed
            )
            if sample is None:
                return None
            found, known = (
                centred(sample.observation.logits),
                centred(self.stored.raw(sample.nodes)),
            )
            if not receptive_field.agree(found, known):
                node = int(sample.nodes[np.abs(found - known).max(axis=1).argmax()])
                raise InputError(
                    f"the logits of node {node} are not those of the model within {reach.depth} "
                    "edges; give the number of edges as hops, or check the order of given logits."
                )
            at_source = sample.observation.at(self.stored.temperature)
            measured = evidence.with_model(at_source, self.probe, self.basic)
        facts = Sampled(sample.nodes.size, sample.num_links, sample.depth, sample.work)
        return {"evidence": measured.to_dict(), "sample": facts.__dict__}


def measure_sample(engine: Engine, task: SampleTask) -> dict[str, Any] | None:
    """Draw a sample and return what a `SampleTask` finds there."""
    drawn = draw_nodes(engine, task.stored, task.module.seed, task.keys)
    found: dict[str, Any] | None = engine.map(task, [drawn])[0]
    return found


def measure_whole(
    engine: Engine, module: Module, stored: StoredLogits, probe: Probe, given: bool
) -> dict[str, Any]:
    """Return the evidence of passes over the whole graph in memory, as plain values.

    Given logits are compared with the model's first.
    """
    task = partial(_measure_whole, module=module, stored=stored, probe=probe, given=given)
    return {"evidence": engine.map(task, [0])[0], "sample": None}


def _measure_whole(
    _: int, *, module: Module, stored: StoredLogits, probe: Probe, given: bool
) -> dict[str, Any]:
    graph, logits = whole_graph(stored)
    observation = Observation(module.predictor, graph, seed=module.seed, logits=logits)
    with one_blas_thread(), reused_memory():
        if given:
            receptive_field.check_whole(observation, module.predictor)
        measured = evidence.measure(observation.at(stored.temperature), probe)
    return measured.to_dict()


def read_evidence(values: dict[str, Any]) -> Evidence:
    """Return evidence from the plain values of `Evidence.to_dict`, through JSON."""
    arrays = {name: np.array(values[name]) for name in _ARRAYS}
    covariances = {
        name: None if values[name] is None else Covariance(*values[name]) for name in _COVARIANCES
    }
    return replace(Evidence(**values), **arrays, **covariances)  # type: ignore[arg-type]
