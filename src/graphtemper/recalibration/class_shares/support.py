r"""Evidence about a target's class shares, and whether it supports a correction of the logits.

The estimate is `em` with a prior of ten nodes on probabilities that are calibrated for each class.
It is right if only the shares changed, which unlabelled nodes can refute but never prove. A
correction changes predictions, so it needs all of these:

1. the shares of the predictions moved beyond chance (`shares_moved`), which allows for neighbours
   that err alike (`graphtemper.signals.dependence`), so the card has to know how far they do;
2. the new shares explain the table of predictions and confidences (`shares_fit`), so that no other
   change of the class-conditional distributions is visible;
3. both estimators are well conditioned, and differ by at most half of the estimated change;
4. the change is at least three times its sampling error;
5. no other signal points to a different shift: the target is within the distance from the atlas at
   which the verdict abstains, and the signal gain (`graphtemper.signals.gains`), if it can be
   measured, is at least 0.75. New shares change the gain with the variance between classes;
   shuffled features or rewired edges change it more;
6. given the new shares, the answer without them has an expected calibration error of at least 0.03,
   or they improve the expected accuracy by at least 0.05;
7. the resulting accuracy is known well enough not to abstain.

Some novelty is no objection, nor is an abstention without a correction: the atlas contains no new
class shares, so they look new to it, and its intervals allow for shares that may have moved
unnoticed. The limits were chosen on halves of the sources' own labelled nodes, one half as the
source and the other, resampled to new shares, as the target; no scored node was used.

Then :math:`z + (b + \log(\pi / s)) / \beta` are the corrected logits and their temperature is
:math:`1/\beta`: by Bayes' rule the target's posterior. Its mean top probability is the accuracy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

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
    within_classes,
)
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY, ABSTAIN_WIDTH
from graphtemper.signals import dependence
from graphtemper.signals.gains import Gains
from graphtemper.signals.observation import Observation

ClassShares = Literal["report", "estimate"]
"""Whether `recalibrate` only reports class shares, or may correct logits for them."""
PRIOR_NODES = 10.0
"""Weight of the source's shares, in nodes of the target."""
MOVED_LEVEL, FIT_LEVEL = 0.01, 0.05
"""Levels of the two tests: strict for a change, lenient for a misfit."""
AGREEMENT = 0.5
"""Largest distance of the two estimates, as a fraction of the change."""
LEAST_ERRORS = 3.0
"""Smallest change, in sampling errors."""
LEAST_GAIN = 0.75
"""Smallest signal gain that new class shares can explain."""
WORTH, GAIN = 0.03, 0.05
"""Smallest expected calibration error without the new shares, and smallest expected gain in
accuracy with them; a correction needs one of the two to be worth its risk."""
UNKNOWN_DEPENDENCE = (
    "the card is from an earlier version and does not say how far predictions depend on each other"
)
"""Objection if the card cannot tell new class shares from neighbours that err alike."""
_BINS = 15
_NAMED = 3


