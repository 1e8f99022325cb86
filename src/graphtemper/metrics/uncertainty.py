"""Sampling uncertainty of calibration metrics: reliability bands and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.checks import FloatArray, check_choice, check_count, check_level, check_pair
from graphtemper._core.reproducible import generator
from graphtemper.errors import NotFiniteError
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


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with an interval around it."""

    value: float
    low: float
    high: float


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


def bootstrap(
    metric: Callable[[FloatArray, NDArray[np.intp]], float],
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    method: Literal["basic", "percentile"] = "basic",
    seed: int | np.random.Generator = 0,
) -> Interval:
    r"""Return a bootstrap interval over nodes for any metric of (probabilities, labels).

    With v the metric and q the quantiles of its resampled values, ``"basic"`` is
    :math:`[2v - q_{high}, 2v - q_{low}]` and ``"percentile"`` is :math:`[q_{low}, q_{high}]`.
    ECE-like metrics are biased upwards, and resampling adds the bias a second time; the basic
    interval removes it, so it is the default. It may extend below 0, which means that 0 is not
    excluded. Nodes are resampled as if independent; on a graph the interval is optimistic.
    An infinite metric, such as `nll` with a label of probability 0, has no interval.

    Parameters
    ----------
    metric : callable
        For example `ece`, or ``lambda p, y: ece(p, y, bins=10)``.
    probabilities : (n, K) array
    labels : (n,) integer array
    resamples : int
    level : float
    method : {"basic", "percentile"}
    seed : int or numpy.random.Generator

    Returns
    -------
    Interval

    Raises
    ------
    InputError
        If the metric is infinite or NaN on these nodes or on a resample.

    References
    ----------
    Davison & Hinkley, "Bootstrap Methods and their Application", 1997.

    Examples
    --------
    >>> p = [[0.2, 0.8]] * 50
    >>> from graphtemper.metrics import ece
    >>> interval = bootstrap(ece, p, [1] * 30 + [0] * 20)
    >>> round(interval.value, 2), interval.low < 0.2 < interval.high
    (0.2, True)
    """
    p, y = check_pair(probabilities, labels, "probabilities")
    check_choice(method, ("basic", "percentile"), "method")
    tail = 0.5 * (1.0 - check_level(level))
    rng = generator(seed)
    value = _finite(metric(p, y), "these nodes")
    samples = np.empty(check_count(resamples, "resamples"))
    for i in range(len(samples)):
        rows = rng.integers(len(p), size=len(p))
        samples[i] = _finite(metric(p[rows], y[rows]), "a resample of these nodes")
    low, high = map(float, np.quantile(samples, [tail, 1.0 - tail]))
    if method == "basic":
        low, high = 2.0 * value - high, 2.0 * value - low
    return Interval(value, low, high)


def _finite(value: float, where: str) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise NotFiniteError(
            f"the metric is {number} on {where}, so it has no bootstrap interval; "
            "use a metric that is finite there."
        )
    return number
