"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Reads top to bottom as the product's sentence: graph -> logits -> signals -> estimate ->
temperature -> probabilities -> report. No label of the target is read anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import evidence, stac, theory
from graphtemper import temperature as temperatures
from graphtemper._arrays import FloatArray
from graphtemper.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.estimators.base import Estimate
from graphtemper.evidence import Evidence
from graphtemper.graph import Graph, Nodes
from graphtemper.observe import Observation
from graphtemper.predict import Predictor
from graphtemper.response import Response, normal_quantile

Verdict = Literal["trust", "caution", "abstain"]

LEVEL = 0.90
# Half-widths of the accuracy interval above which an answer deserves caution, or is not given.
CAUTION_WIDTH, ABSTAIN_WIDTH = 0.06, 0.20
# Distance to the nearest environment, in units of how far left-out families lie from the others.
CAUTION_NOVELTY, ABSTAIN_NOVELTY = 1.5, 4.0


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What graphtemper says about a model on a target graph.

    Attributes
    ----------
    temperature : float
        Divides the model's logits; the source's own where the verdict is ``abstain``.
    probabilities : (n, K) array
        softmax(logits / temperature) of the chosen nodes.
    accuracy : Estimate
        Estimated accuracy with a 90 % interval.
    verdict, reasons
        ``trust``, ``caution`` or ``abstain``, and why, in sentences.
    slope : float
        Source temperature over target temperature: below 1 the model is over-confident.
    severity_bound : float
        The largest ECE that this slope allows at the source temperature (Proposition 4).
    signals : dict
        What was measured, without labels.
    nearest : list of (family, distance)
        Which shifts of the source look most like this graph.
    """

    temperature: float
    probabilities: FloatArray
    accuracy: Estimate
    verdict: Verdict
    reasons: list[str]
    slope: float
    severity_bound: float
    signals: dict[str, float]
    gains: dict[str, float]
    nearest: list[tuple[str, float]]
    nodes: NDArray[np.int64]
    mean_confidence: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the per-node arrays as plain Python values."""
        return {
            "schema": "graphtemper.recalibration/1",
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "temperature": self.temperature,
            "slope": self.slope,
            "severity_bound": self.severity_bound,
            "accuracy": {
                "value": self.accuracy.value,
                "low": self.accuracy.low,
                "high": self.accuracy.high,
                "level": LEVEL,
            },
            "mean_confidence": {
                "before": self.mean_confidence[0],
                "after": self.mean_confidence[1],
            },
            "signals": dict(self.signals),
            "gains": dict(self.gains),
            "nearest": [{"family": name, "distance": value} for name, value in self.nearest],
            "num_nodes": len(self.probabilities),
        }


def recalibrate(
    predictor: Predictor | ArrayLike,
    graph: Graph,
    card: SourceCard,
    nodes: Nodes = None,
    *,
    seed: int = 0,
) -> Recalibration:
    """Estimate the accuracy of a frozen model on an unlabelled graph and recalibrate it.

    Parameters
    ----------
    predictor
        The model the card was built for, or its logits (N, K) on this graph. From logits alone
        nothing can be run again, so fewer signals are read and the interval is wider.
    graph
        The target. Its labels, if any, are removed before anything is measured.
    card
        The source card.
    nodes
        The nodes to recalibrate (default all); nodes the model was trained on should be left out.
    seed
        Seed of the perturbed passes.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(300))
    >>> card = SourceCard.build(model, g, range(300, 600), compositions=0)
    >>> target = csbm.sample(600, degree=6, homophily=0.7, snr=1.0, num_features=8, seed=2)
    >>> result = recalibrate(model, target, card)
    >>> result.verdict in ("trust", "caution", "abstain")
    True
    >>> bool(abs(result.probabilities.sum(axis=1) - 1).max() < 1e-9)
    True
    """
    card.check(predictor, graph)
    seen = Observation(predictor, graph, nodes, temperature=card.probe.temperature, seed=seed)
    if seen.num_classes != card.num_classes:
        raise InputError(
            f"the card is for {card.num_classes} classes but the model gives {seen.num_classes}."
        )
    shown = evidence.measure(seen, card.probe)
    signals = evidence.read(shown, card.reference)
    response = card.response(seen.has_model)
    drift = card.population.drift(*seen.column_moments, seen.graph.num_nodes, card.probe.column_std)
    accuracy = _estimate(response, signals, card, seen.num_nodes, drift)
    matched, note = stac.nearest_temperature(seen.logits, accuracy.value)
    flat = float(np.ptp(seen.logits, axis=1).max()) == 0.0
    verdict, reasons = _judge(response, signals, accuracy, note, flat)
    relative = 1.0 if verdict == "abstain" else matched
    probabilities = _keep_argmax(temperatures.apply(seen.logits, relative), seen.predictions)
    gains = evidence.gains(shown, card.reference.evidence)
    before = float(seen.probabilities.max(axis=1).mean())
    reasons = [_direction(before, accuracy), *reasons]
    return Recalibration(
        temperature=relative * card.probe.temperature,
        probabilities=probabilities,
        accuracy=accuracy,
        verdict=verdict,
        reasons=reasons,
        slope=1.0 / relative,
        severity_bound=float(theory.ece_bound(1.0 / matched, shown.mean_abs_logit)),
        signals=signals | _plain(shown),
        gains={} if gains is None else gains.to_dict(),
        nearest=_nearest(response, signals, card),
        nodes=seen.nodes,
        mean_confidence=(before, float(probabilities.max(axis=1).mean())),
    )