@dataclass(frozen=True, eq=False)
class ShareEvidence:
    """Evidence about the class shares of a target, from its predictions.

    Attributes
    ----------
    shares : (K,) array or None
        Estimated class shares; None if no shares explain the predictions, or this cannot be
        checked.
    source_shares : (K,) array
    moved, fit
        The two tests.
    objection : str
        Why the logits should not be corrected; empty if they should be.
    offsets : (K,) array
        What a correction adds to logits at the source temperature.
    temperature : float
        Temperature of the corrected logits, relative to the source's.
    accuracy : float
        Accuracy of the corrected predictions that the new shares imply.
    changed : float
        Fraction of the predictions that the correction changes.
    deviation : float
        Standard deviation of a share due to sampling of the target's nodes.
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
        """Return the evidence with a further objection, which may be empty."""
        return replace(self, objection=self.objection or doubt)

    def reasons(self, request: ClassShares) -> tuple[Reason, ...]:
        """Return what to say, depending on whether a correction was requested."""
        if self.supported and self.shares is not None:
            moves = f"the class shares seem to have moved: {self._moves(self.shares)}"
            if request == "estimate":
                text = (
                    f"{moves}; correcting for it changes {self.changed:.1%} of the predictions, "
                    "and is right only if nothing else has changed."
                )
                return (Reason(ReasonCode.CLASS_SHARES_CORRECTED, text),)
            text = (
                f'{moves}; class_shares="estimate" would correct the logits for it, which is right '
                "only if nothing else has changed: check it with labels of some nodes."
            )
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
            "class_shares='estimate' changes predictions, for which no node temperatures were "
            "learned; use it without per_node."
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
        "earlier version, or its model has too many classes or hardly separates them."
    )
    return (Reason(ReasonCode.CLASS_PROFILE_MISSING, text),)


def doubt(novelty: float, unreadable: bool, gains: Gains | None, accuracy: Estimate) -> str:
    """Return which other signal points to more than new class shares, or "".

    Parameters
    ----------
    novelty
        Distance of the target from the atlas, as in the verdict.
    unreadable
        Whether the logits or the graph do not allow signals to be measured.
    gains
        Signal gains of the target; None without a model.
    accuracy
        The estimate after a correction.

    Examples
    --------
    >>> lost = Gains(signal=np.log(0.5), halves=None, model=None, own=None, homophily=0, spread=0)
    >>> doubt(0.8, False, lost, Estimate(0.8, 0.75, 0.85, "class shares"))
    "only 50% of the source's signal is left, so other things have changed"
    """
    if novelty > ABSTAIN_NOVELTY or unreadable:
        return "the other signals are too far from the source's to rule out other changes"
    if gains is not None and gains.signal is not None and gains.signal < np.log(LEAST_GAIN):
        left = float(np.exp(gains.signal))
        return f"only {left:.0%} of the source's signal is left, so other things have changed"
    if accuracy.high - accuracy.low > 2.0 * ABSTAIN_WIDTH:
        return "the accuracy would not be known well enough"
    return ""


def target_effect(profile: ClassProfile | None, observation: Observation) -> float:
    """Return how far a target's predictions depend on each other; 1 if the card does not say."""
    if profile is None or profile.dependence is None:
        return 1.0
    given = observation.graph, observation.nodes, profile.dependence
    return dependence.design_effect(*given, observation.node_keys)


