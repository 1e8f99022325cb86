"""The main job: a frozen model, an unlabelled graph and a source card give honest probabilities.

Reads top to bottom as the product's sentence: graph -> logits -> signals -> estimate ->
temperature -> probabilities -> report. The target graph's own labels are never read; those that a
caller hands over are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import evidence, few_labels, node_temperatures, stac, theory
from graphtemper import temperature as temperatures
from graphtemper._arrays import FloatArray
from graphtemper.background import Background, nearest_families
from graphtemper.card import SourceCard
from graphtemper.class_shares import support
from graphtemper.class_shares.support import ClassShares
from graphtemper.errors import InputError
from graphtemper.estimators.base import Estimate
from graphtemper.evidence import Evidence
from graphtemper.few_labels import Labels, Learned, Prior, to_share
from graphtemper.graph import Graph, Nodes
from graphtemper.labelling import LabelPlan, read_labels
from graphtemper.node_temperatures import Temperature
from graphtemper.observe import Observation
from graphtemper.predict import Predictor
from graphtemper.response import Response
from graphtemper.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    LEVEL,
    Verdict,
    direction,
    judge,
    novelty,
)

# Standard deviation of the log-odds of accuracy where the atlas has nothing to say.
VAGUE = 1.5
# How far, in log-odds, a shift usually moves accuracy away from mean confidence: what is known of
# the temperature where the atlas's own answer is not used and the source temperature is kept.
KEPT = 0.5


@dataclass(frozen=True, eq=False)
class Recalibration:
    """What graphtemper says about a model on a target graph.

    Attributes
    ----------
    temperature : float, or (n,) array with ``per_node=True``
        Divides the model's logits; the source's own where the verdict is ``abstain``.
    probabilities : (n, K) array
        softmax(logits / temperature) of the chosen nodes.
    accuracy : Estimate
        Estimated accuracy with a 90 % interval; a credible interval where labels were given.
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
    num_labels : int
        How many labels of the target the caller gave.
    class_shares : (K,) array or None
        Estimated class shares of the target; None where none explain its predictions, or the card
        is too old to tell.
    logit_shift : (K,) array or None
        What a correction for class shares added to every node's logits:
        softmax((logits + shift) / temperature). None without a correction.
    background : Background
        What `report` shows beside the answer.
    """

    temperature: Temperature
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
    num_labels: int = 0
    class_shares: FloatArray | None = None
    logit_shift: FloatArray | None = None
    background: Background | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the per-node arrays as plain Python values."""
        return {
            "schema": "graphtemper.recalibration/1",
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            **node_temperatures.describe(self.temperature),
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
            "num_labels": self.num_labels,
            "class_shares": _listed(self.class_shares),
            "logit_shift": _listed(self.logit_shift),
        }

    def report(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Write the answer as one HTML page for people; ``name`` is what they call the graph."""
        from graphtemper.report.page import write_report

        write_report(path, self, name)


def recalibrate(
    predictor: Predictor | ArrayLike,
    graph: Graph,
    card: SourceCard,
    nodes: Nodes = None,
    *,
    seed: int = 0,
    labels: Mapping[int, int] | None = None,
    plan: LabelPlan | None = None,
    class_shares: ClassShares = "report",
    per_node: bool = False,
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
    labels
        Class of each target node that somebody has looked at: ``{node: class}``. The atlas is then
        the prior and the labels the likelihood, for the accuracy and for the temperature (see
        `graphtemper.few_labels`). None and {} give the same bytes.
    plan
        From `suggest_labels`, if it picked the labelled nodes: its weights are used. Without a
        plan the labelled nodes count as drawn at random.
    class_shares
        ``"report"`` estimates the target's class shares and says so where they seem to have moved.
        ``"estimate"`` also corrects the logits for them, where the evidence supports that (see
        `graphtemper.class_shares.support`); predictions may change, and accuracy, temperature and
        labels are then about the corrected ones.
    per_node
        Give every node its own temperature around the graph's, where the card knows how (see
        `graphtemper.node_temperatures`): for shifts that hit a part of the graph.

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

    Fifty labels, of nodes that the first answer asks for:

    >>> from graphtemper import suggest_labels
    >>> plan = suggest_labels(result, 50)
    >>> looked_up = {int(node): int(target.labels[node]) for node in plan.nodes}
    >>> better = recalibrate(model, target, card, labels=looked_up, plan=plan)
    >>> before, after = result.accuracy, better.accuracy
    >>> better.num_labels, after.high - after.low < before.high - before.low
    (50, True)
    """
    support.check_wanted(class_shares, per_node)
    card.check(predictor, graph)
    seen = Observation(predictor, graph, nodes, temperature=card.probe.temperature, seed=seed)
    if seen.num_classes != card.num_classes:
        raise InputError(
            f"the card is for {card.num_classes} classes but the model gives {seen.num_classes}."
        )
    given = read_labels(labels, plan, seen.nodes, graph.num_nodes, seen.num_classes)
    shown = evidence.measure(seen, card.probe)
    signals = evidence.read(shown, card.reference)
    response = card.response(seen.has_model)
    drift = card.population.drift(*seen.own_moments, seen.num_nodes, card.probe.column_std)
    prior = _prior(response, signals, card, seen.num_nodes, drift)
    accuracy = prior.estimate("atlas")
    matched, note = stac.nearest_temperature(seen.logits, accuracy.value)
    flat = float(np.ptp(seen.logits, axis=1).max()) == 0.0
    gains = evidence.gains(shown, card.reference.evidence)
    blind = gains is not None and gains.signal is None and evidence.LEAD in response.names
    verdict, reasons = judge(response, signals, accuracy, note, flat, blind)
    before = float(seen.probabilities.max(axis=1).mean())
    shares = None
    if card.class_profile is not None:
        answer = 1.0 if verdict == "abstain" else matched
        shares = support.weigh(card.class_profile, seen.logits, answer)
        # Estimated shares have an error of their own in place of how far they may drift unseen.
        spread = _prior(response, signals, card, seen.num_nodes, shares.deviation).deviation
        moved = Prior(evidence.log_odds(shares.accuracy), spread)
        unread, implied = bool(note) or blind, moved.estimate("class shares")
        shares = shares.unless(support.doubt(novelty(response, signals), unread, gains, implied))
        if class_shares == "estimate" and shares.supported:
            # From here on everything is about the corrected logits.
            seen = Observation(seen.all_logits + shares.offsets, seen.graph, seen.nodes)
            prior, accuracy, matched = moved, implied, shares.temperature
            before = float(seen.probabilities.max(axis=1).mean())
            verdict, reasons = judge(response, signals, accuracy, note, flat, blind)
    if given.rows.size:
        kept = before if verdict == "abstain" else None
        learned = _learn(prior, novelty(response, signals), seen, given, matched, kept)
        accuracy, matched = learned.accuracy, learned.temperature
        note = note if flat else _below_chance(accuracy.value, seen.num_classes)
        verdict, reasons = judge(response, signals, accuracy, note, flat, blind, learned)
    relative = 1.0 if verdict == "abstain" else matched
    divisor: Temperature = relative
    if per_node:
        kept_all = verdict == "abstain"
        divisor, reason = node_temperatures.spread(seen, card, relative, accuracy.value, kept_all)
        reasons += [reason] if reason else []
    probabilities = _keep_argmax(temperatures.apply(seen.logits, divisor), seen.predictions)
    reasons = [direction(before, accuracy), *reasons]
    shift = None
    if shares is not None:
        reasons += shares.reasons(class_shares)
        if class_shares == "estimate" and shares.supported:
            shift = shares.offsets * card.probe.temperature
    return Recalibration(
        temperature=divisor * card.probe.temperature,
        probabilities=probabilities,
        accuracy=accuracy,
        verdict=verdict,
        reasons=reasons,
        slope=1.0 / relative,
        severity_bound=float(theory.ece_bound(1.0 / matched, shown.mean_abs_logit)),
        signals=signals | _plain(shown),
        gains={} if gains is None else gains.to_dict(),
        nearest=nearest_families(response, signals, card.environments),
        nodes=seen.nodes,
        mean_confidence=(before, float(probabilities.max(axis=1).mean())),
        num_labels=int(given.rows.size),
        class_shares=None if shares is None else shares.shares,
        logit_shift=shift,
        background=Background.of(seen, given, card, response),
    )


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _keep_argmax(probabilities: FloatArray, predictions: NDArray[np.intp]) -> FloatArray:
    """Keep the prediction on top where a large temperature rounds a small lead to a tie."""
    rows = np.flatnonzero(probabilities.argmax(axis=1) != predictions)
    probabilities[rows, predictions[rows]] = np.nextafter(probabilities[rows].max(axis=1), 2.0)
    return probabilities


def _prior(
    response: Response,
    signals: dict[str, float],
    card: SourceCard,
    num_nodes: int,
    drift: float,
) -> Prior:
    """Turn the response into a normal on the log-odds of accuracy.

    Beside the response's own deviation it counts the sampling error of the n nodes here and of
    those the card was made of, and the class shares that may have moved unseen.
    """
    mean, deviation = response.predict(signals)
    centre = evidence.log_odds(card.reference.accuracy) + mean
    value = to_share(centre)
    slope = max(value * (1.0 - value), 0.01)
    variance = (
        (response.widening * deviation) ** 2
        + _sampling(value, num_nodes)
        + _sampling(card.reference.accuracy, card.num_nodes)
        + (card.population.accuracy_deviation(drift) / slope) ** 2
    )
    return Prior(centre, float(np.sqrt(variance)))


def _learn(
    prior: Prior,
    novelty: float,
    seen: Observation,
    given: Labels,
    matched: float,
    kept: float | None,
) -> Learned:
    """Let the labels speak; the further the target lies from the atlas, the more they count.

    ``kept`` is the mean confidence at the source temperature where, without labels, the verdict is
    to abstain and to keep that temperature. Labels then start from what they would replace.
    """
    trusted = Prior(prior.centre, _trusted(prior.deviation, novelty))
    start = trusted if kept is None else Prior(evidence.log_odds(kept), KEPT)
    right = seen.predictions[given.rows] == given.classes
    accuracy = few_labels.accuracy(trusted, right, given.weights, population=seen.num_nodes)
    temperature = few_labels.temperature(
        start, seen.logits, given, matched if kept is None else 1.0
    )
    count = few_labels.effective_count(given.weights)
    known = count * max(accuracy.value * (1.0 - accuracy.value), 0.01)
    return Learned(
        accuracy=accuracy,
        temperature=temperature,
        reason=_what_labels_say(right, accuracy, prior.estimate("atlas")),
        count=count,
        leads=known > trusted.deviation**-2,
    )


def _trusted(deviation: float, novelty: float) -> float:
    """Return how far the atlas may be off as a prior, on a target that lies so far from it.

    Without labels a new kind of target is a matter of the verdict. Beside labels it has to be a
    number, so that an atlas that does not apply cannot outvote them: the deviation grows with the
    distance, and where the verdict would be to abstain the atlas hardly says anything.
    """
    if novelty > ABSTAIN_NOVELTY:
        return max(deviation, VAGUE)
    return deviation * max(novelty / CAUTION_NOVELTY, 1.0)


def _what_labels_say(right: NDArray[np.bool_], accuracy: Estimate, before: Estimate) -> str:
    count, hits = right.size, int(right.sum())
    nodes = "1 labelled node" if count == 1 else f"{count} labelled nodes"
    was, now = (0.5 * (item.high - item.low) for item in (before, accuracy))
    return (
        f"the model is right on {hits} of {nodes}; with them the accuracy is known to within "
        f"{now:.1%}, from the atlas alone to within {was:.1%}."
    )


def _below_chance(accuracy: float, num_classes: int) -> str:
    if accuracy > 1.0 / num_classes:
        return ""
    return (
        f"accuracy {accuracy:.4g} is not above 1/K = {1.0 / num_classes:.4g}, so the logits say "
        "next to nothing about the classes"
    )


def _sampling(accuracy: float, num_nodes: int) -> float:
    """Return the variance of the log-odds of an accuracy counted on so many nodes."""
    return 1.0 / (num_nodes * max(accuracy * (1.0 - accuracy), 0.01))


def _plain(shown: Evidence) -> dict[str, float]:
    """Return the single numbers of the evidence, for people and reports."""
    return {
        key: float(value)
        for key, value in shown.to_dict().items()
        if isinstance(value, int | float) and key not in ("confidence",)
    }
