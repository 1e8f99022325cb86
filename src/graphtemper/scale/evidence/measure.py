"""Evidence of `graphtemper.signals.evidence.measure`, computed as sums over shards.

Deterministic values agree with those of the in-memory path up to rounding; perturbed passes draw
other random numbers from the same distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.scale.clean_pass import CleanPass, Run
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
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.evidence import Evidence, Probe, check_logit_size

STAGES = ("columns", "halves", "edges", "held-out edges", "noise", "classes")
"""The stages of `measure`, in their order."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class ShardedEvidence:
    """Evidence about a sharded graph, moments of its feature columns, and sums of its logits."""

    evidence: Evidence
    column_mean: FloatArray
    column_std: FloatArray
    logits: LogitSums


@dataclass(frozen=True)
class _NodeSums(Sums):
    logits: LogitSums
    log_degree: float


def measure(run: Run, probe: Probe, seed: int, progress: Progress | None = None) -> ShardedEvidence:
    """Measure a clean pass and its perturbed passes.

    Each of the `STAGES` is a stage of the workspace, so a resumed run does not repeat it.
    """
    clean = run.clean
    steps = iter(range(1, len(STAGES) + 1))

    def report(stage: str) -> None:
        if progress is not None:
            progress(stage, next(steps), len(STAGES))

    nodes: _NodeSums = total(run.map(partial(_node_sums, clean=clean, probe=probe)))
    stage, engine, graph = run.workspace.stage, run.engine, clean.graph
    moments = stage("columns", lambda: [m.tolist() for m in feature_moments(engine, graph)])
    mean, std = (np.array(values) for values in moments)
    report("columns")
    feature, own_feature = stage("halves", lambda: half_covariances(run, probe, mean))
    report("halves")
    edge, wedge, homophily = stage("edges", lambda: edge_covariances(run, OwnViews.write(run)))
    report("edges")
    held, agreement = stage(
        "held-out", lambda: held_out_covariance(run, OwnViews.write(run), probe, seed)
    )
    OwnViews.remove(run)
    report("held-out edges")
    passes, stds = probe.passes_over(graph.num_nodes, fewest=2), [std, probe.column_std]
    own_noise, source_noise = stage(
        "noise", lambda: noise_agreements(run, probe.noise_level, stds, passes, seed)
    )
    report("noise")
    snr = stage("snr", lambda: feature_snr(engine, graph, clean.classes, clean.num_classes, mean))
    report("classes")
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


def _node_sums(shard: int, *, clean: CleanPass, probe: Probe) -> _NodeSums:
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
    return _NodeSums(LogitSums.of(logits, probe), float(signals.log_degree(degrees).sum()))
