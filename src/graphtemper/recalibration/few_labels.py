r"""A few labels of the target: one posterior for the accuracy, one for the temperature.

The atlas is the prior on the log-odds :math:`\eta` of the accuracy; the labels are the likelihood.
No labels give the atlas's answer, many give what the labels alone would.

Prior
    A Student t with 4 degrees of freedom around the atlas's centre c, as wide as its 90 % interval:

    .. math:: \log \pi(\eta; c, d) = -\frac{\nu + 1}{2}
              \log\Big(1 + \frac{(\eta - c)^2}{\nu s^2}\Big),
              \qquad s = d\,\frac{z_{0.95}}{t_{0.95, \nu}}.

    The interval alone does not tell a normal from it, but labels do: an atlas that is simply wrong
    about a target is given up once they contradict it, where a normal would hold them back for
    ever, and one that is right counts for more.

Accuracy
    The labelled nodes are right or wrong, so with an effective count n and a share s of right ones

    .. math:: \log p(\eta) = \log \pi(\eta; c, d)
              + n \left[s \log\sigma(\eta) + (1 - s) \log\sigma(-\eta)\right].

Temperature
    The mean confidence C(T) falls with T, so every accuracy has one temperature T(eta) that matches
    it (the nearest one where none does) and the prior carries over as it is. The labels count
    through their own likelihood under softmax(z/T):

    .. math:: \log p_T(\eta) = \log \pi\big(\eta; c, \sqrt{d^2 + m^2}\big)
              + \sum_i w_i \log\Big((1 - \epsilon)\,
              \mathrm{softmax}\big(z_i / T(\eta)\big)_{y_i} + \epsilon / K\Big).

    :math:`\epsilon`, `OUTLIERS`, is the share of nodes about which no temperature is right. Without
    it, one node that is certain and wrong would decide for all others.

    m, `MATCH_DEVIATION`, is what matching misses. This is the posterior on log T, written in the
    coordinate where the prior is simple: no derivative of the map is needed, and accuracies below
    chance, which no temperature matches, keep their weight at its end.

Each label counts once in each posterior. The temperature's prior is the atlas's alone, not the
accuracy's posterior: a label that is right already speaks for a lower temperature through its
likelihood, and counting it through the accuracy as well would be using it twice. That likelihood
also says more, because it knows how confident the model was where it was right or wrong.

Both answers are posterior *medians*. A median goes with a monotone map, so the median of the prior
on log T is exactly the temperature that matches the atlas's accuracy; a mean would already differ
from it without any label, and near chance, where log T runs off to infinity, by a lot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.log_odds import to_share
from graphtemper.card.reading import Prior
from graphtemper.recalibration.reasons import Reason
from graphtemper.temperature.inverse import gaps, summarise

METHOD = "atlas and labels"
# Shares of the posterior below the interval, the answer and the interval's upper end.
_QUANTILES = (0.05, 0.5, 0.95)
# Matching mean confidence and maximising the likelihood are two definitions of the best T: on real
# graphs under shifts, mean confidence at the likeliest T misses the accuracy by this in log-odds.
MATCH_DEVIATION = 0.1
# One node in a thousand may be beyond repair: broken features, a wrong label.
OUTLIERS = 0.001
# The largest fraction of an integral that one cell may hold; cells are split in four at most
# ROUNDS times.
_SHARE, _ROUNDS = 1.0 / 500.0, 40
# The confidence curve: knots, nodes it is measured on, and how far its log T leaves the logits'.
_KNOTS, _MOST_ROWS, _MARGIN = 129, 20_000, 9.0


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled nodes: their rows among the chosen nodes, classes, and one weight each.

    A weight is how many nodes a labelled node stands for, up to a common factor.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    weights: FloatArray


NO_LABELS = Labels(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def effective_count(weights: ArrayLike) -> float:
    r"""Return how many equally weighted labels know as much: :math:`(\sum w)^2 / \sum w^2`.

    Kish's formula. It is exact where the weights have nothing to do with being right.

    Examples
    --------
    >>> effective_count([2.0, 2.0, 2.0]), round(effective_count([3.0, 1.0]), 6)
    (3.0, 1.6)
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.size == 0:
        return 0.0
    w = w / w.max()
    return float(w.sum() ** 2 / (w**2).sum())


