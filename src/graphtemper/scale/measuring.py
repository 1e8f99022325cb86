"""Evidence from shards: what `graphtemper.evidence.measure` measures, as sums over shards.

Numbers without randomness agree with those in memory to rounding; perturbed passes draw other
numbers from the same distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from graphtemper import signals
from graphtemper._arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.evidence import Evidence, Probe
from graphtemper.scale.feature_statistics import feature_moments, feature_snr
from graphtemper.scale.halves import half_covariances
from graphtemper.scale.logit_statistics import LogitSums
from graphtemper.scale.noise_passes import noise_agreements
from graphtemper.scale.run import Clean, Run
from graphtemper.scale.sums import Sums, total
from graphtemper.scale.witnesses import Witnesses, held_out, over_edges

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
    """Measure a clean pass and what perturbed passes make of it."""
    clean = run.clean
    steps = iter(range(1, len(STAGES) + 1))

    def tell(stage: str) -> None:
        if progress is not None:
            progress(stage, next(steps), len(STAGES))

    nodes: _NodeSums = total(run.map(partial(_node_sums, clean=clean, probe=probe)))
    mean, std = feature_moments(run.engine, clean.graph)
    tell("columns")
    feature, own_feature = half_covariances(run, probe, mean)
    tell("halves")
    witnesses = Witnesses.write(run)
    edges = over_edges(run, witnesses)
    tell("edges")
    held = held_out(run, witnesses, probe, seed)
    witnesses.columns.remove()
    tell("held-out edges")
    passes = probe.passes_over(clean.graph.num_nodes, fewest=2)
    by_own, by_source = noise_agreements(
        run, probe.noise_level, [std, probe.column_std], passes, seed
    )
    tell("noise")
    snr = feature_snr(run.engine, clean.graph, clean.classes, clean.num_classes, mean)
    tell("classes")
    basic = nodes.logits.evidence(edges.homophily, nodes.log_degree / clean.graph.num_nodes)
    shown = replace(
        basic,
        feature=feature,
        own_feature=own_feature,
        edge=edges.edge,
        wedge=edges.wedge,
        held=held.covariance,
        noise_agreement=by_own,
        source_noise_agreement=by_source,
        edge_agreement=held.agreement,
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
