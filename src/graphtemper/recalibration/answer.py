"""Answers about a target: by the atlas, by new class shares, and what labels make of both.

An answer is a prior on the log-odds of the accuracy, the temperature that goes with it, and a
verdict. Labels turn an answer into a better one; only labels that the caller gave are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper.card.reading import Prior, Reading
from graphtemper.recalibration import few_labels, labelled_environments
from graphtemper.recalibration.class_shares import support
from graphtemper.recalibration.class_shares.support import ClassShares, ShareEvidence
from graphtemper.recalibration.few_labels import MATCH_DEVIATION, Labels, Learned, Objective
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    CAUTION_WIDTH,
    Verdict,
    direction,
    judge,
)
from graphtemper.temperature.scaling import nearest_temperature

Match = Callable[[float], tuple[float, str]]
"""Return the temperature for an accuracy, relative to the source's, and any problem with it."""

# Standard deviation of the log-odds of accuracy where the atlas has nothing to say.
VAGUE = 1.5
# How far, in log-odds, a shift usually moves accuracy away from mean confidence: what is known of
# the temperature where nothing can be read and the source temperature is kept.
KEPT = 0.5
# How many matching errors mean confidence at the labels' temperature may miss their accuracy by.
_MISMATCHES = 3.0
_DISAGREEMENT = (
    "the temperature that fits the labels does not fit their accuracy, as a few nodes with extreme "
    "logits can cause; the accuracy is matched instead."
)


@dataclass(frozen=True, eq=False)
class Answer:
    """An accuracy and a temperature for some logits, and whether to trust them.

    Attributes
    ----------
    reading
        What was measured, and the card it was compared with.
    confidence
        Mean confidence of the logits at the source temperature.
    prior
        The log-odds of the accuracy before any label.
    accuracy
        The estimate, after labels if there are any.
    matched
        The temperature that goes with it, relative to the source's.
    caveat
        What is wrong with that temperature, if anything is.
    verdict, reasons
        See `graphtemper.recalibration.verdict`.
    effective_labels
        How many labels alone would have given as narrow an interval; 0 without labels.
    offsets : (K,) array or None
        What a correction for class shares adds to the logits, in units of the source temperature.
    class_shares, share_reasons
        Estimated class shares of the target, and what to say about them.
    """

    reading: Reading
    confidence: float
    prior: Prior
    accuracy: Estimate
    matched: float
    caveat: Reason | None
    verdict: Verdict
    reasons: tuple[Reason, ...]
    offsets: FloatArray | None = None
    class_shares: FloatArray | None = None
    share_reasons: tuple[Reason, ...] = ()
    effective_labels: float = 0.0

    @property
    def relative(self) -> float:
        """The temperature to use, relative to the source's: its own if nothing can be read."""
        return 1.0 if self.keeps_source else self.matched

    @property
    def keeps_source(self) -> bool:
        """Whether the source temperature is kept, because there is nothing to estimate one from."""
        blind = self.reading.blind and self.reading.expected is None
        return self.verdict == "abstain" and (self.reading.flat or blind)

    @property
    def temperature(self) -> float:
        """The temperature to use."""
        return self.relative * self.reading.card.probe.temperature

    @property
    def slope(self) -> float:
        """Source temperature over target temperature."""
        return 1.0 / self.relative

    @property
    def severity_bound(self) -> float:
        """The largest gap between confidence and accuracy that the accuracy interval allows."""
        return max(self.confidence - self.accuracy.low, self.accuracy.high - self.confidence)

    def shifted(self, logits: FloatArray) -> FloatArray:
        """Return the logits that the answer is about: corrected for class shares, if it is."""
        return logits if self.offsets is None else logits + self.offsets