def accuracy(
    prior: Prior,
    right: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    population: int | None = None,
) -> Estimate:
    r"""Return the accuracy given which labelled nodes are right, with a 90 % credible interval.

    Parameters
    ----------
    prior
        From the atlas.
    right : (m,) array
        1 or True where the prediction of a labelled node is its label.
    weights : (m,) array, optional
        How many nodes each one stands for; equal unless given.
    population : int, optional
        The number of nodes n that the accuracy is about, the labelled ones among them. Labels of a
        large part of them know more than the same number from an endless supply, by the factor
        :math:`(n - 1) / (n - m)`; with all of them labelled the accuracy is known exactly.

    Examples
    --------
    >>> known = accuracy(Prior(0.0, 1.0), [1] * 45 + [0] * 5)
    >>> round(known.value, 2), round(known.low, 2), round(known.high, 2)
    (0.87, 0.78, 0.94)
    >>> accuracy(Prior(0.0, 1.0), [1, 1, 1, 0], population=4)
    Estimate(value=0.75, low=0.75, high=0.75, method='atlas and labels')
    """
    hits = np.asarray(right, dtype=np.float64)
    if hits.size == 0:
        return prior.estimate(METHOD)
    if population is not None and hits.size >= population:
        exact = float(hits.mean())
        return Estimate(exact, exact, exact, METHOD)
    w = np.ones(hits.size) if weights is None else np.asarray(weights, dtype=np.float64)
    count = effective_count(w)
    if population is not None:
        count *= (population - 1) / (population - hits.size)
    share = float(np.average(hits, weights=w))

    def log_density(x: FloatArray) -> FloatArray:
        miss = share * np.logaddexp(0.0, -x) + (1.0 - share) * np.logaddexp(0.0, x)
        return np.asarray(prior.log_density(x) - count * miss)

    found = quantiles(log_density, prior.grid(), _QUANTILES)
    low, value, high = (to_share(x) for x in found)
    return Estimate(value, low, high, METHOD)


def temperature(prior: Prior, logits: FloatArray, labels: Labels, matched: float) -> float:
    """Return the posterior median of the temperature.

    Parameters
    ----------
    prior
        From the atlas.
    logits : (n, K) array
        Of all chosen nodes: their mean confidence carries the prior over to the temperature.
    labels
        Which of them are labelled. Weights count relative to each other and add up to
        `effective_count`.
    matched
        The temperature that matches mean confidence to the prior's accuracy. It is the answer
        where there are no labels, or where all logits are equal.

    Examples
    --------
    Logits of 2 claim 88 %. The atlas expects 76 %, a temperature of 1.73; of forty labelled nodes
    nine in ten are right, which asks for 0.91 and weighs as much as this prior:

    >>> z = np.array([[0.0, 2.0]] * 400)
    >>> prior, matched = Prior(np.log(0.76 / 0.24), 0.5), temperatures.match_confidence(z, 0.76)
    >>> none = Labels(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    >>> temperature(prior, z, none, matched) == matched
    True
    >>> labels = Labels(np.arange(40), np.array([1] * 36 + [0] * 4), np.ones(40))
    >>> round(temperature(prior, z, labels, matched), 1)
    1.2
    """
    if labels.rows.size == 0:
        return matched
    summary = summarise(logits, None)
    if summary.spread == 0.0:
        return matched
    bounds = np.log(summary.spread) - _MARGIN, np.log(summary.largest_spread) + _MARGIN
    log_temperature = _matching(logits, bounds, float(np.log(matched)))
    start = Prior(prior.centre, float(np.hypot(prior.deviation, MATCH_DEVIATION)))
    log_likelihood = _likelihood_of_labels(logits, labels)

    def log_density(x: FloatArray) -> FloatArray:
        return np.asarray(start.log_density(x) + log_likelihood(log_temperature(x)))

    median = quantiles(log_density, start.grid(), (0.5,))
    return float(np.exp(log_temperature(median)[0]))


