"""Evidence about any model on a sharded graph: sums over all logits, and passes over a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import Reading, read_evidence, sampling_variance
from graphtemper.errors import InputError, OtherModelError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.recalibration.reasons import Reason, sample_run
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.feature_moments import feature_moments
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.modules.reach import TOO_FAR, Module
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.modules.stored_logits import StoredLogits
from graphtemper.signals import evidence, receptive_field, sampling
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import centred
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.graph_parts import Reach
from graphtemper.signals.passes import Keys, mixed

# From other nodes than the sampled ones it would be of logits that are not those of the graph.
_NOT_OF_A_SAMPLE = "snr"


@dataclass(frozen=True, eq=False)
class Measured:
    """The evidence of a sample, and its numbers of nodes and links."""

    evidence: Evidence
    nodes: int
    links: int


def read_module(
    engine: Engine,
    module: Module,
    reach: Reach,
    stored: StoredLogits,
    sums: LogitSums,
    card: SourceCard,
) -> tuple[Reading, Reason]:
    """Read stored logits, whose `sums` are known, against a card, and say on what the model ran."""
    graph = module.graph
    moments = feature_moments(engine, graph)
    work = partial(_neighbour_sums, stored=stored)
    agreeing, log_degree = total(engine.map(work, range(len(stored))))
    homophily = agreeing / (2 * graph.num_edges) if graph.num_edges else None
    known = sums.evidence(homophily, log_degree / graph.num_nodes)
    task = partial(
        measure_sample, module=module, reach=reach, stored=stored, card=card, moments=moments
    )
    [found] = engine.map(task, [draw_nodes(engine, stored, sums, card.temperature, module.seed)])
    if found is None:
        raise InputError(TOO_FAR)
    names = {item.name for item in fields(Evidence) if getattr(known, item.name) is None}
    rest = {name: getattr(found.evidence, name) for name in names - {_NOT_OF_A_SAMPLE}}
    whole = replace(known, **rest)
    reading = read_evidence(card, whole, graph.num_nodes, moments, flat=sums.spread == 0.0)
    variance = sampling_variance(reading, found.nodes, found.links)
    return replace(reading, sampled=variance), sample_run(found.nodes, found.links, reach.depth)


def _neighbour_sums(shard: int, *, stored: StoredLogits) -> FloatArray:
    """Return the number of neighbours of the same predicted class, and the sum of log degrees."""
    graph, predicted, agreeing = stored.graph, stored.classes(), 0
    for rows in graph.blocks(shard):
        agreeing += int((predicted[rows.ends] == predicted[rows.indices]).sum())
    degrees = np.diff(graph.neighbours(shard)[0])
    return np.array([agreeing, signals.log_degree(degrees).sum()])


def draw_nodes(
    engine: Engine, stored: StoredLogits, sums: LogitSums, temperature: float, seed: int
) -> Callable[[int], Rows]:
    """Return a function that samples nodes in proportion to strata of class and confidence."""
    rng = stream(seed, "sampled nodes")
    start, salt = rng.random(), sampling.salt(rng)
    largest = sampling.allocated(sums.strata, min(max(receptive_field.SIZES), sums.count), start)
    # A smaller sample may take one more of a stratum than a larger one, by rounding.
    work = partial(_lowest, stored=stored, temperature=temperature, take=largest + 1, salt=salt)
    parts = engine.map(work, range(len(stored)))
    groups, draws, nodes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return partial(_drawn, groups, draws, nodes, sums.strata, start)


def _lowest(
    shard: int, *, stored: StoredLogits, temperature: float, take: Rows, salt: np.uint64
) -> tuple[Rows, Keys, Rows]:
    [(nodes, logits)] = stored.batches(shard)
    groups = sampling.strata(temperatures.apply(logits / temperature))
    draws = mixed(nodes.astype(np.uint64) + salt)
    chosen = sampling.lowest(groups, draws, take)
    return groups[chosen], draws[chosen], nodes[chosen]


def _drawn(
    groups: Rows, draws: Keys, nodes: Rows, counts: NDArray[np.int64], start: float, size: int
) -> Rows:
    take = sampling.allocated(counts, min(size, int(counts.sum())), start)
    return np.sort(nodes[sampling.lowest(groups, draws, take)])


def measure_sample(
    drawn: Callable[[int], Rows],
    *,
    module: Module,
    reach: Reach,
    stored: StoredLogits,
    card: SourceCard,
    moments: tuple[FloatArray, FloatArray],
) -> Measured | None:
    """Return the evidence of perturbed passes over the fields of a sample; None if too large."""
    whole = ShardedWhole(module.graph)
    with one_blas_thread():
        sample = receptive_field.sample(whole, drawn, module.predictor, reach, moments, module.seed)
        if sample is None:
            return None
        found, known = centred(sample.observation.logits), centred(stored.at(sample.nodes))
        if not receptive_field.agree(found, known):
            node = int(sample.nodes[np.abs(found - known).max(axis=1).argmax()])
            raise OtherModelError(
                f"the logits of node {node} are not those of the model within {reach.depth} edges; "
                "give the number of edges as hops, or check the order of given logits."
            )
        measured = evidence.measure(sample.observation.at(card.temperature), card.probe)
    return Measured(measured, sample.nodes.size, sample.num_links)