def _keep_argmax(probabilities: FloatArray, predictions: NDArray[np.intp]) -> FloatArray:
    """Keep the prediction on top where a large temperature rounds a small lead to a tie."""
    rows = np.flatnonzero(probabilities.argmax(axis=1) != predictions)
    probabilities[rows, predictions[rows]] = np.nextafter(probabilities[rows].max(axis=1), 2.0)
    return probabilities


def _estimate(
    response: Response,
    signals: dict[str, float],
    card: SourceCard,
    num_nodes: int,
    drift: float,
) -> Estimate:
    """Turn the response into an accuracy with an interval.

    Beside the response's own deviation the interval counts the sampling error of the n nodes here
    and of those the card was made of, and the class shares that may have moved unseen.
    """
    mean, deviation = response.predict(signals)
    centre = evidence.log_odds(card.reference.accuracy) + mean
    value = _share(centre)
    slope = max(value * (1.0 - value), 0.01)
    variance = (
        (response.widening * deviation) ** 2
        + _sampling(value, num_nodes)
        + _sampling(card.reference.accuracy, card.num_nodes)
        + (card.population.accuracy_deviation(drift) / slope) ** 2
    )
    reach = normal_quantile(LEVEL) * float(np.sqrt(variance))
    return Estimate(value, _share(centre - reach), _share(centre + reach), "atlas")


def _sampling(accuracy: float, num_nodes: int) -> float:
    """Return the variance of the log-odds of an accuracy counted on so many nodes."""
    return 1.0 / (num_nodes * max(accuracy * (1.0 - accuracy), 0.01))


def _share(log_odds: float) -> float:
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def _judge(
    response: Response,
    signals: dict[str, float],
    accuracy: Estimate,
    note: str,
    flat: bool,
) -> tuple[Verdict, list[str]]:
    """Say whether the estimate can be trusted, from its width and from how new the target looks."""
    reasons = _unseen(response, signals)
    width = 0.5 * (accuracy.high - accuracy.low)
    novelty = response.novelty(signals) / response.reach
    verdict: Verdict = "trust"
    if width > CAUTION_WIDTH:
        verdict = "caution"
        reasons.append(
            f"the accuracy is only known to within {width:.0%}: between {accuracy.low:.0%} and "
            f"{accuracy.high:.0%}."
        )
    if novelty > CAUTION_NOVELTY:
        verdict = "caution"
        reasons.append(
            f"the graph lies {novelty:.1f} times as far from any shift in the atlas as an unknown "
            "family usually does."
        )
    if note:
        verdict = "caution"
        reasons.append(f"{note}.")
    if width > ABSTAIN_WIDTH or novelty > ABSTAIN_NOVELTY or flat:
        verdict = "abstain"
        reasons.append(
            "the source temperature is kept; labels of about "
            f"{labels_needed(accuracy.value)} target nodes would settle it."
        )
    return verdict, reasons


def labels_needed(accuracy: float, half_width: float = CAUTION_WIDTH) -> int:
    """Return how many labels bring a 90 % interval of the accuracy to the given half-width.

    Examples
    --------
    >>> labels_needed(0.8, 0.08)
    68
    """
    variance = max(accuracy * (1.0 - accuracy), 0.05)
    return int(np.ceil(variance * (normal_quantile(LEVEL) / half_width) ** 2))


def _unseen(response: Response, signals: dict[str, float]) -> list[str]:
    """Name the signals that lie outside everything seen at the source."""
    x = response.coordinates(signals)
    reasons = []
    for name, value, column in zip(response.names, x, response.points.T, strict=True):
        low, high = min(float(column.min()), 0.0), max(float(column.max()), 0.0)
        beyond = max(low - value, value - high)
        if beyond > 1.0:
            side = "below" if value < low else "above"
            reasons.append(
                f"{name} is {beyond:.1f} standard deviations {side} anything seen at the source."
            )
    return reasons


def _direction(confidence: float, accuracy: Estimate) -> str:
    gap = confidence - accuracy.value
    if accuracy.low <= confidence <= accuracy.high:
        word = "about as confident as it is right"
    else:
        word = "over-confident" if gap > 0 else "under-confident"
    return (
        f"at the source temperature the model claims {confidence:.1%} and is estimated to be right "
        f"{accuracy.value:.1%} of the time: {word}."
    )


def _nearest(
    response: Response, signals: dict[str, float], card: SourceCard
) -> list[tuple[str, float]]:
    """Return each family's distance to the target, through its nearest environment."""
    x = response.coordinates(signals)
    distance = np.sqrt(((response.points - x) ** 2).sum(axis=1))
    best: dict[str, float] = {"none": float(np.sqrt((x**2).sum()))}
    for item, value in zip(card.environments, distance, strict=True):
        if len(item.families) == 1:
            name = next(iter(item.families))
            best[name] = min(best.get(name, np.inf), float(value))
    return sorted(best.items(), key=lambda pair: pair[1])


def _plain(shown: Evidence) -> dict[str, float]:
    """Return the single numbers of the evidence, for people and reports."""
    return {
        key: float(value)
        for key, value in shown.to_dict().items()
        if isinstance(value, int | float) and key not in ("confidence",)
    }