def _matching(
    logits: FloatArray, bounds: tuple[float, float], otherwise: float
) -> Callable[[FloatArray], FloatArray]:
    """Return log T as a function of the log-odds of the accuracy that mean confidence matches.

    ``otherwise`` is the answer where the mean confidence of the nodes looked at never changes.
    """
    from scipy.interpolate import PchipInterpolator

    # Evenly spaced rows: a prior is never known as well as a mean over so many nodes.
    part = logits[:: -(-len(logits) // _MOST_ROWS)]
    falling = np.linspace(bounds[1], bounds[0], _KNOTS)
    confidence = np.array([temperatures.mean_confidence(part, float(np.exp(x))) for x in falling])
    confidence = np.clip(confidence, 1e-12, 1.0 - 1e-12)
    odds = np.log(confidence) - np.log1p(-confidence)
    # Where the curve is flat to rounding one knot speaks for all.
    rising = np.flatnonzero(np.diff(odds, prepend=-np.inf) > 1e-9)
    knots = odds[rising]
    if knots.size < 2:
        return lambda x: np.full(x.shape, otherwise)
    inverse = PchipInterpolator(knots, falling[rising])
    return lambda x: np.asarray(inverse(np.clip(x, knots[0], knots[-1])))


def _likelihood_of_labels(logits: FloatArray, labels: Labels) -> Callable[[FloatArray], FloatArray]:
    """Return the log-likelihood of the labels as a function of log T."""
    d = gaps(logits[labels.rows], slice(0, labels.rows.size))
    weights = labels.weights * (effective_count(labels.weights) / labels.weights.sum())
    at_label = d[labels.classes, np.arange(labels.rows.size)]
    floor = OUTLIERS / logits.shape[1]

    def one(x: float) -> float:
        beta = float(np.exp(-x))
        with np.errstate(under="ignore", over="ignore"):
            p = np.exp(beta * at_label) / np.exp(beta * d).sum(axis=0)
            return float(weights @ np.log((1.0 - OUTLIERS) * p + floor))

    return lambda x: np.array([one(point) for point in x])


def log_likelihood(logits: FloatArray, labels: Labels, temperature: float) -> float:
    """Return the log-likelihood of labels at a temperature, robust as in the posterior; 0 of none.

    Examples
    --------
    >>> z, one = np.array([[0.0, 2.0]]), Labels(np.array([0]), np.array([1]), np.ones(1))
    >>> log_likelihood(z, one, 1.0) > log_likelihood(z, one, 3.0)
    True
    """
    if labels.rows.size == 0:
        return 0.0
    return float(_likelihood_of_labels(logits, labels)(np.array([np.log(temperature)]))[0])


def quantiles(
    log_density: Callable[[FloatArray], FloatArray], points: FloatArray, shares: tuple[float, ...]
) -> FloatArray:
    """Return quantiles of a density that is known up to a factor.

    The integral is a sum over cells between ``points``, which know where the prior is. Cells that
    hold much of it are split, so that a peak is found and resolved however far from the prior the
    labels put it and however narrow they make it.

    Examples
    --------
    >>> even = np.linspace(-40.0, 40.0, 81)
    >>> quantiles(lambda x: -0.5 * ((x - 3.3) / 1e-4) ** 2, even, (0.05, 0.5)).round(5)
    array([3.29984, 3.3    ])
    """
    x, y = points, log_density(points)
    for _ in range(_ROUNDS):
        width = np.diff(x)
        cells = width * _mean_density(np.maximum(y - y.max(), -700.0))
        large = np.flatnonzero(cells > _SHARE * cells.sum())
        if large.size == 0:
            break
        split = (x[large] + np.outer([0.25, 0.5, 0.75], width[large])).ravel()
        x, order = np.unique(np.concatenate([x, split]), return_index=True)
        y = np.concatenate([y, log_density(split)])[order]
    below = np.concatenate([[0.0], np.cumsum(cells)])
    return np.asarray(np.interp(shares, below / below[-1], x[: below.size]))


def _mean_density(y: FloatArray) -> FloatArray:
    """Return the mean density of each cell from log-densities at its ends, taken to be linear.

    A straight line through the density itself would count far too much in wide cells of the tails.
    """
    mass, step = np.exp(y), np.diff(y)
    level = np.abs(step) < 1e-6
    slope = np.diff(mass) / np.where(level, 1.0, step)
    return np.asarray(np.where(level, mass[1:], slope))


@dataclass(frozen=True)
class Learned:
    """What labels add to the atlas: both posteriors, and what to say about them."""

    accuracy: Estimate
    temperature: float
    reason: Reason
    count: float
    leads: bool