def weigh(
    profile: ClassProfile,
    logits: FloatArray,
    relative: float,
    design_effect: Callable[[], float] = lambda: 1.0,
) -> ShareEvidence:
    """Estimate the class shares of a target and decide whether to correct for them.

    Parameters
    ----------
    profile
        The class profile of the card.
    logits : (n, K) array
        Logits of the target's nodes, divided by the source temperature.
    relative
        Their temperature without a correction, relative to the source's.
    design_effect
        Returns by how much the target's predictions vary more, given the classes, than if its nodes
        were independent; the profile holds the source's. It is not called if the shares would not
        have moved among independent nodes, which then have not moved among dependent ones either.

    Examples
    --------
    Two classes; the second has a share of 20 % at the source and of 80 % at the target:

    >>> rng = np.random.default_rng(0)
    >>> def draw(share, n=4000):
    ...     y = (rng.random(n) < share).astype(int)
    ...     g = 2.0 * (2 * y - 1) + 2.0 * rng.standard_normal(n) - np.log(4.0)
    ...     return np.column_stack([np.zeros(n), g]), y
    >>> profile = ClassProfile.measure(*draw(0.2))
    >>> logits, _ = draw(0.8)
    >>> evidence = weigh(profile, logits, 1.0)
    >>> evidence.supported, bool(abs(evidence.shares[1] - 0.8) < 0.03)
    (True, True)
    """
    source, size = profile.shares, len(logits)
    z, predictions = profile.calibrated(logits), logits.argmax(axis=1)
    predicted = np.bincount(predictions, minlength=source.size) / size
    test = partial(shares_moved, profile.confusion, profile.num_nodes, predicted, size)
    moved, effect = test(), 1.0
    if moved.p_value < MOVED_LEVEL:
        effect = design_effect()
        moved = test(design_effects=(profile.design_effect, effect))
    estimate = _estimate(profile, z, predicted, effect)
    fit = shares_fit(profile.counts, profile.cells(logits), estimate.shares)
    explained = fit.degrees >= 1 and fit.p_value >= FIT_LEVEL and not estimate.trouble
    # A share without a single node among n may still be 1/n.
    ratio = adjust_logits(np.zeros((1, source.size)), source, estimate.shares, floor=1.0 / size)[0]
    posterior = temperatures.apply(z + ratio)
    if moved.p_value >= MOVED_LEVEL:
        objection = "the shares of the predictions have not moved beyond chance"
    elif not explained:
        objection = "the shares of the predictions have moved, but " + (
            estimate.trouble or "new class shares alone do not explain the predictions"
        )
    else:
        confidence = temperatures.apply(logits, relative).max(axis=1)
        objection = estimate.objection(source) or _too_small(confidence, posterior, predictions)
    return ShareEvidence(
        shares=estimate.shares if explained else None,
        source_shares=source,
        moved=moved,
        fit=fit,
        objection=objection,
        offsets=np.asarray((ratio + profile.biases) / profile.slope),
        temperature=1.0 / profile.slope,
        accuracy=float(posterior.max(axis=1).mean()),
        changed=float((posterior.argmax(axis=1) != predictions).mean()),
        deviation=estimate.error / source.size * float(np.sqrt(np.pi / 2.0)),
    )


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Shares by likelihood and by the confusion table, the error of the former, and any trouble."""

    shares: FloatArray
    by_table: FloatArray
    error: float
    trouble: str

    def objection(self, source: FloatArray) -> str:
        change = float(np.abs(self.shares - source).sum())
        if float(np.abs(self.shares - self.by_table).sum()) > AGREEMENT * change:
            return "two ways to estimate the new class shares disagree"
        if change < LEAST_ERRORS * self.error:
            return "there are too few nodes to tell the new class shares from the source's"
        return ""


def _estimate(
    profile: ClassProfile, logits: FloatArray, predicted: FloatArray, design_effect: float
) -> _Estimate:
    source = profile.shares
    p = _known_only(logits, source)
    by_table, trouble = source, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GraphTemperWarning)
        shares = em(p, source, prior=PRIOR_NODES)
        try:
            by_table = bbse(profile.confusion, predicted)
        except NotIdentifiableError:
            trouble = "to classes that the source never predicted"
    if any(issubclass(item.category, GraphTemperWarning) for item in caught):
        trouble = "the model hardly separates some classes"
    error = share_error(p, source, shares, prior=PRIOR_NODES)
    return _Estimate(shares, by_table, error * _widening(profile.confusion, design_effect), trouble)


def _widening(confusion: FloatArray, design_effect: float) -> float:
    """Return the factor by which dependent nodes widen the error of estimated class shares.

    It is that of shares which solve the confusion table: a class varies as it would among
    independent nodes, and the predictions of a class by the design effect more.
    """
    present = confusion.sum(axis=0) > 0.0
    source = confusion.sum(axis=0)[present]
    rates = confusion[:, present] / source
    solved = np.linalg.pinv(rates)
    given = float(np.trace(solved @ within_classes(rates, source) @ solved.T))
    classes = float((source * (1.0 - source)).sum())
    if not classes + given > 0.0:  # one class, always predicted
        return 1.0
    return float(np.sqrt((classes + design_effect * given) / (classes + given)))


def _known_only(logits: FloatArray, source: FloatArray) -> FloatArray:
    """Return probabilities among the classes that the source has; others cannot be recognised."""
    known = source > 0.0
    if known.all():
        return temperatures.apply(logits)
    p = np.zeros_like(logits)
    p[:, known] = temperatures.apply(logits[:, known]) if known.sum() > 1 else 1.0
    return p


def _too_small(confidence: FloatArray, posterior: FloatArray, predictions: NDArray[np.intp]) -> str:
    """Return why a correction is not worth its risk, or ""."""
    right = posterior[np.arange(len(posterior)), predictions]
    worth = _expected_error(confidence, right)
    gain = float((posterior.max(axis=1) - right).mean())
    if worth >= WORTH or gain >= GAIN:
        return ""
    return (
        f"it would repair an expected calibration error of only {worth:.3f} and gain only "
        f"{gain:.1%} in accuracy"
    )


def _expected_error(confidence: FloatArray, accuracy: FloatArray) -> float:
    """Return the expected ECE, given the probability that each node is right."""
    index = bin_index(confidence, equal_width_edges(_BINS), closed="left")
    gaps = weighted_count(index, confidence - accuracy, _BINS)
    return float(np.abs(gaps).sum() / confidence.size)
