"""Answers about a target: the atlas's, one for moved class shares, and what labels make of them.

Every answer is a prior on the log-odds of the accuracy, the temperature that goes with it, and a
verdict. Labels turn an answer into a better one; nothing here reads labels that were not given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.estimate import Estimate
from graphtemper._core.log_odds import log_odds
from graphtemper.recalibration import few_labels
from graphtemper.recalibration.class_shares import support
from graphtemper.recalibration.class_shares.support import ShareEvidence
from graphtemper.recalibration.few_labels import MATCH_DEVIATION, Labels, Learned, Prior
from graphtemper.recalibration.reading import Reading
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY, CAUTION_NOVELTY, Verdict, judge
from graphtemper.signals.observation import Observation
from graphtemper.temperature.matching import nearest_temperature

# Standard deviation of the log-odds of accuracy where the atlas has nothing to say.
VAGUE = 1.5
# How far, in log-odds, a shift usually moves accuracy away from mean confidence: what is known of
# the temperature where the atlas's own answer is not used and the source temperature is kept.
KEPT = 0.5
# Mean confidence at the labels' temperature may miss their accuracy by so many matching errors.
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
    seen
        The observation whose logits it is about.
    prior
        The log-odds of the accuracy before any label.
    accuracy
        The estimate, after labels if there are any.
    matched
        The temperature that goes with it, relative to the source's.
    note
        What is wrong with that temperature, if anything is.
    verdict, reasons
        See `graphtemper.recalibration.verdict`.
    """

    seen: Observation
    prior: Prior
    accuracy: Estimate
    matched: float
    note: Reason | None
    verdict: Verdict
    reasons: list[Reason]

    @property
    def relative(self) -> float:
        """The temperature to use, relative to the source's: the source's own on `abstain`."""
        return 1.0 if self.verdict == "abstain" else self.matched

    @property
    def claimed(self) -> float:
        """Mean confidence at the source temperature."""
        return float(self.seen.probabilities.max(axis=1).mean())


def from_atlas(target: Reading) -> Answer:
    """Return the atlas's answer about the logits as they are."""
    prior = target.prior(target.drift)
    accuracy = prior.estimate("atlas")
    matched, problem = nearest_temperature(target.seen.logits, accuracy.value)
    note = at_bound(problem)
    return _judged(target, target.seen, prior, accuracy, matched, note)


def _judged(
    target: Reading,
    seen: Observation,
    prior: Prior,
    accuracy: Estimate,
    matched: float,
    note: Reason | None,
    learned: Learned | None = None,
) -> Answer:
    verdict, reasons = judge(
        target.response, target.signals, accuracy, note, target.flat, target.blind, learned
    )
    return Answer(seen, prior, accuracy, matched, note, verdict, reasons)


def weigh_shares(target: Reading, plain: Answer) -> tuple[ShareEvidence, Answer] | None:
    """Return the evidence for moved class shares and the answer that corrects for them.

    None where the card holds no class profile. Whether the correction is supported is for the
    evidence to say.
    """
    profile = target.card.class_profile
    if profile is None:
        return None
    shares = support.weigh(profile, plain.seen.logits, plain.relative)
    # Estimated shares have an error of their own in place of how far they may drift unseen.
    spread = target.prior(shares.deviation).deviation
    prior = Prior(log_odds(shares.accuracy), spread)
    implied = prior.estimate("class shares")
    unread = plain.note is not None or target.blind
    shares = shares.unless(support.doubt(target.novelty, unread, target.gains, implied))
    corrected = Observation(
        plain.seen.all_logits + shares.offsets, plain.seen.graph, plain.seen.nodes
    )
    return shares, _judged(target, corrected, prior, implied, shares.temperature, plain.note)


def prefers(labels: Labels, plain: Answer, corrected: Answer) -> bool:
    """Whether labels are at least as likely under the corrected answer; none do not mind."""
    before, after = (
        few_labels.log_likelihood(answer.seen.logits, labels, answer.relative)
        for answer in (plain, corrected)
    )
    return after >= before


