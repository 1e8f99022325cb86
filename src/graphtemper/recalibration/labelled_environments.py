"""What an answer that learned from labelled environments rests on, in words."""

from __future__ import annotations

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.numerics import to_share
from graphtemper.card.reading import Prior, Reading
from graphtemper.recalibration.reasons import Reason, ReasonCode

METHOD = "environments"
# A temperature harms if mean confidence misses the accuracy by this much more than before. What a
# certain harm weighs, in units of accuracy.
_HARM, _HARM_WEIGHT = 0.02, 0.05
_STEPS, _QUANTILES = 41, 60


def accuracy_to_match(prior: Prior, confidence: float) -> float:
    r"""Return the accuracy that mean confidence should match, between the prior's and confidence.

    The median of the prior minimises the expected distance :math:`|C - A|` of confidence and
    accuracy, but where the prior hardly says on which side of the present confidence C_0 the
    accuracy lies, moving does harm in almost half of all cases. So

    .. math:: E|C - A| + w\,P\big(|C - A| > |C_0 - A| + 0.02\big)

    is minimised: a clear move is made, and of an unclear one only a part or nothing.

    Examples
    --------
    >>> round(accuracy_to_match(Prior(0.0, 0.1), 0.8), 2)  # clearly over-confident
    0.5
    >>> round(accuracy_to_match(Prior(0.0, 1.0), 0.6), 2)  # perhaps over-confident
    0.58
    """
    if confidence >= 1.0 or confidence <= 0.0:
        return to_share(prior.centre)
    start = float(np.log(confidence / (1.0 - confidence)))
    candidates = _share(prior.centre + (start - prior.centre) * np.linspace(0.0, 1.0, _STEPS))
    truth = _share(prior.quantiles((np.arange(_QUANTILES) + 0.5) / _QUANTILES))
    apart = np.abs(candidates[:, None] - truth)
    harm = apart > np.abs(confidence - truth) + _HARM
    return float(candidates[int((apart + _HARM_WEIGHT * harm).mean(axis=1).argmin())])


def _share(values: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-values)))


def reasons(reading: Reading) -> list[Reason]:
    """Say which assumption about labelled environments the interval rests on.

    The list is empty if the card has none.
    """
    expected, known = reading.expected, reading.card.environments
    if expected is None:
        return []
    count = sum(item.count for item in known)
    many = "1 labelled environment" if count == 1 else f"{count} labelled environments"
    if known[-1].when is not None:
        code = ReasonCode.ENVIRONMENTS_ORDERED
        text = (
            f"the estimate rests on {many} in order of time; recent ones count for more, and the "
            "interval assumes that this graph differs from them as they differ from each other."
        )
        if count == 1:
            text = (
                f"the estimate rests on {many}, of an earlier time; the interval assumes that this "
                "graph differs from it as natural graphs usually differ from each other."
            )
    elif expected.exchangeable:
        code = ReasonCode.ENVIRONMENTS_EXCHANGEABLE
        text = (
            f"the estimate rests on {many}; the interval is valid if this graph could as well have "
            "been any of them, whatever the distribution of their gaps."
        )
    else:
        code = ReasonCode.ENVIRONMENTS_FEW
        text = (
            f"the estimate rests on {many}, too few to show how much they vary: the interval "
            "assumes that gaps between confidence and accuracy vary as in other natural graphs."
        )
    said = [Reason(code, text)]
    if expected.outlier is not None:
        name = known[expected.outlier].name
        text = (
            f"the accuracy in environment {name!r} does not go with that in the others; check its "
            "labels."
        )
        said.append(Reason(ReasonCode.ENVIRONMENT_DEVIATES, text))
    if any(item.count > 1 for item in known):
        text = "the card was at its size limit, so the oldest environments were merged into one."
        said.append(Reason(ReasonCode.ENVIRONMENTS_MERGED, text))
    return said
