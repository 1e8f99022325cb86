r"""Accuracy from labels that arrive one after another: intervals that hold where one stops.

Nodes are labelled in a random order, so the labels are a sample without replacement from the N
chosen nodes. Columns that are known for all of them, such as confidence, explain a part of which
predictions are right; a *difference estimator* takes that part from all nodes and only the rest
from the labels,

.. math:: \hat A = \bar r + (\bar x_N - \bar x_n)^\top b,

whose error depends on the residuals alone (Cochran, *Sampling Techniques*, 1977, chapter 7). The
coefficients b are those of a ridge regression. Two intervals come from it:

At a width
    .. math:: \hat A \pm z \sqrt{\frac{s^2}{n} \Big(1 - \frac nN\Big)}

    with the variance s of the residuals. Labelling stops when it is narrow enough (Chow and
    Robbins, Annals of Mathematical Statistics 1965). Stopping favours samples that look narrow, so
    s contains four labels of the largest variance, z is 3 % larger than that of a 90 % interval,
    and `FEWEST` labels are needed. Labels that suffice whatever the accuracy always do.

At any moment
    A fortune that a fair game multiplies exceeds 20 with a probability of at most 1/20, however
    long it is played (Ville). For an accuracy m, the mean of the remaining nodes is
    :math:`\mu_t = (N m - \sum_{s<t} r_s) / (N - t + 1)`, and

    .. math:: \prod_t \big(1 \pm \lambda_t (y_t - \mu_t)\big), \qquad
              y_t = r_t - (x_t - \bar x_{\text{remaining}})^\top b_{t-1}

    is such a fortune if m is the truth: :math:`\lambda_t` and :math:`b_{t-1}` depend on the past
    only. The interval holds all m at which neither bet, on more nor on less, has reached 20 so far
    (Waudby-Smith and Ramdas, *Estimating means of bounded random variables by betting*, JRSSB
    2024, section 5). Good bets make it narrow; none can make it wrong. The fortune is a mean over
    bets on several distances of the accuracy from m.

Precision is the accuracy of flagged nodes. Recall is a share of the positive nodes, whose number
are not known: if every other node counts m, all nodes have the mean m where the recall is m, so the
same fortune is bet on that. Positive nodes among the labelled are a random sample of positive ones,
which gives the interval at a width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS

FEWEST = 30
"""With fewer labels no interval counts as narrow."""
WAGER = float(np.log(20.0))
"""Logarithm of the fortune at which a bet is won: an error of 5 % on each side."""
# Prior precision of standardised coefficients, and labels of the largest variance, 1/4, that are
# added to the residuals.
_RIDGE, _ADDED, _QUARTER = 10.0, 4.0, 0.25
_WIDER = 1.03 * DEVIATIONS
# Distances between accuracy and hypothesis that are bet on, and how the fortune is divided.
_DISTANCES = np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.3])[:, None]
_STAKES = np.log([0.1, 0.2, 0.3, 0.2, 0.1, 0.1])[:, None]
# The most that a bet may lose, and what explained parts may add to an outcome.
_LOSS, _EXPLAINED = 0.75, 0.5
# Accuracies on the grid, and how often coefficients are fitted again.
_LEAST_VARIANCE, _GRID, _REFITS = 0.01, 500, 200


def standardised(columns: FloatArray) -> FloatArray:
    """Return columns (n, p) with mean 0 and deviation 1, without the constant ones.

    Examples
    --------
    >>> standardised(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0], [1.0]]
    """
    centred = columns - columns.mean(axis=0)
    deviation = centred.std(axis=0)
    varies = deviation > 1e-9
    return np.asarray(centred[:, varies] / deviation[varies])


def adjusted(design: FloatArray, rows: NDArray[np.int64], right: FloatArray) -> tuple[float, float]:
    """Return the difference estimate of an accuracy from a random sample, and a label's variance.

    Parameters
    ----------
    design : (n, p) array
        Standardised columns of all nodes.
    rows, right : (m,) arrays
        The labelled nodes, and 1.0 where the prediction is right.

    Examples
    --------
    Confidence tells which predictions are right, and the sample has too many confident nodes:

    >>> confident = np.repeat([1.0, 0.0], 500)
    >>> rows = np.r_[0:30, 500:510]
    >>> value, variance = adjusted(standardised(confident[:, None]), rows, confident[rows])
    >>> round(value, 2), round(variance, 2)
    (0.56, 0.03)
    """
    slope, used = _ridge(design[rows], right)
    explained = design[rows] @ slope
    rest = right - explained
    squares = float(((rest - rest.mean()) ** 2).sum())
    variance = (squares + _ADDED * _QUARTER) / (max(right.size - 1.0 - used, 1.0) + _ADDED)
    return float(rest.mean()), variance


def half_width(variance: float, count: int, population: float) -> float:
    """Return the half-width of the interval after ``count`` labels, one of which has a variance.

    Examples
    --------
    >>> round(half_width(0.16, 100, 10**6), 3), half_width(0.16, 100, 100)
    (0.068, 0.0)
    """
    worst = DEVIATIONS * np.sqrt(_QUARTER)
    left = (1.0 - count / population) / count
    return float(min(_WIDER * np.sqrt(variance), worst) * np.sqrt(left))


def any_moment(
    design: FloatArray,
    rows: NDArray[np.int64],
    right: FloatArray,
    counted: NDArray[np.bool_] | None = None,
) -> tuple[float, float]:
    """Return the interval that holds at every moment of a session with at least 90 %.

    The arguments are those of `fortunes`.

    Examples
    --------
    >>> right = np.tile([1.0, 1.0, 1.0, 0.0, 1.0], 20)
    >>> low, high = any_moment(np.empty((1000, 0)), np.arange(100), right)
    >>> round(low, 2), round(high, 2)
    (0.67, 0.88)
    """
    steps = min(len(design), _GRID)
    means = np.arange(steps + 1) / steps
    reached = fortunes(design, rows, right, means, counted).max(axis=0)
    kept = np.flatnonzero(reached < max(WAGER, reached.min() + 1e-9))
    low, high = int(kept[0]), int(kept[-1])
    around = int(len(design) > steps)  # the truth may lie between two points
    return float(means[max(low - around, 0)]), float(means[min(high + around, steps)])


def fortunes(
    design: FloatArray,
    rows: NDArray[np.int64],
    right: FloatArray,
    means: FloatArray,
    counted: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Return the logarithms of the largest fortunes so far, (2, m): bets on more and on less.

    Parameters
    ----------
    design : (n, p) array
        Standardised columns of all nodes; p may be 0.
    rows, right : (t,) arrays
        The labelled nodes in their order, and 1.0 where the prediction is right.
    means : (m,) array
        The accuracies that are bet against.
    counted : (t,) array or None
        For a recall, which labels are positive; ``right`` then says that they are flagged.

    Examples
    --------
    >>> right = np.tile([1.0, 1.0, 1.0, 0.0, 1.0], 20)
    >>> given = np.empty((1000, 0)), np.arange(100), right, np.array([0.6, 0.78])
    >>> more, less = fortunes(*given)
    >>> (more > WAGER).tolist(), (less > WAGER).tolist()
    ([True, False], [False, False])
    """
    size, population, x = right.size, len(design), design[rows]
    before = np.arange(size)
    slopes, step = np.zeros(x.shape), -(-size // _REFITS)
    for k in range(0, size if x.shape[1] else 0, max(step, 1)):
        slopes[k : k + step] = _ridge(x[:k], right[:k])[0]  # of labels before
    remaining = -_sums_before(x) / (population - before)[:, None]  # all columns sum to 0
    reach = (np.abs(slopes) * np.ptp(design, axis=0)).sum(axis=1)
    shrunk = np.minimum(_EXPLAINED / np.maximum(reach, 1e-12), 1.0)
    values = right[:, None]
    if counted is not None and not counted.all():
        values = np.where(counted[:, None], values, means)
    outcomes = values - (((x - remaining) * slopes).sum(axis=1) * shrunk)[:, None]
    reach = reach * shrunk
    hits, sums, squares = (_sums_before(part) for part in (values, outcomes, outcomes**2))
    mean, squared = ((0.5 + part) / (1.0 + before)[:, None] for part in (sums, squares))
    variance = np.maximum(squared - mean**2, _LEAST_VARIANCE)
    now = np.zeros((2, _DISTANCES.size, means.size))
    best = np.full((2, means.size), -np.inf)
    for t in range(size):
        expected = (population * means - hits[t]) / (population - t)
        mu = expected.clip(0.0, 1.0)
        wager, gain = _DISTANCES / (variance[t] + _DISTANCES**2), outcomes[t] - mu
        most = _LOSS / (np.stack([mu, 1.0 - mu]) + reach[t] + 1e-12)
        now[0] += np.log1p(np.minimum(wager, most[0]) * gain)
        now[1] += np.log1p(-np.minimum(wager, most[1]) * gain)
        reached = np.logaddexp.reduce(now + _STAKES, axis=1)
        # Accuracies that the labels so far exclude.
        reached[0, expected < -1e-9] = reached[1, expected > 1.0 + 1e-9] = np.inf
        best = np.maximum(best, reached)
    return best


def _ridge(x: FloatArray, right: FloatArray) -> tuple[FloatArray, float]:
    """Return the coefficients of a ridge regression with an intercept, and how many it used."""
    if not len(x):
        return np.zeros(x.shape[1]), 0.0
    centred = x - x.mean(axis=0)
    square = centred.T @ centred
    found = np.linalg.solve(
        square + _RIDGE * np.eye(len(square)), np.column_stack([centred.T @ right, square])
    )
    return found[:, 0], float(np.trace(found[:, 1:]))


def _sums_before(values: FloatArray) -> FloatArray:
    """Return the sums of all rows before each row."""
    return np.asarray(np.cumsum(values, axis=0) - values)