def with_labels(target: Reading, answer: Answer, labels: Labels) -> Answer:
    """Return the answer that some labels make of another; the same one without labels."""
    if not labels.rows.size:
        return answer
    seen, learned = answer.seen, learn(answer, target.novelty, labels)
    accuracy, found = learned.accuracy, learned.temperature
    note = answer.note if target.flat else _below_chance(accuracy.value, seen.num_classes)
    if note is None and not target.flat and _contradicts(seen, found, accuracy):
        # A few nodes with extreme logits can pull a likelihood anywhere, but not a count.
        found, problem = nearest_temperature(seen.logits, accuracy.value)
        note = at_bound(problem) or Reason(ReasonCode.LABELS_DISAGREE, _DISAGREEMENT)
    return _judged(target, seen, answer.prior, accuracy, found, note, learned)


def learn(answer: Answer, novelty: float, labels: Labels) -> Learned:
    """Let labels speak; the further the target lies from the atlas, the more they count.

    Where the answer is to abstain and to keep the source temperature, labels start from what they
    would replace.
    """
    seen, kept = answer.seen, answer.verdict == "abstain"
    trusted = Prior(answer.prior.centre, _trusted(answer.prior.deviation, novelty))
    start = Prior(log_odds(answer.claimed), KEPT) if kept else trusted
    right = seen.predictions[labels.rows] == labels.classes
    accuracy = few_labels.accuracy(trusted, right, labels.weights, population=seen.num_nodes)
    count = few_labels.effective_count(labels.weights)
    known = count * max(accuracy.value * (1.0 - accuracy.value), 0.01)
    return Learned(
        accuracy=accuracy,
        temperature=few_labels.temperature(start, seen.logits, labels, answer.relative),
        reason=_what_labels_say(right, accuracy, answer.accuracy),
        count=count,
        leads=known > trusted.deviation**-2,
    )


def _contradicts(seen: Observation, temperature: float, accuracy: Estimate) -> bool:
    """Whether mean confidence at a temperature lies clearly outside the accuracy's interval."""
    claimed = log_odds(temperatures.mean_confidence(seen.logits, temperature))
    slack = _MISMATCHES * MATCH_DEVIATION
    low, high = (log_odds(end) for end in (accuracy.low, accuracy.high))
    return not low - slack <= claimed <= high + slack


def _trusted(deviation: float, novelty: float) -> float:
    """Return how far the atlas may be off as a prior, on a target that lies so far from it.

    Without labels a new kind of target is a matter of the verdict. Beside labels it has to be a
    number, so that an atlas that does not apply cannot outvote them: the deviation grows with the
    distance, and where the verdict would be to abstain the atlas hardly says anything.
    """
    if novelty > ABSTAIN_NOVELTY:
        return max(deviation, VAGUE)
    return deviation * max(novelty / CAUTION_NOVELTY, 1.0)


def _what_labels_say(right: NDArray[np.bool_], accuracy: Estimate, before: Estimate) -> Reason:
    count, hits = right.size, int(right.sum())
    nodes = "1 labelled node" if count == 1 else f"{count} labelled nodes"
    was, now = (0.5 * (item.high - item.low) for item in (before, accuracy))
    text = (
        f"the model is right on {hits} of {nodes}; with them the accuracy is known to within "
        f"{100 * now:.1f} points, from the {before.method} alone to within {100 * was:.1f}."
    )
    return Reason(ReasonCode.LABELS_USED, text)


def _below_chance(accuracy: float, num_classes: int) -> Reason | None:
    if accuracy > 1.0 / num_classes:
        return None
    text = (
        f"accuracy {accuracy:.4g} is not above 1/K = {1.0 / num_classes:.4g}, so the logits say "
        "next to nothing about the classes."
    )
    return Reason(ReasonCode.BELOW_CHANCE, text)


def at_bound(problem: str) -> Reason | None:
    """Return the reason for what `nearest_temperature` found wrong, or None for ""."""
    return Reason(ReasonCode.TEMPERATURE_AT_BOUND, f"{problem}.") if problem else None
