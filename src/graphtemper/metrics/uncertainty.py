"""Sampling uncertainty of calibration: reliability bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.checks import FloatArray, check_level
from graphtemper.metrics.binned import Closed, Scheme, bin_probabilities


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityCurve:
    """Accuracy against confidence, one entry per non-empty bin.

    Attributes
    ----------
    confidence, accuracy : (B,) float64 arrays
        Means over the nodes of a bin.
    low, high : (B,) float64 arrays
        Clopper-Pearson interval of the accuracy.
    count : (B,) int64 array
        Nodes in the bin.
    """

    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    count: NDArray[np.int64]


def reliability_curve(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
    level: float = 0.95,
) -> ReliabilityCurve:
    """Return accuracy against confidence with an exact binomial interval per non-empty bin.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins, scheme, closed
        As in `bin_probabilities`.
    level : float
        Coverage of each bin's Clopper-Pearson interval.

    Returns
    -------
    ReliabilityCurve

    References
    ----------
    Clopper & Pearson, "The use of confidence or fiducial limits", Biometrika 1934.

    Examples
    --------
    >>> curve = reliability_curve([[0.1, 0.9]] * 10, [1] * 8 + [0] * 2)
    >>> curve.accuracy.round(2), curve.low.round(3), curve.high.round(3)
    (array([0.8]), array([0.444]), array([0.975]))
    """
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - check_level(level))
    statistics = bin_probabilities(probabilities, labels, bins, scheme=scheme, closed=closed)
    used = statistics.count > 0
    count, correct = statistics.count[used], statistics.correct_sum[used]
    wrong = count - correct
    # The beta quantile is undefined at zero successes or failures, where the limit is 0 or 1.
    low = np.where(correct > 0, betaincinv(np.maximum(correct, 1), wrong + 1, tail), 0.0)
    high = np.where(wrong > 0, betaincinv(correct + 1, np.maximum(wrong, 1), 1.0 - tail), 1.0)
    return ReliabilityCurve(
        statistics.confidence_sum[used] / count, correct / count, low, high, count
    )
