"""The answer about a target: an accuracy, the temperature that goes with it, and a verdict.

An answer is a value that is made once, by pure functions: from a reading of the target alone, and
then from labels, which turn it into a better one. A result, a session, a watch and a page hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.reading import ATLAS, VAGUE, Reading
from graphtemper.recalibration.labels import few_labels
from graphtemper.recalibration.labels.few_labels import NO_LABELS, Labels
from graphtemper.recalibration.labels.sequences import adjusted
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    Verdict,
    at_bound,
    below_chance,
    direction,
    environment_reasons,
    judge,
    labels_used,
)
from graphtemper.signals.changes import Change
from graphtemper.temperature.scaling import nearest_temperature

Match = Callable[[float], tuple[float, str]]
"""Return the temperature for an accuracy, and any problem with it."""
Direction = Literal["over-confident", "under-confident", "calibrated", "unknown"]
_DIRECTIONS: dict[ReasonCode, Direction] = {
    ReasonCode.OVER_CONFIDENT: "over-confident",
    ReasonCode.UNDER_CONFIDENT: "under-confident",
    ReasonCode.CALIBRATED: "calibrated",
}

# A temperature harms if mean confidence misses the accuracy by this much more than before, and what
# a certain harm weighs, in units of accuracy.
_HARM, _HARM_WEIGHT = 0.02, 0.05
_STEPS = 41


@dataclass(frozen=True)
class Answer:
    """What is known about a model on a target.

    Attributes
    ----------
    accuracy
        Estimated accuracy with a 90 % interval; a credible interval where labels were given.
    temperature
        What divides the model's logits; where the verdict is ``abstain``, that of the source.
    source_temperature
        What divided them at the source.
    claimed
        Mean confidence of the model at the source temperature.
    verdict, reasons
        ``trust``, ``caution`` or ``abstain``, and why: each reason has a stable ``code`` and a
        ``text``.
    changes
        What differs from the source, largest first; each has a stable ``code``.
    """

    accuracy: Estimate
    temperature: float
    source_temperature: float
    claimed: float
    verdict: Verdict
    reasons: tuple[Reason, ...]
    changes: tuple[Change, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the numbers can be relied on: not if the verdict is ``abstain``.

        An abstention has an interval, but claims no accuracy, temperature or slope.
        """
        return self.verdict != "abstain"

    @property
    def slope(self) -> float:
        """Source temperature over target temperature: below 1 the model is over-confident.

        Not informative where the verdict is ``abstain``.
        """
        return self.source_temperature / self.temperature

    @property
    def severity_bound(self) -> float:
        """The largest ECE at the source temperature that the accuracy interval allows.

        It is the distance from mean confidence to the farther end, and assumes that one slope
        describes all nodes: the ECE then equals the gap between mean confidence and accuracy.
        """
        return max(self.claimed - self.accuracy.low, self.accuracy.high - self.claimed)

    @property
    def direction(self) -> Direction:
        """Whether the model is over- or under-confident at the source temperature.

        ``unknown`` if the interval is too wide to tell, or the verdict is ``abstain``.
        """
        code = direction(self.claimed, self.accuracy, known=self.settled).code
        return _DIRECTIONS.get(code, "unknown")

    def saying(self, *reasons: Reason) -> Answer:
        """Return the answer with more reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))


def about(reading: Reading, logits: FloatArray, labels: Labels = NO_LABELS) -> Answer:
    """Answer about logits (n, K)."""
    plain = from_reading(reading, partial(nearest_temperature, logits))
    return with_labels(plain, reading, reading.estimate, logits, labels)


def from_reading(reading: Reading, match: Match) -> Answer:
    """Answer about logits that are in memory or in files, from what was measured of them."""
    accuracy, confidence = reading.estimate, reading.evidence.confidence
    value = accuracy.value
    if accuracy.method != ATLAS:
        value = accuracy_to_match(accuracy.quantiles(few_labels.EVEN), confidence)
    matched, problem = match(value)
    return judged(reading, confidence, accuracy, matched, at_bound(problem))


def judged(
    reading: Reading,
    claimed: float,
    accuracy: Estimate,
    matched: float,
    caveat: Reason | None,
    used: Reason | None = None,
    *,
    count: float = 0.0,
    leads: bool = False,
) -> Answer:
    """Return an answer with its verdict; `matched` is the temperature that its accuracy asks for.

    An abstention keeps the source temperature. The last three are what labels say, as in `judge`.
    """
    verdict, reasons = judge(reading, accuracy, caveat, used, count=count, leads=leads)
    source = reading.card.temperature
    return Answer(
        accuracy=accuracy,
        temperature=source if verdict == "abstain" else matched,
        source_temperature=source,
        claimed=claimed,
        verdict=verdict,
        reasons=(
            direction(claimed, accuracy, known=verdict != "abstain"),
            *environment_reasons(reading, accuracy),
            *reasons,
        ),
        changes=reading.changes,
    )


def with_labels(
    before: Answer, reading: Reading, prior: Estimate, logits: FloatArray, labels: Labels
) -> Answer:
    """Return an answer updated with labels; the same one without labels.

    ``prior`` is its accuracy. The farther the target is from the atlas, the more labels count. The
    temperature moves from that of the answer before as far as the labels are sure.
    """
    if not labels.rows.size:
        return before
    size, unit = len(logits), reading.card.temperature
    prior = trusted(prior, reading.novelty)
    right = (logits.argmax(axis=1)[labels.rows] == labels.classes).astype(np.float64)
    count, hits = right.size, int(right.sum())
    if count < size:
        confidence = temperatures.apply(logits, unit).max(axis=1)
        known = confidence, logits.argmax(axis=1), logits.shape[1], labels.columns
        counted = adjusted(few_labels.design(*known), labels.rows, right)
        values = few_labels.posterior(prior, counted, count, size)
        accuracy = few_labels.accuracy(values)
    else:
        accuracy = Estimate(hits / count, hits / count, hits / count, few_labels.METHOD)
        values = np.array([log_odds(accuracy.value)])
    temperature, caveat = before.temperature, caveat_of(before)
    if not reading.flat:
        now = temperatures.mean_confidence(logits, temperature)
        temperature, problem = nearest_temperature(logits, accuracy_to_match(values, now))
        caveat = below_chance(accuracy.value, logits.shape[1]) or at_bound(problem)
    information = count * max(accuracy.value * (1.0 - accuracy.value), 0.01)
    return judged(
        reading,
        before.claimed,
        accuracy,
        temperature,
        caveat,
        labels_used(count, hits, accuracy, before.accuracy, size),
        count=count,
        leads=information > prior.deviation**-2,
    )


def trusted(prior: Estimate, novelty: float) -> Estimate:
    """Return an estimate as a prior next to labels, given its distance from the atlas.

    Without labels the distance of a target is a matter of the verdict. With labels it has to be a
    number, so that an atlas that does not apply cannot outvote them: the deviation grows with the
    distance, and where the verdict would be to abstain the atlas says hardly anything.
    """
    deviation = prior.deviation * max(novelty / CAUTION_NOVELTY, 1.0)
    if novelty > ABSTAIN_NOVELTY:
        deviation = max(prior.deviation, VAGUE)
    return Estimate.of_log_odds(prior.centre, deviation, prior.method)


def caveat_of(answer: Answer) -> Reason | None:
    """Return what is wrong with the temperature of an answer, if anything is."""
    at_end = (item for item in answer.reasons if item.code == ReasonCode.TEMPERATURE_AT_BOUND)
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
    >>> known = [Estimate.of_log_odds(0.0, deviation, "atlas") for deviation in (0.1, 1.0)]
    >>> clear, vague = (item.quantiles(few_labels.EVEN) for item in known)
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
