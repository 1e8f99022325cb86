"""Answers about a target: by the atlas or labelled environments, and what labels make of them.

An answer is an accuracy, the temperature that goes with it, and a verdict. Labels turn an answer
into a better one; only labels that the caller gave are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.reading import Prior, Reading
from graphtemper.recalibration import few_labels
from graphtemper.recalibration.few_labels import NO_LABELS, Labels
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.result import Recalibration
from graphtemper.recalibration.sequential import adjusted
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    MOVED,
    VERIFIED_WIDTH,
    direction,
    environment_reasons,
    judge,
)
from graphtemper.temperature.scaling import nearest_temperature

Match = Callable[[float], tuple[float, str]]
"""Return the temperature for an accuracy, and any problem with it."""

ATLAS, ENVIRONMENTS, USUAL = "atlas", "environments", "usual over-confidence"
"""Methods of an estimate without labels of the target."""
# Standard deviation of the log-odds of accuracy where the atlas has nothing to say.
VAGUE = 1.5
# A temperature harms if mean confidence misses the accuracy by this much more than before, and what
# a certain harm weighs, in units of accuracy.
_HARM, _HARM_WEIGHT = 0.02, 0.05
_STEPS = 41


def answer(reading: Reading, logits: FloatArray, labels: Labels = NO_LABELS) -> Recalibration:
    """Answer about logits (n, K)."""
    plain = from_atlas(reading, partial(nearest_temperature, logits))
    return with_labels(plain, reading.prior, logits, labels)


def from_atlas(reading: Reading, match: Match) -> Recalibration:
    """Return the card's answer about the logits as they are, in memory or in files."""
    prior, confidence = reading.prior, reading.evidence.confidence
    accuracy = prior.estimate(method_of(reading))
    value = accuracy.value
    if accuracy.method != ATLAS:
        value = accuracy_to_match(prior.quantiles(few_labels.EVEN), confidence)
    matched, problem = match(value)
    return judged(reading, confidence, accuracy, matched, at_bound(problem))


def method_of(reading: Reading) -> str:
    """Return what an estimate without labels of the target rests on."""
    if reading.expected is not None:
        return ENVIRONMENTS
    return USUAL if reading.moved_fraction >= MOVED else ATLAS


def judged(
    reading: Reading,
    confidence: float,
    accuracy: Estimate,
    matched: float,
    caveat: Reason | None,
    used: Reason | None = None,
    *,
    count: float = 0.0,
    leads: bool = False,
) -> Recalibration:
    """Return an answer with its verdict; `matched` is the temperature that its accuracy asks for.

    An abstention keeps the source temperature. The last three are what labels say, as in `judge`.
    """
    verdict, reasons = judge(reading, accuracy, caveat, used, count=count, leads=leads)
    said = [direction(confidence, accuracy, known=verdict != "abstain")]
    if accuracy.method == ENVIRONMENTS:
        said += environment_reasons(reading)
    return Recalibration(
        reading=reading,
        accuracy=accuracy,
        temperature=reading.card.temperature if verdict == "abstain" else matched,
        verdict=verdict,
        reasons=[*said, *reasons],
        mean_confidence=(confidence, confidence),
        signals=reading.numbers(),
    )


def with_labels(
    before: Recalibration, prior: Prior, logits: FloatArray, labels: Labels
) -> Recalibration:
    """Return an answer updated with labels; the same one without labels.

    ``prior`` is that of the log-odds of its accuracy. The farther the target is from the atlas, the
    more labels count. The temperature moves from the answer without labels as far as they are sure.
    """
    if not labels.rows.size:
        return before
    reading, size = before.reading, len(logits)
    prior = replace(prior, deviation=_trusted(prior.deviation, reading.novelty))
    right = (logits.argmax(axis=1)[labels.rows] == labels.classes).astype(np.float64)
    count, hits = right.size, int(right.sum())
    if count < size:
        confidence = temperatures.apply(logits, reading.card.temperature).max(axis=1)
        known = confidence, logits.argmax(axis=1), logits.shape[1], labels.columns
        found = adjusted(few_labels.design(*known), labels.rows, right)
        values = few_labels.posterior(prior, found, count, size)
        accuracy = few_labels.accuracy(values)
    else:
        accuracy = Estimate(hits / count, hits / count, hits / count, few_labels.METHOD)
        values = np.array([log_odds(accuracy.value)])
    temperature, caveat = before.temperature, caveat_of(before)
    if not reading.flat:
        now = temperatures.mean_confidence(logits, temperature)
        aim = accuracy_to_match(values, now)
        temperature, problem = nearest_temperature(logits, aim)
        caveat = _below_chance(accuracy.value, logits.shape[1]) or at_bound(problem)
    information = count * max(accuracy.value * (1.0 - accuracy.value), 0.01)
    return judged(
        reading,
        before.mean_confidence[0],
        accuracy,
        temperature,
        caveat,
        _labels_used(count, hits, accuracy, before.accuracy, size),
        count=count,
        leads=information > prior.deviation**-2,
    )


