"""Evidence from shards: what `graphtemper.signals.evidence.measure` measures, as sums over shards.

Numbers without randomness agree with those in memory to rounding; perturbed passes draw other
numbers from the same distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.scale.clean_pass import Clean, Run
from graphtemper.scale.evidence.feature_moments import feature_moments, feature_snr
from graphtemper.scale.evidence.logit_sums import LogitSums
from graphtemper.scale.evidence.neighbours import Witnesses, held_out, over_edges
from graphtemper.scale.evidence.noise_passes import noise_agreements
from graphtemper.scale.evidence.split_views import half_covariances
from graphtemper.scale.evidence.sums import Sums, total
from graphtemper.signals import pointwise as signals
from graphtemper.signals.evidence import Evidence, Probe
from graphtemper.signals.neighbours import Covariance

STAGES = ("columns", "halves", "edges", "held-out edges", "noise", "classes")
"""What is measured, in this order."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Measured:
    """What a sharded graph shows: evidence, moments of the columns, and the logits' own sums."""

    evidence: Evidence
    column_mean: FloatArray
    column_std: FloatArray
    logits: LogitSums


@dataclass(frozen=True)
class _NodeSums(Sums):
    logits: LogitSums
    log_degree: float


def measure(run: Run, probe: Probe, seed: int, progress: Progress | None = None) -> Measured:
    """Measure a clean pass and what perturbed passes make of it.

    Each of the `STAGES` is one of the workspace, so a run that was killed does not repeat it.
    """
    clean = run.clean
    steps = iter(range(1, len(STAGES) + 1))

    def tell(stage: str) -> None:
        if progress is not None:
            progress(stage, next(steps), len(STAGES))

    nodes: _NodeSums = total(run.map(partial(_node_sums, clean=clean, probe=probe)))
    stage, engine, graph = run.room.stage, run.engine, clean.graph
    moments = stage("columns", lambda: [m.tolist() for m in feature_moments(engine, graph)])
    mean, std = (np.array(values) for values in moments)
    tell("columns")
    feature, own_feature = stage("halves", lambda: half_covariances(run, probe, mean))
    tell("halves")
    edge, wedge, homophily = stage("edges", lambda: over_edges(run, Witnesses.write(run)))
    tell("edges")
    held, agreement = stage("held-out", lambda: held_out(run, Witnesses.write(run), probe, seed))
    Witnesses.forget(run)
    tell("held-out edges")
    passes, stds = probe.passes_over(graph.num_nodes, fewest=2), [std, probe.column_std]
    by_own, by_source = stage(
        "noise", lambda: noise_agreements(run, probe.noise_level, stds, passes, seed)
    )
    tell("noise")
    snr = stage("snr", lambda: feature_snr(engine, graph, clean.classes, clean.num_classes, mean))
    tell("classes")
    shown = replace(
        nodes.logits.evidence(homophily, nodes.log_degree / graph.num_nodes),
        feature=Covariance(*feature),
        own_feature=Covariance(*own_feature),
        edge=Covariance(*edge),
        wedge=Covariance(*wedge),
        held=Covariance(*held),
        noise_agreement=by_own,
        source_noise_agreement=by_source,
        edge_agreement=agreement,
        snr=snr,
    )
    return Measured(shown, mean, std, nodes.logits)


def _node_sums(shard: int, *, clean: Clean, probe: Probe) -> _NodeSums:
    logits = clean.logits(shard)
    if not np.isfinite(logits).all():
        row = int(np.argmin(np.isfinite(logits).all(axis=1)))
        raise InputError(
            f"the logits of node {clean.graph.shards[shard].first + row} are not finite; check the "
            "scale of the features."
        )
    degrees = clean.graph.degrees(shard)
    return _NodeSums(LogitSums.of(logits, probe), float(signals.log_degree(degrees).sum()))