def answer(
    reading: Reading,
    logits: FloatArray,
    labels: Labels,
    class_shares: ClassShares = "report",
    objective: Objective = "balanced",
    design_effect: Callable[[], float] = lambda: 1.0,
) -> Answer:
    """Answer about logits (n, K), given in units of the source temperature.

    A correction for class shares is made where it is requested, the evidence supports it, and
    neither the labels nor the resulting verdict speak against it. ``design_effect`` returns how
    far the target's predictions depend on each other (`graphtemper.signals.dependence`).
    """
    plain = from_atlas(reading, partial(nearest_temperature, logits))
    best = with_labels(plain, logits, labels, objective)
    profile = reading.card.class_profile
    if profile is None:
        return replace(best, share_reasons=support.without_profile(class_shares))
    shares = support.weigh(profile, logits, plain.relative, design_effect)
    shares = shares.unless(support.UNKNOWN_DEPENDENCE if profile.dependence is None else "")
    # Estimated shares have an error of their own in place of an unnoticed drift.
    prior = Prior(log_odds(shares.accuracy), reading.deviation_with_shares(shares.deviation))
    unreadable = plain.caveat is not None or reading.blind
    accuracy = prior.estimate("class shares")
    shares = shares.unless(support.doubt(reading.novelty, unreadable, reading.gains, accuracy))
    if shares.supported:
        corrected = _corrected(plain, shares, prior, logits)
        better = with_labels(corrected, corrected.shifted(logits), labels, objective)
        shares = shares.unless(_objection(plain, corrected, better, logits, labels))
        if shares.supported and class_shares == "estimate":
            # That nothing else has changed is assumed, so a correction alone earns no trust.
            trusted = best.verdict == "trust" or better.verdict != "trust"
            best = better if trusted else replace(better, verdict="caution")
    return replace(best, class_shares=shares.shares, share_reasons=shares.reasons(class_shares))


def from_atlas(reading: Reading, match: Match) -> Answer:
    """Return the atlas's answer about the logits as they are, in memory or in shards."""
    prior = reading.prior
    accuracy = prior.estimate("atlas")
    aim = accuracy.value
    if reading.expected is not None:
        accuracy = prior.estimate(labelled_environments.METHOD)
        aim = labelled_environments.accuracy_to_match(prior, reading.evidence.confidence)
    matched, problem = match(aim)
    return _judged(
        reading, reading.evidence.confidence, prior, accuracy, matched, at_bound(problem)
    )


def _judged(
    reading: Reading,
    confidence: float,
    prior: Prior,
    accuracy: Estimate,
    matched: float,
    caveat: Reason | None,
    learned: Learned | None = None,
) -> Answer:
    verdict, reasons = judge(reading, accuracy, caveat, learned)
    said = (direction(confidence, accuracy, known=verdict != "abstain"), *reasons)
    if accuracy.method == labelled_environments.METHOD:
        said = (said[0], *labelled_environments.reasons(reading), *reasons)
    return Answer(reading, confidence, prior, accuracy, matched, caveat, verdict, said)


def _corrected(plain: Answer, shares: ShareEvidence, prior: Prior, logits: FloatArray) -> Answer:
    """Return the answer about logits that are corrected for new class shares."""
    probabilities = temperatures.apply(logits + shares.offsets)
    confidence = float(probabilities.max(axis=1).mean())
    accuracy = prior.estimate("class shares")
    judged = _judged(plain.reading, confidence, prior, accuracy, shares.temperature, plain.caveat)
    return replace(judged, offsets=shares.offsets)


def _objection(
    plain: Answer, corrected: Answer, better: Answer, logits: FloatArray, labels: Labels
) -> str:
    """Return what speaks against a correction once it has been made, or ""."""
    before, after = (
        few_labels.log_likelihood(item.shifted(logits), labels, item.relative)
        for item in (plain, corrected)
    )
    if after < before:
        return "the labels are less likely with it than without"
    if better.verdict == "abstain":
        return "the accuracy would not be known well enough"
    return ""


