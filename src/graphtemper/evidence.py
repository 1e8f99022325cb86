"""Evidence: everything the atlas measures of one observation, as plain numbers without labels.

A `Probe` fixes at the source how to measure (temperature, noise strength, splits), so that source
and target are measured alike. `Evidence` is what one graph shows; `signals` compares it with the
source's and turns it into the few numbers that the atlas learns from. Each of these is an accuracy
on the scale of log-odds, relative to the same number at the source.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import perturb, signals, split_views
from graphtemper._arrays import FloatArray
from graphtemper._random import stream
from graphtemper.deform import ClassMoments, deform
from graphtemper.observe import Observation
from graphtemper.shifts import column_moments

SIGNALS = (
    "feature-split accuracy",
    "neighbour-split accuracy",
    "noise agreement",
    "source-noise agreement",
    "confidence",
    "edge agreement",
)
"""What the atlas reads when the model can be run."""
LOGIT_SIGNALS = ("confidence", "confident share", "certain share")
"""What it reads when there are only logits."""

# Log-odds are taken of accuracies inside this range; beyond, a finite sample says nothing more.
_RANGE = (0.005, 0.995)


@dataclass(frozen=True, eq=False)
class Probe:
    """How to measure: fixed at the source, carried by the card.

    ``noise_level`` is the feature noise, in column standard deviations, under which the source
    disagrees with itself as often as it is wrong. Thresholds are those of ATC at the source.
    """

    temperature: float
    noise_level: float
    column_std: FloatArray
    confidence_threshold: float
    entropy_threshold: float
    seed: int
    splits: int = 6
    colourings: int = 2
    passes: int = 6
    edge_share: float = 0.3


@dataclass(frozen=True, eq=False)
class Evidence:
    """What one observation shows without labels; None where it takes a model and there is none."""

    confidence: float
    confident_share: float
    certain_share: float
    mean: FloatArray
    covariance: FloatArray
    predicted_shares: FloatArray
    homophily: float
    log_degree: float
    mean_abs_logit: float
    feature_covariance: float | None = None
    neighbour_covariance: float | None = None
    own_covariance: float | None = None
    noise_agreement: float | None = None
    source_noise_agreement: float | None = None
    edge_agreement: float | None = None
    snr: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in asdict(self).items()
        }


def measure(seen: Observation, probe: Probe) -> Evidence:
    """Measure an observation: one clean pass, split views, noisy passes and edge dropout.

    With the default probe 12 half-views, 18 neighbour views, 12 noisy passes and 6 dropout passes,
    all of K columns for a linear model.
    """
    z = split_views.centred(seen.logits)
    p = seen.probabilities
    confidence, entropy = signals.confidence(p), signals.entropy(p)
    deviation = z - z.mean(axis=0)
    basic = Evidence(
        confidence=float(confidence.mean()),
        confident_share=signals.atc_share(confidence, probe.confidence_threshold),
        certain_share=signals.atc_share(-entropy, probe.entropy_threshold),
        mean=z.mean(axis=0),
        covariance=deviation.T @ deviation / len(z),
        predicted_shares=np.bincount(seen.predictions, minlength=seen.num_classes) / len(z),
        homophily=_agreement(seen.all_predictions, seen.graph.edges),
        log_degree=float(signals.log_degree(seen.graph.degrees[seen.nodes]).mean()),
        mean_abs_logit=signals.mean_abs_logit(seen.logits),
    )
    return _with_model(seen, probe, basic) if seen.has_model else basic


def _with_model(seen: Observation, probe: Probe, basic: Evidence) -> Evidence:
    graph, nodes, predictor = seen.graph, seen.nodes, seen.predictor
    mean, _ = column_moments(graph.features)
    halves = split_views.column_halves(graph.num_features, probe.splits, probe.seed)
    feature = [
        split_views.cross_covariance(u[nodes], v[nodes])
        for u, v in split_views.feature_views(predictor, graph, halves, mean)
    ]
    neighbour, own = [], []
    for colouring in range(probe.colourings):
        views = split_views.neighbour_views(predictor, graph, mean, probe.seed + colouring)
        first, second, both = (
            view[nodes] for view in (views.first, views.second, views.own_and_first)
        )
        neighbour.append(split_views.cross_covariance(first, second))
        own.append(split_views.cross_covariance(both, second))
    scale = probe.temperature**2
    return Evidence(
        **{
            **basic.__dict__,
            "feature_covariance": float(np.mean(feature)) / scale,
            "neighbour_covariance": float(np.mean(neighbour)) / scale,
            "own_covariance": float(np.mean(own)) / scale,
            "noise_agreement": noise_agreement(seen, probe.noise_level, probe.passes),
            "source_noise_agreement": noise_agreement(
                seen, probe.noise_level, probe.passes, probe.column_std
            ),
            "edge_agreement": _held_out_agreement(seen, probe),
            "snr": _snr(seen),
        }
    )


def noise_agreement(
    seen: Observation, level: float, passes: int, column_std: FloatArray | None = None
) -> float:
    """Return how often two noisy passes agree, over the observed nodes."""
    runs = perturb.feature_noise(
        seen.predictor, seen.graph, level, passes, seen.seed, column_std=column_std
    )
    votes = perturb.count_votes(logits[seen.nodes] for logits in runs)
    return 1.0 - signals.pairwise_disagreement(votes)


def _held_out_agreement(seen: Observation, probe: Probe) -> float:
    r"""Return Cohen's kappa of the two predictions across an edge that the model did not see.

    Predictions on the two ends of a used edge agree because they share messages; on a dropped edge
    only because their classes do, and they are right.
    """
    edges = seen.graph.edges
    if not len(edges):
        return 0.0
    run = perturb.edge_runner(seen.predictor, seen.graph)
    rng = stream(seen.seed, "held-out edges")
    values = []
    for _ in range(probe.passes):
        keep = rng.random(len(edges)) >= probe.edge_share
        if keep.all():
            keep[rng.integers(len(edges))] = False
        predicted = run(keep).argmax(axis=1)
        pairs = predicted[edges[~keep]]
        shares = np.bincount(pairs.ravel(), minlength=seen.num_classes) / pairs.size
        chance = float((shares**2).sum())
        agree = float((pairs[:, 0] == pairs[:, 1]).mean())
        values.append((agree - chance) / max(1.0 - chance, 1e-3))
    return float(np.mean(values))


def _agreement(predictions: NDArray[np.intp], edges: NDArray[np.int32]) -> float:
    return signals.predicted_homophily(predictions, edges) if len(edges) else 0.0


def _snr(seen: Observation) -> float | None:
    if np.unique(seen.all_predictions).size < 2:
        return None
    return signals.snr_estimate(seen.graph.features, seen.all_predictions)


@dataclass(frozen=True, eq=False)
class Reference:
    """The source itself, against which targets are read: evidence, class moments, accuracy."""

    evidence: Evidence
    moments: ClassMoments
    accuracy: float


def read(evidence: Evidence, reference: Reference) -> dict[str, float]:
    """Return the signals of an observation; those that take a model are missing without one."""
    source, moments = reference.evidence, reference.moments
    found = {
        "confidence": log_odds(evidence.confidence),
        "confident share": log_odds(evidence.confident_share),
        "certain share": log_odds(evidence.certain_share),
    }
    gains = signal_gains(evidence, source)
    if gains is None:
        return found
    accuracies = {
        "feature-split accuracy": gains["feature"],
        "neighbour-split accuracy": gains["neighbour"],
    }
    for name, value in accuracies.items():
        deformed = deform(moments, value, evidence.mean, evidence.covariance)
        found[name] = log_odds(deformed.accuracy)
    found["noise agreement"] = log_odds(evidence.noise_agreement)
    found["source-noise agreement"] = log_odds(evidence.source_noise_agreement)
    found["edge agreement"] = log_odds(_edge_accuracy(evidence, reference))
    return found


def signal_gains(evidence: Evidence, source: Evidence) -> dict[str, float] | None:
    """Return the signal gains of a target against the source, or None without a model.

    The neighbour gain divides what the node and its neighbours share by what two sets of neighbours
    share, so that it is the gain of the whole model and not of its neighbour part.
    """
    pairs = (
        (evidence.feature_covariance, source.feature_covariance),
        (evidence.neighbour_covariance, source.neighbour_covariance),
        (evidence.own_covariance, source.own_covariance),
    )
    if any(value is None for pair in pairs for value in pair):
        return None
    feature, structure = (split_views.gain(float(t or 0), float(s or 0)) for t, s in pairs[:2])
    own = max(float(pairs[2][0] or 0), 1e-12) / max(float(pairs[2][1] or 0), 1e-12)
    neighbour = float(np.clip(own / structure, *split_views.GAIN_RANGE))
    return {"feature": feature, "structure": structure, "neighbour": neighbour}


def _edge_accuracy(evidence: Evidence, reference: Reference) -> float:
    """Return the accuracy that held-out agreement implies if labels agree as at the source.

    With chance-corrected accuracy s, agreement across a held-out edge is proportional to s^2.
    """
    chance = float((reference.moments.shares**2).sum())
    corrected = (reference.accuracy - chance) / max(1.0 - chance, 1e-3)
    now, then = (
        max(float(value.edge_agreement or 0.0), 1e-4) for value in (evidence, reference.evidence)
    )
    ratio = min(float(np.sqrt(now / then)), 1.5)
    return chance + (1.0 - chance) * corrected * ratio


def log_odds(share: float | None) -> float:
    """Return log(a / (1 - a)) of a share, kept finite; a share that is missing counts as 1/2.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    value = float(np.clip(0.5 if share is None else share, *_RANGE))
    return float(np.log(value / (1.0 - value)))