def _trusted(deviation: float, novelty: float) -> float:
    """Return the deviation of the atlas as a prior next to labels, given its distance.

    Without labels the distance of a target is a matter of the verdict. With labels it has to be a
    number, so that an atlas that does not apply cannot outvote them: the deviation grows with the
    distance, and where the verdict would be to abstain the atlas says hardly anything.
    """
    if novelty > ABSTAIN_NOVELTY:
        return max(deviation, VAGUE)
    return deviation * max(novelty / CAUTION_NOVELTY, 1.0)


def _labels_used(
    count: int, hits: int, accuracy: Estimate, before: Estimate, population: int
) -> Reason:
    nodes = "1 labelled node" if count == 1 else f"{count} labelled nodes"
    was, now = (0.5 * (item.high - item.low) for item in (before, accuracy))
    text = (
        f"the model is right on {hits} of {nodes}; with them the accuracy is known to within "
        f"{100 * now:.1f} points, without them to within {100 * was:.1f}"
    )
    more = min(few_labels.more_labels(accuracy, VERIFIED_WIDTH), population - count)
    if more > 0:
        text += f"; about {more} more would bring that to {100 * VERIFIED_WIDTH:.0f}."
    else:
        text += "."
    return Reason(ReasonCode.LABELS_USED, text)


def _below_chance(accuracy: float, num_classes: int) -> Reason | None:
    if accuracy > 1.0 / num_classes:
        return None
    text = (
        f"an accuracy of {accuracy:.1%} is not above that of guessing among {num_classes} classes, "
        f"{1.0 / num_classes:.1%}, so the logits say next to nothing about the classes."
    )
    return Reason(ReasonCode.BELOW_CHANCE, text)


def at_bound(problem: str) -> Reason | None:
    """Return the reason for a problem that `nearest_temperature` met, or None for ""."""
    return Reason(ReasonCode.TEMPERATURE_AT_BOUND, f"{problem}.") if problem else None


def caveat_of(result: Recalibration) -> Reason | None:
    """Return the reason that `at_bound` gave, if there is one."""
    at_end = (item for item in result.reasons if item.code == ReasonCode.TEMPERATURE_AT_BOUND)
    return next(at_end, None)


def accuracy_to_match(values: FloatArray, confidence: float) -> float:
    r"""Return the accuracy that mean confidence should match, between the likely ones and itself.

    The median of equally likely ``values`` of the log-odds minimises the expected distance
    :math:`|C - A|` of confidence and accuracy, but where they hardly say on which side of the
    present confidence C_0 the accuracy lies, moving does harm in almost half of all cases. So

    .. math:: E|C - A| + w\,P\big(|C - A| > |C_0 - A| + 0.02\big)

    is minimised: a clear move is made, and of an unclear one only a part or nothing.

    Examples
    --------
    >>> clear, vague = (Prior(0.0, d).quantiles(few_labels.EVEN) for d in (0.1, 1.0))
    >>> round(accuracy_to_match(clear, 0.8), 2), round(accuracy_to_match(vague, 0.6), 2)
    (0.5, 0.58)
    """
    centre = float(np.median(values))
    if confidence >= 1.0 or confidence <= 0.0:
        return to_share(centre)
    start = float(np.log(confidence / (1.0 - confidence)))
    candidates = _share(centre + (start - centre) * np.linspace(0.0, 1.0, _STEPS))
    truth = _share(values)
    apart = np.abs(candidates[:, None] - truth)
    harm = apart > np.abs(confidence - truth) + _HARM
    return float(candidates[int((apart + _HARM_WEIGHT * harm).mean(axis=1).argmin())])


def _share(values: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-values)))
