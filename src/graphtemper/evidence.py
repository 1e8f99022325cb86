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
from graphtemper.errors import InputError
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
# What the source must show for a signal that is read against it.
_LEAST_STANDARD_ERRORS = 5.0
_LEAST_SHARE_OF_VARIANCE = 1e-6
_LEAST_EDGE_AGREEMENT = 0.03
# Larger logits, in units of the source temperature, have no finite variance in float64.
_LARGEST_LOGIT = 1e100


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
    feature_error: float | None = None
    neighbour_error: float | None = None
    own_error: float | None = None
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
    _check_size(seen)
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


def _check_size(seen: Observation) -> None:
    with np.errstate(over="ignore"):
        largest = np.abs(seen.logits).max(axis=1)
    if not (largest < _LARGEST_LOGIT).all():
        row = int(np.argmax(~(largest < _LARGEST_LOGIT)))
        raise InputError(
            f"the logits of node {seen.nodes[row]} reach {largest[row]:.3g} times the source "
            "temperature, too large to measure; check the model's scale."
        )


def _with_model(seen: Observation, probe: Probe, basic: Evidence) -> Evidence:
    graph, nodes, predictor = seen.graph, seen.nodes, seen.predictor
    mean, _ = column_moments(graph.features)
    halves = split_views.column_halves(graph.num_features, probe.splits, probe.seed)
    feature = [
        split_views.node_products(u[nodes], v[nodes])
        for u, v in split_views.feature_views(predictor, graph, halves, mean)
    ]
    neighbour, own = [], []
    for colouring in range(probe.colourings):
        views = split_views.neighbour_views(predictor, graph, mean, probe.seed + colouring)
        first, second, both = (
            view[nodes] for view in (views.first, views.second, views.own_and_first)
        )
        neighbour.append(split_views.node_products(first, second))
        own.append(split_views.node_products(both, second))
    scale = probe.temperature**2
    return Evidence(
        **{
            **basic.__dict__,
            **_mean_and_error("feature", feature, scale),
            **_mean_and_error("neighbour", neighbour, scale),
            **_mean_and_error("own", own, scale),
            "noise_agreement": noise_agreement(seen, probe.noise_level, probe.passes),
            "source_noise_agreement": noise_agreement(
                seen, probe.noise_level, probe.passes, probe.column_std
            ),
            "edge_agreement": _held_out_agreement(seen, probe),
            "snr": _snr(seen),
        }
    )


def _mean_and_error(name: str, products: list[FloatArray], scale: float) -> dict[str, float]:
    """Average over splits first: a node's splits are not independent, its neighbours nearly are."""
    values = np.mean(products, axis=0) / scale
    error = float(values.std() / np.sqrt(values.size))
    if not np.isfinite(error):
        raise InputError(
            "the model's logits overflow when it sees only a part of its input; check the scale of "
            "the features."
        )
    return {f"{name}_covariance": float(values.mean()), f"{name}_error": error}


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
    try:
        return signals.snr_estimate(seen.graph.features, seen.all_predictions)
    except InputError:  # one predicted class, as many as nodes, or features that do not vary
        return None


@dataclass(frozen=True, eq=False)
class Reference:
    """The source itself, against which targets are read: evidence, class moments, accuracy."""

    evidence: Evidence
    moments: ClassMoments
    accuracy: float


def read(evidence: Evidence, reference: Reference) -> dict[str, float]:
    """Return the signals of an observation; those that take a model are missing without one.

    A split whose views share nothing at the source already is not used: its signal is the source's
    accuracy, whatever the target.
    """
    source, moments = reference.evidence, reference.moments
    found = {
        "confidence": log_odds(evidence.confidence),
        "confident share": log_odds(evidence.confident_share),
        "certain share": log_odds(evidence.certain_share),
    }
    gains = signal_gains(evidence, source)
    if gains is None:
        return found
    for split in ("feature", "neighbour"):
        accuracy = (
            deform(moments, gains[split], evidence.mean, evidence.covariance).accuracy
            if split in gains
            else reference.accuracy
        )
        found[f"{split}-split accuracy"] = log_odds(accuracy)
    found["noise agreement"] = log_odds(evidence.noise_agreement)
    found["source-noise agreement"] = log_odds(evidence.source_noise_agreement)
    found["edge agreement"] = log_odds(_edge_accuracy(evidence, reference))
    return found


def readable(source: Evidence) -> tuple[str, ...]:
    """Return the signals that can be read against this source.

    A gain is a ratio to the source's own cross-covariance. Where columns carry no redundancy (a few
    columns, one-hot codes, rotated components) or neighbours say nothing, that is zero up to its
    error and the ratio would be noise; then the signal is not used at all. The same holds for
    agreement across held-out edges where the source shows none.
    """
    splits = _shared_splits(source)
    usable = {
        "feature-split accuracy": "feature" in splits,
        "neighbour-split accuracy": splits >= {"neighbour", "own"},
        "edge agreement": (source.edge_agreement or 0.0) > _LEAST_EDGE_AGREEMENT,
    }
    return tuple(name for name in SIGNALS if usable.get(name, True))


def _shared_splits(source: Evidence) -> set[str]:
    """Return the splits whose views share something at the source, beyond chance and rounding."""
    splits = {
        "feature": (source.feature_covariance, source.feature_error),
        "neighbour": (source.neighbour_covariance, source.neighbour_error),
        "own": (source.own_covariance, source.own_error),
    }
    least = _LEAST_SHARE_OF_VARIANCE * float(np.trace(source.covariance))
    return {
        name
        for name, (value, error) in splits.items()
        if value is not None
        and error is not None
        and value > max(_LEAST_STANDARD_ERRORS * error, least)
    }


def signal_gains(evidence: Evidence, source: Evidence) -> dict[str, float] | None:
    """Return the signal gains of a target against the source, or None without a model.

    The neighbour gain divides what the node and its neighbours share by what two sets of neighbours
    share, so that it is the gain of the whole model and not of its neighbour part. A gain whose
    source covariance is not clearly positive (few or unredundant columns, a model that does not
    read neighbours) is left out.
    """
    pairs = (
        (evidence.feature_covariance, source.feature_covariance),
        (evidence.neighbour_covariance, source.neighbour_covariance),
        (evidence.own_covariance, source.own_covariance),
    )
    if any(value is None for pair in pairs for value in pair):
        return None
    feature, neighbours, own = ((float(t or 0.0), float(s or 0.0)) for t, s in pairs)
    splits = _shared_splits(source)
    gains = {}
    if "feature" in splits:
        gains["feature"] = split_views.gain(*feature)
    if "neighbour" in splits:
        gains["structure"] = split_views.gain(*neighbours)
        if "own" in splits:
            ratio = max(own[0], 0.0) / own[1] / gains["structure"]
            gains["neighbour"] = float(np.clip(ratio, *split_views.GAIN_RANGE))
    return gains


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