def with_labels(
    answer: Answer, logits: FloatArray, labels: Labels, objective: Objective = "balanced"
) -> Answer:
    """Return the answer updated with labels; the same one without labels."""
    if not labels.rows.size:
        return answer
    reading, num_classes = answer.reading, logits.shape[1]
    learned = learn(answer, logits, labels, objective)
    accuracy, temperature = learned.accuracy, learned.temperature
    caveat = answer.caveat if reading.flat else _below_chance(accuracy.value, num_classes)
    if objective == "calibration":
        caveat = caveat or at_bound(learned.problem)
    elif caveat is None and not reading.flat and _contradicts(logits, temperature, accuracy):
        # A few nodes with extreme logits can pull a likelihood anywhere, but not a count.
        temperature, problem = nearest_temperature(logits, accuracy.value)
        caveat = at_bound(problem) or Reason(ReasonCode.LABELS_DISAGREE, _DISAGREEMENT)
    judged = _judged(
        reading, answer.confidence, answer.prior, accuracy, temperature, caveat, learned
    )
    return replace(judged, offsets=answer.offsets, effective_labels=learned.worth)


def learn(
    answer: Answer, logits: FloatArray, labels: Labels, objective: Objective = "balanced"
) -> Learned:
    """Update an answer with labels; the farther the target is from the atlas, the more they count.

    Where the source temperature is kept, the temperature starts from it.
    """
    novelty, size = answer.reading.novelty, len(logits)
    trusted = replace(answer.prior, deviation=_trusted(answer.prior.deviation, novelty))
    start = trusted
    if answer.keeps_source:
        start = Prior(log_odds(answer.confidence), KEPT)
    right = logits.argmax(axis=1)[labels.rows] == labels.classes
    accuracy = few_labels.accuracy(trusted, right, labels.weights, population=size)
    count = few_labels.effective_count(labels.weights)
    information = count * max(accuracy.value * (1.0 - accuracy.value), 0.01)
    if answer.reading.flat:
        temperature, problem = answer.relative, ""
    elif objective == "calibration":
        temperature, problem = nearest_temperature(logits, accuracy.value)
    else:
        temperature = few_labels.temperature(start, logits, labels, answer.relative)
        problem = ""
        if objective == "balanced" and not answer.keeps_source:
            matched, unmatched = nearest_temperature(logits, accuracy.value)
            share = few_labels.MATCHED_SHARE * (1.0 - labels.rows.size / size)
            temperature *= 1.0 if unmatched else (matched / temperature) ** share
    return Learned(
        accuracy=accuracy,
        temperature=temperature,
        problem=problem,
        reason=_labels_used(right, accuracy, answer.accuracy, size),
        count=count,
        leads=information > trusted.deviation**-2,
        worth=few_labels.labels_worth(accuracy, size),
    )


def _contradicts(logits: FloatArray, temperature: float, accuracy: Estimate) -> bool:
    """Return whether mean confidence at a temperature is clearly outside the accuracy interval."""
    confidence = log_odds(temperatures.mean_confidence(logits, temperature))
    slack = _MISMATCHES * MATCH_DEVIATION
    low, high = (log_odds(end) for end in (accuracy.low, accuracy.high))
    return not low - slack <= confidence <= high + slack


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
    right: NDArray[np.bool_], accuracy: Estimate, before: Estimate, population: int
) -> Reason:
    count, hits = right.size, int(right.sum())
    nodes = "1 labelled node" if count == 1 else f"{count} labelled nodes"
    was, now = (0.5 * (item.high - item.low) for item in (before, accuracy))
    text = (
        f"the model is right on {hits} of {nodes}; with them the accuracy is known to within "
        f"{100 * now:.1f} points, from the {before.method} alone to within {100 * was:.1f}"
    )
    more = min(few_labels.more_labels(accuracy, CAUTION_WIDTH), population - count)
    if more > 0:
        text += f"; about {more} more would bring that to {100 * CAUTION_WIDTH:.0f}."
    else:
        text += ", so more labels are hardly worth it."
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
