r"""Whether a target's class shares have moved, what they are, and whether to correct for them.

The estimate is `em` with a prior of ten nodes on probabilities that are calibrated for each class.
It is right if nothing but shares changed, which unlabelled nodes can contradict and never prove. So
a correction, which changes predictions, needs all of these:

1. the shares of the predictions moved beyond chance (`shares_moved`);
2. the new shares explain the table of predictions and confidences (`shares_fit`): no other change
   of the classes' own laws shows;
3. both estimators are well conditioned, and agree to within half of the move that they see;
4. the move is at least three times its sampling error;
5. other signals are quiet: the target lies no farther from the atlas than an abstention asks for,
   and the signal gain (`graphtemper.signals.gains`), where it can be read, is at least 0.75.
   New shares
   change it as the variance between classes changes; features of other nodes or rewired edges
   change it more;
6. by the new shares, the answer without them has an expected calibration error of 0.03 or more, or
   they gain at least 0.05 in expected accuracy;
7. the accuracy that follows is known well enough not to abstain.

Some novelty is no objection, nor is an abstention without a correction: the atlas holds no new
class shares, so they look new to it, and its intervals are widened for shares that may have moved
unseen. The limits were settled on halves of the sources' own labelled nodes, one half as the source
and the other, resampled to new shares, as the target; no scored node had a part in them.

Then :math:`z + (b + \log(\pi / s)) / \beta` are the corrected logits and their temperature is
:math:`1/\beta`: by Bayes' rule the target's posterior. Its mean top probability is the accuracy.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper.card.class_profile import ClassProfile
from graphtemper.errors import GraphTemperWarning, InputError, NotIdentifiableError
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.recalibration.class_shares.confusion import adjust_logits, bbse
from graphtemper.recalibration.class_shares.likelihood import em, share_error
from graphtemper.recalibration.class_shares.share_tests import (
    FitTest,
    ShareTest,
    shares_fit,
    shares_moved,
)
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY, ABSTAIN_WIDTH
from graphtemper.signals.gains import Gains

ClassShares = Literal["report", "estimate"]
"""Whether `recalibrate` only reports class shares, or may correct logits for them."""
PRIOR_NODES = 10.0
"""What the source's shares count beside the target's nodes."""
MOVED_LEVEL, FIT_LEVEL = 0.01, 0.05
"""Levels of the two tests: a move must be clear, a misfit need not be."""
AGREEMENT = 0.5
"""Largest distance of the two estimates, as a share of the move."""
LEAST_ERRORS = 3.0
"""Smallest move, in sampling errors."""
LEAST_GAIN = 0.75
"""Smallest signal gain that new class shares may be blamed for."""
WORTH, GAIN = 0.03, 0.05
"""Least expected calibration error of the answer without the new shares, and least expected gain in
accuracy, by those shares; one of the two makes a correction worth its risk."""
_BINS = 15
_NAMED = 3


@dataclass(frozen=True, eq=False)
class ShareEvidence:
    """What a target's predictions say about its class shares.

    Attributes
    ----------
    shares : (K,) array or None
        Estimated class shares; None where no shares explain what is seen, or it cannot be checked.
    source_shares : (K,) array
    moved, fit
        The two tests.
    objection : str
        Why the logits should not be corrected; empty if they should.
    offsets : (K,) array
        Added to logits at the source temperature, they are the corrected ones.
    temperature : float
        That of the corrected logits, relative to the source's.
    accuracy : float
        What the new shares imply for the corrected predictions.
    changed : float
        Share of the predictions that the correction changes.
    deviation : float
        Standard deviation of a share, as sampling of the target's nodes causes it.
    """

    shares: FloatArray | None
    source_shares: FloatArray
    moved: ShareTest
    fit: FitTest
    objection: str
    offsets: FloatArray
    temperature: float
    accuracy: float
    changed: float
    deviation: float

    @property
    def supported(self) -> bool:
        """Whether the evidence supports a correction."""
        return not self.objection

    def unless(self, doubt: str) -> ShareEvidence:
        """Return the evidence with one more objection, which may be empty."""
        return replace(self, objection=self.objection or doubt)

    def reasons(self, request: ClassShares) -> tuple[Reason, ...]:
        """Return what to say, depending on whether a correction was requested."""
        if self.supported and self.shares is not None:
            moves = f"the class shares seem to have moved: {self._moves(self.shares)}"
            if request == "estimate":
                text = f"{moves}; correcting for it changes {self.changed:.1%} of the predictions."
                return (Reason(ReasonCode.CLASS_SHARES_CORRECTED, text),)
            text = f'{moves}; class_shares="estimate" would correct the logits for it.'
            return (Reason(ReasonCode.CLASS_SHARES_MOVED, text),)
        if request == "report":
            return ()
        text = f"no correction for class shares: {self.objection}."
        return (Reason(ReasonCode.CLASS_SHARES_NOT_CORRECTED, text),)

    def _moves(self, shares: FloatArray) -> str:
        by_size = np.argsort(-np.abs(shares - self.source_shares), kind="stable")[:_NAMED]
        return ", ".join(
            f"class {k} from {self.source_shares[k]:.0%} to {shares[k]:.0%}" for k in by_size
        )


def check_request(value: str, per_node: bool = False) -> None:
    """Raise `InputError` for an unknown request, or one that node temperatures do not allow.

    Temperatures per node are learned for the model's own predictions, which a correction changes.

    Examples
    --------
    >>> check_request("correct")
    Traceback (most recent call last):
    graphtemper.errors.InputError: class_shares must be 'report' or 'estimate', not 'correct'.
    """
    if value not in get_args(ClassShares):
        raise InputError(f"class_shares must be 'report' or 'estimate', not {value!r}.")
    if per_node and value == "estimate":
        raise InputError(
            "class_shares='estimate' changes predictions, for which no temperatures per node were "
            "learned; ask for one of the two."
        )


def without_profile(request: ClassShares) -> tuple[Reason, ...]:
    """Return what to say about class shares if the card holds no class profile.

    Examples
    --------
    >>> without_profile("report")
    ()
    """
    if request == "report":
        return ()
    text = (
        "no correction for class shares: the card holds no class profile, because it is from an "
        "earlier version, or its model has too many classes or hardly tells them apart."
    )
    return (Reason(ReasonCode.CLASS_PROFILE_MISSING, text),)


def doubt(novelty: float, unread: bool, gains: Gains | None, accuracy: Estimate) -> str:
    """Say which other signal speaks of more than new class shares, if one does.

    Parameters
    ----------
    novelty
        Of the target, as the verdict has it.
    unread
        Whether the logits or the graph are such that signals cannot be read.
    gains
        Of the target's signal; None without a model.
    accuracy
        The estimate that a correction would lead to.

    Examples
    --------
    >>> lost = Gains(signal=np.log(0.5), halves=None, model=None, own=None, homophily=0, spread=0)
    >>> doubt(0.8, False, lost, Estimate(0.8, 0.75, 0.85, "class shares"))
    "only 50% of the source's signal is left, so other things have changed"
    """
    if novelty > ABSTAIN_NOVELTY or unread:
        return "the other signals are too far from the source's to rule out other changes"
    if gains is not None and gains.signal is not None and gains.signal < np.log(LEAST_GAIN):
        left = float(np.exp(gains.signal))
        return f"only {left:.0%} of the source's signal is left, so other things have changed"
    if accuracy.high - accuracy.low > 2.0 * ABSTAIN_WIDTH:
        return "the accuracy would not be known well enough"
    return ""


def weigh(profile: ClassProfile, logits: FloatArray, answer: float) -> ShareEvidence:
    """Estimate a target's class shares and say whether to correct for them.

    Parameters
    ----------
    profile
        The source's classes, from the card.
    logits : (n, K) array
        Of the target's nodes, divided by the source temperature.
    answer
        The relative temperature that they would get without a correction.

    Examples
    --------
    Two classes, the second a fifth of the source and four fifths of the target:

    >>> rng = np.random.default_rng(0)
    >>> def draw(share, n=4000):
    ...     y = (rng.random(n) < share).astype(int)
    ...     g = 2.0 * (2 * y - 1) + 2.0 * rng.standard_normal(n) - np.log(4.0)
    ...     return np.column_stack([np.zeros(n), g]), y
    >>> profile = ClassProfile.measure(*draw(0.2))
    >>> logits, _ = draw(0.8)
    >>> found = weigh(profile, logits, 1.0)
    >>> found.supported, bool(abs(found.shares[1] - 0.8) < 0.03)
    (True, True)
    """
    source, size = profile.shares, len(logits)
    z, predictions = profile.calibrated(logits), logits.argmax(axis=1)
    predicted = np.bincount(predictions, minlength=source.size) / size
    found = _estimate(profile, z, predicted)
    moved = shares_moved(profile.confusion, profile.num_nodes, predicted, size)
    fit = shares_fit(profile.counts, profile.cells(logits), found.shares)
    explained = fit.degrees >= 1 and fit.p_value >= FIT_LEVEL and not found.trouble
    # A share that no node of n speaks for may still be 1/n.
    ratio = adjust_logits(np.zeros((1, source.size)), source, found.shares, floor=1.0 / size)[0]
    posterior = temperatures.apply(z + ratio)
    before = temperatures.apply(logits, answer).max(axis=1)
    worth = _expected_error(before, posterior[np.arange(size), predictions])
    gain = float((posterior.max(axis=1) - posterior[np.arange(size), predictions]).mean())
    if moved.p_value >= MOVED_LEVEL:
        objection = "the shares of the predictions have not moved beyond chance"
    elif not explained:
        objection = "the shares of the predictions have moved, but " + (
            found.trouble or "new class shares alone do not explain what the model sees"
        )
    else:
        objection = found.objection(source) or _too_small(worth, gain)
    return ShareEvidence(
        shares=found.shares if explained else None,
        source_shares=source,
        moved=moved,
        fit=fit,
        objection=objection,
        offsets=np.asarray((ratio + profile.biases) / profile.slope),
        temperature=1.0 / profile.slope,
        accuracy=float(posterior.max(axis=1).mean()),
        changed=float((posterior.argmax(axis=1) != predictions).mean()),
        deviation=found.error / source.size * float(np.sqrt(np.pi / 2.0)),
    )


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Shares by likelihood and by the table, the former's error, and what is wrong with them."""

    shares: FloatArray
    by_table: FloatArray
    error: float
    trouble: str

    def objection(self, source: FloatArray) -> str:
        move = float(np.abs(self.shares - source).sum())
        if float(np.abs(self.shares - self.by_table).sum()) > AGREEMENT * move:
            return "two ways to estimate the new class shares disagree"
        if move < LEAST_ERRORS * self.error:
            return "there are too few nodes to tell the new class shares from the source's"
        return ""


