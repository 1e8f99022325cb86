"""Evidence of `graphtemper.signals.evidence.measure`, computed as sums over shards.

Values agree with those of the in-memory path up to rounding, and so do random draws, but for the
noise on more nodes than `graphtemper.signals.covariances.ENOUGH_NODES`, which is measured at a
sample of them in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.scale.clean_pass import Run, ShardLogits
from graphtemper.scale.evidence.feature_moments import feature_moments, feature_snr
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.neighbours import (
    OwnViews,
    edge_covariances,
    held_out_covariance,
)
from graphtemper.scale.evidence.noise_passes import noise_agreements
from graphtemper.scale.evidence.split_views import half_covariances
from graphtemper.scale.evidence.sums import Sums, total
from graphtemper.scale.node_keys import node_keys
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.evidence import Evidence, Probe, check_logit_size

STAGES = {
    "running the model": 0,
    "means of the features": 12,
    "views on half of the features": 19,
    "agreement of neighbours": 45,
    "held-out edges": 51,
    "noisy passes": 74,
    "separation of the classes": 91,
    "matching the temperature": 93,
    "writing probabilities": 95,
}
"""What a run does, in its order, and the share of the work that is finished before, in percent."""
Progress = Callable[[str, int, int], None]


def report(progress: Progress | None, stage: str) -> None:
    """Say that a stage begins."""
    if progress is not None:
        progress(stage, STAGES[stage], 100)


@dataclass(frozen=True, eq=False)
class ShardedEvidence:
    """Evidence about a sharded graph, moments of its feature columns, and sums of its logits."""

    evidence: Evidence
    column_mean: FloatArray
    column_std: FloatArray
    logits: LogitSums


@dataclass(frozen=True)
class NodeSums(Sums):
    """Sums over nodes of logit signals, and of the logarithm of the degree."""

    logits: LogitSums
    log_degree: float


def measure(run: Run, probe: Probe, seed: int, progress: Progress | None = None) -> ShardedEvidence:
    """Measure a clean pass and its perturbed passes.

    Each step is a stage of the workspace, so a resumed run does not repeat it.
    """
    clean = run.clean
    nodes: NodeSums = total(run.map(partial(node_sums, clean=clean, probe=probe)))
    stage, engine, graph = run.workspace.stage, run.engine, clean.graph
    report(progress, "means of the features")
    moments = stage("columns", lambda: [m.tolist() for m in feature_moments(engine, graph)])
    mean, std = (np.array(values) for values in moments)
    report(progress, "views on half of the features")
    feature, own_feature = stage("halves", lambda: half_covariances(run, probe, mean))
    report(progress, "agreement of neighbours")
    edge, wedge, homophily = stage("edges", lambda: edge_covariances(run, OwnViews.write(run)))
    report(progress, "held-out edges")
    keys = node_keys(engine, graph, run.workspace)
    held, agreement = stage(
        "held-out", lambda: held_out_covariance(run, OwnViews.write(run), probe, seed, keys)
    )
    OwnViews.remove(run)
    report(progress, "noisy passes")
    passes, stds = probe.passes_over(graph.num_nodes, fewest=2), [std, probe.column_std]
    own_noise, source_noise = stage(
        "noise", lambda: noise_agreements(run, probe.noise_level, stds, passes, seed, keys)
    )
    report(progress, "separation of the classes")
    snr = stage("snr", lambda: feature_snr(engine, graph, clean.classes, clean.num_classes, mean))
    evidence = replace(
        nodes.logits.evidence(homophily, nodes.log_degree / graph.num_nodes),
        feature=Covariance(*feature),
        own_feature=Covariance(*own_feature),
        edge=Covariance(*edge),
        wedge=Covariance(*wedge),
        held=Covariance(*held),
        noise_agreement=own_noise,
        source_noise_agreement=source_noise,
        edge_agreement=agreement,
        snr=snr,
    )
    return ShardedEvidence(evidence, mean, std, nodes.logits)


def node_sums(shard: int, *, clean: ShardLogits, probe: Probe) -> NodeSums:
    """Return the sums of a shard's logits and degrees."""
    logits = clean.logits(shard)
    if not np.isfinite(logits).all():
        row = int(np.argmin(np.isfinite(logits).all(axis=1)))
        raise InputError(
            f"the logits of node {clean.graph.shards[shard].first + row} are not finite; check the "
            "scale of the features."
        )
    first, last, _ = clean.graph.shards[shard]
    check_logit_size(logits, range(first, last))
    degrees = clean.graph.degrees(shard)
    return NodeSums(LogitSums.of(logits, probe), float(signals.log_degree(degrees).sum()))
