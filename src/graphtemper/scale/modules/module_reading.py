"""Any model on a sharded graph, read against a card: logits everywhere, evidence from a sample."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from graphtemper.card import budget
from graphtemper.card.card import SourceCard
from graphtemper.card.reading import Reading, read_evidence, sampling_variance
from graphtemper.errors import InputError
from graphtemper.recalibration.reasons import Reason, sample_run, whole_graph_run
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.feature_moments import feature_moments, feature_snr
from graphtemper.scale.evidence.measure import Progress, node_sums
from graphtemper.scale.evidence.sums import total
from graphtemper.scale.modules import measuring, stored_logits
from graphtemper.scale.modules.measuring import Sampled, SampleTask
from graphtemper.scale.modules.reach import Module, check_hubs, find_reach, tested_nodes
from graphtemper.scale.modules.sharded_fields import most_rows
from graphtemper.scale.modules.stored_logits import StoredLogits
from graphtemper.scale.node_keys import node_keys
from graphtemper.scale.storage.shards import ShardedGraph
from graphtemper.scale.storage.workspace import Workspace
from graphtemper.signals import receptive_field
from graphtemper.signals.covariances import centred
from graphtemper.signals.graph_parts import Reach
from graphtemper.signals.receptive_field import MOST_LINKS, MOST_ROWS

STAGES = {
    "finding how far the model reads": 0,
    "running the model": 5,
    "means of the features": 70,
    "running the model on a sample": 76,
}
"""What is done before the temperature is matched, and the share of the work finished before."""


@dataclass(frozen=True, eq=False)
class ModuleReading:
    """The logits of a model, what they say against a card, how it ran, and in how many passes."""

    stored: StoredLogits
    reading: Reading
    reasons: list[Reason]
    passes: int


def read_module(
    engine: Engine,
    module: Module,
    card: SourceCard,
    stages: Workspace,
    *,
    hops: int | None = None,
    logits: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ModuleReading:
    """Compute or copy the logits of all nodes, and measure the evidence.

    See `graphtemper.scale.recalibrate_shards` for the arguments.
    """

    def begin(stage: str) -> None:
        if progress is not None:
            progress(stage, STAGES[stage], 100)

    graph = module.graph
    stored = StoredLogits.describe(graph, card.probe.temperature, card.num_classes, stages)
    begin("finding how far the model reads")
    work, known = 0.0, logits is not None or _is_loadable(graph)
    if logits is not None:
        work = stored_logits.copy_given(logits, stored, stages)
    elif known:  # no larger than a part that may be read, and exact however far the model reads
        work = stored_logits.compute_whole(engine, module, stored, stages)
    reach = _reach(engine, module, stages, hops, stored if known else None)
    begin("running the model")
    if not known and reach is not None:
        work = stored_logits.compute_on_fields(engine, module, reach, stored, stages)
    stored_logits.write_classes(engine, stored, stages)
    begin("means of the features")
    moments = stages.stage("columns", lambda: [m.tolist() for m in feature_moments(engine, graph)])
    mean, std = (np.array(values) for values in moments)
    sums = total(engine.map(partial(node_sums, clean=stored, probe=card.probe), _shards(graph)))
    begin("running the model on a sample")

    def measure() -> dict[str, Any]:
        homophily = measuring.predicted_homophily(engine, graph, stored.classes)
        basic = sums.logits.evidence(homophily, sums.log_degree / graph.num_nodes)
        snr = feature_snr(engine, graph, stored.classes, stored.num_classes, mean)
        found = None
        if reach is not None:
            basic, keys = replace(basic, snr=snr), node_keys(engine, graph, stages)
            task = SampleTask(module, reach, stored, card.probe, basic, (mean, std), keys)
            found = measuring.measure_sample(engine, task)
        if found is None:
            _check_loadable(graph)
            given = logits is not None
            found = measuring.measure_whole(engine, module, stored, card.probe, given)
        return found

    values = stages.stage("evidence", measure)
    measured = measuring.read_evidence(values["evidence"])
    flat = sums.logits.spread == 0.0
    reading = read_evidence(card, measured, graph.num_nodes, (mean, std), flat)
    count = partial(budget.count_target, card.probe, has_edges=graph.num_edges > 0)
    if values["sample"] is None:
        ran = [] if _is_small(graph) else [whole_graph_run()]
        return ModuleReading(stored, reading, ran, count(graph.num_nodes))
    sample = Sampled(**values["sample"])
    variance = sampling_variance(reading, sample.nodes, sample.links)
    return ModuleReading(
        stored,
        replace(reading, sampled=variance),
        [sample_run(sample.nodes, sample.links, sample.depth)],
        math.ceil(work + count(sample.nodes) * sample.work),
    )


def _shards(graph: ShardedGraph) -> range:
    return range(len(graph.shards))


def _is_small(graph: ShardedGraph) -> bool:
    """Return whether the model runs on the whole graph, which is more precise."""
    return graph.num_nodes <= receptive_field.SMALL and _is_loadable(graph)


def _is_loadable(graph: ShardedGraph) -> bool:
    """Return whether the whole graph is no larger than the largest part that is read."""
    return graph.num_nodes <= most_rows(graph) and graph.num_edges <= MOST_LINKS


def _check_loadable(graph: ShardedGraph) -> None:
    if not _is_loadable(graph):
        raise InputError(
            "what the model reads for a useful sample of nodes is most of the graph, or more than "
            f"{MOST_ROWS:,} nodes or {MOST_LINKS:,} edges; run graphtemper.recalibrate where the "
            "graph fits into memory, or recalibrate_logits."
        )


def _reach(
    engine: Engine,
    module: Module,
    stages: Workspace,
    hops: int | None,
    known: StoredLogits | None,
) -> Reach | None:
    """Return how far the model reads, or None to run it on the whole graph in memory."""
    if _is_small(module.graph):
        return None
    task = partial(_find, module=module, hops=hops, known=known)
    work: Callable[[], Any] = lambda: engine.map(task, [0])[0]  # noqa: E731
    found = stages.stage("reach", work)
    if found is None:
        _check_loadable(module.graph)
        return None
    return Reach(*found)


def _find(_: int, *, module: Module, hops: int | None, known: StoredLogits | None) -> Reach | None:
    if known is None:
        reach = find_reach(module, hops, None)
        if reach is not None:
            check_hubs(module, reach)
        return reach
    tested = tested_nodes(module.graph, module.seed)
    order = np.argsort(tested)
    logits = centred(known.raw(tested[order]))[np.argsort(order)]
    reach = find_reach(module, hops, logits)
    if reach is None and not _is_loadable(module.graph) and find_reach(module, hops, None):
        raise InputError(
            "the given logits are not those of the model on this graph; check the order of the "
            "rows, and that the model is the same."
        )
    return reach