def _estimate(profile: ClassProfile, logits: FloatArray, predicted: FloatArray) -> _Estimate:
    source = profile.shares
    p = _known_only(logits, source)
    by_table, trouble = source, ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", GraphTemperWarning)
        shares = em(p, source, prior=PRIOR_NODES)
        try:
            by_table = bbse(profile.confusion, predicted)
        except NotIdentifiableError:
            trouble = "to classes that the source never predicted"
    if any(issubclass(item.category, GraphTemperWarning) for item in told):
        trouble = "the model hardly tells some classes apart"
    return _Estimate(shares, by_table, share_error(p, source, shares, prior=PRIOR_NODES), trouble)


def _known_only(logits: FloatArray, source: FloatArray) -> FloatArray:
    """Return probabilities among the classes that the source has: others have no law to mix."""
    known = source > 0.0
    p = np.zeros_like(logits)
    p[:, known] = temperatures.apply(logits[:, known]) if known.sum() > 1 else 1.0
    return p


def _too_small(worth: float, gain: float) -> str:
    if worth >= WORTH or gain >= GAIN:
        return ""
    return (
        f"it would repair an expected calibration error of only {worth:.3f} and gain only "
        f"{gain:.1%} in accuracy"
    )


def _expected_error(confidence: FloatArray, accuracy: FloatArray) -> float:
    """Return the ECE of confidences on nodes that are right with these probabilities."""
    index = bin_index(confidence, equal_width_edges(_BINS), closed="left")
    gaps = weighted_count(index, confidence - accuracy, _BINS)
    return float(np.abs(gaps).sum() / confidence.size)
