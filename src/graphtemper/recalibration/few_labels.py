r"""A few labels of the target: one posterior for the accuracy, one for the temperature.

The atlas is the prior on the log-odds :math:`\eta` of the accuracy; the labels are the likelihood.
Without labels the result is the atlas's answer, with many it is that of the labels alone.

Prior
    A Student t with 4 degrees of freedom around the atlas's centre c, as wide as its 90 % interval:

    .. math:: \log \pi(\eta; c, d) = -\frac{\nu + 1}{2}
              \log\Big(1 + \frac{(\eta - c)^2}{\nu s^2}\Big),
              \qquad s = d\,\frac{z_{0.95}}{t_{0.95, \nu}}.

    Its interval is that of a normal, but its tails are longer: labels that contradict the atlas
    soon outweigh it, which they would not with a normal, and an atlas that is right counts for
    more.

Accuracy
    Predictions of labelled nodes are right or wrong, so with an effective count n and a fraction s
    of right ones

    .. math:: \log p(\eta) = \log \pi(\eta; c, d)
              + n \left[s \log\sigma(\eta) + (1 - s) \log\sigma(-\eta)\right].

Temperature
    The mean confidence C(T) decreases with T, so every accuracy has one temperature T(eta) that
    matches it (or the nearest one if none does) and the prior carries over. The labels enter
    through their likelihood under softmax(z/T):

    .. math:: \log p_T(\eta) = \log \pi\big(\eta; c, \sqrt{d^2 + m^2}\big)
              + \sum_i w_i \log\Big((1 - \epsilon)\,
              \mathrm{softmax}\big(z_i / T(\eta)\big)_{y_i} + \epsilon / K\Big).

    :math:`\epsilon`, `OUTLIERS`, is the fraction of nodes that no temperature describes. Without
    it, one node that is certain and wrong would outweigh all others.

    m, `MATCH_DEVIATION`, is the error of matching. This is the posterior on log T, written in the
    coordinate where the prior is simple: no derivative of the map is needed, and accuracies below
    chance, which no temperature matches, keep their weight at the end of the range.

Each label counts once in each posterior. The prior of the temperature is that of the atlas, not the
posterior of the accuracy: a correct prediction already favours a lower temperature through its
likelihood, and would otherwise count twice. That likelihood also holds more information, because it
depends on how confident the model was in right and wrong predictions.

The likeliest temperature has the lower NLL, the one that matches the accuracy the lower ECE. The
balanced objective takes a weighted mean of their logarithms. Near its minimum the NLL is quadratic,
so a quarter of the way costs about a sixteenth of the difference. The weight of the matched one
falls with the unlabelled share of the nodes: if all are labelled, the answer is the likeliest.

Both answers are posterior *medians*. Medians commute with monotone maps, so the median of the prior
on log T is exactly the temperature that matches the atlas's accuracy. A mean would differ from it
even without labels, and by much near chance, where log T diverges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS, Estimate
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.reading import Prior
from graphtemper.temperature.inverse import gaps, summarise

METHOD = "atlas and labels"
Objective = Literal["balanced", "calibration", "likelihood"]
"""What labels set the temperature by: their accuracy, by matching it, their likelihood, or both."""
MATCHED_SHARE = 0.25
"""Weight in log T of the matched temperature if the objective is balanced and labels are few."""
# Quantiles of the posterior: the ends of the interval, and the answer between them.
_QUANTILES = (0.05, 0.5, 0.95)
# Matching mean confidence and maximising the likelihood are two definitions of the best T: on real
# graphs under shifts, mean confidence at the likeliest T differs from the accuracy by this much.
MATCH_DEVIATION = 0.1
# One node in a thousand may have broken features or a wrong label.
OUTLIERS = 0.001
# The largest fraction of an integral that one cell may hold; cells are split in four at most
# ROUNDS times.
_SHARE, _ROUNDS = 1.0 / 500.0, 40
# The confidence curve: knots, nodes it is measured on, and how far its log T leaves the logits'.
_KNOTS, _MOST_ROWS, _MARGIN = 129, 20_000, 9.0


@dataclass(frozen=True, eq=False)
class Labels:
    """Labelled nodes: their rows among the chosen nodes, their classes and their weights.

    A weight is the number of nodes that a labelled node represents, up to a common factor.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    weights: FloatArray


NO_LABELS = Labels(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def effective_count(weights: ArrayLike) -> float:
    r"""Return the effective sample size of weighted labels, :math:`(\sum w)^2 / \sum w^2`.

    Kish's formula. It is exact if the weights are independent of being right.

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
    r"""Return the posterior of the accuracy, with a 90 % credible interval.

    Parameters
    ----------
    prior
        From the atlas.
    right : (m,) array
        1 or True where the prediction of a labelled node is right.
    weights : (m,) array, optional
        Number of nodes that each one represents; equal by default.
    population : int, optional
        The number of nodes n that the accuracy refers to, including the m labelled ones. The finite
        population correction multiplies the effective count by :math:`(n - 1) / (n - m)`; if all
        nodes are labelled the accuracy is known exactly.

    Examples
    --------
    >>> posterior = accuracy(Prior(0.0, 1.0), [1] * 45 + [0] * 5)
    >>> round(posterior.value, 2), round(posterior.low, 2), round(posterior.high, 2)
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
    fraction = float(np.average(hits, weights=w))

    def log_density(x: FloatArray) -> FloatArray:
        loss = fraction * np.logaddexp(0.0, -x) + (1.0 - fraction) * np.logaddexp(0.0, x)
        return np.asarray(prior.log_density(x) - count * loss)

    low, value, high = (to_share(x) for x in quantiles(log_density, prior.grid(), _QUANTILES))
    return Estimate(value, low, high, METHOD)


def labels_worth(accuracy: Estimate, population: int) -> float:
    r"""Return how many labels alone would have given an interval of this width.

    The log-odds of an accuracy a that is counted on n labels have the variance
    :math:`1 / (n\,a (1 - a))`. There are at most as many labels as nodes.

    Examples
    --------
    >>> vague = accuracy(Prior(0.0, 50.0), [1] * 40 + [0] * 10)
    >>> round(labels_worth(vague, 1000))
    49
    >>> sure = accuracy(Prior(np.log(4.0), 0.3), [1] * 40 + [0] * 10)
    >>> 100 < labels_worth(sure, 1000) < 200
    True
    """
    value = min(max(accuracy.value, 0.01), 0.99)
    low, high = (log_odds(end) for end in (accuracy.low, accuracy.high))
    deviation = (high - low) / (2.0 * DEVIATIONS)
    if deviation == 0.0:
        return float(population)
    return float(min(population, 1.0 / (deviation**2 * value * (1.0 - value))))


def more_labels(accuracy: Estimate, half_width: float) -> int:
    r"""Return how many more labels should bring the interval to a half-width; 0 if none.

    Every label adds :math:`a (1 - a)` to the precision of the log-odds, and the half-width falls
    with the root of the precision.

    Examples
    --------
    >>> now = accuracy(Prior(1.0, 0.8), [1] * 40 + [0] * 10)
    >>> more_labels(now, 0.06), more_labels(now, 0.1)
    (60, 0)
    >>> then = accuracy(Prior(1.0, 0.8), [1] * 88 + [0] * 22)
    >>> round(0.5 * (then.high - then.low), 3)
    0.059
    """
    value = min(max(accuracy.value, 0.01), 0.99)
    low, high = (log_odds(end) for end in (accuracy.low, accuracy.high))
    precision = (2.0 * DEVIATIONS / max(high - low, 1e-9)) ** 2
    ratio = 0.5 * (accuracy.high - accuracy.low) / half_width
    return max(int(np.ceil(precision * (ratio**2 - 1.0) / (value * (1.0 - value)))), 0)


def temperature(prior: Prior, logits: FloatArray, labels: Labels, matched: float) -> float:
    """Return the posterior median of the temperature.

    Parameters
    ----------
    prior
        From the atlas.
    logits : (n, K) array
        Logits of all chosen nodes, whose mean confidence maps the prior to the temperature.
    labels
        The labels. Weights are relative to each other; they are scaled to sum to
        `effective_count`.
    matched
        The temperature that matches mean confidence to the prior's accuracy. It is returned if
        there are no labels, or if all logits are equal.

    Examples
    --------
    Logits of 2 mean a confidence of 88 %. The atlas expects an accuracy of 76 %, a temperature of
    1.73. Of forty labelled nodes 90 % are right, a temperature of 0.91:

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
    start = replace(prior, deviation=float(np.hypot(prior.deviation, MATCH_DEVIATION)))
    log_likelihood = _likelihood_of_labels(logits, labels)

    def log_density(x: FloatArray) -> FloatArray:
        return np.asarray(start.log_density(x) + log_likelihood(log_temperature(x)))

    median = quantiles(log_density, start.grid(), (0.5,))
    return float(np.exp(log_temperature(median)[0]))


def _matching(
    logits: FloatArray, bounds: tuple[float, float], otherwise: float
) -> Callable[[FloatArray], FloatArray]:
    """Return log T as a function of the log-odds of the accuracy that mean confidence matches.

    ``otherwise`` is the value if mean confidence does not depend on T.
    """
    from scipy.interpolate import PchipInterpolator

    # Evenly spaced rows: a prior is never as precise as a mean over that many nodes.
    part = logits[:: -(-len(logits) // _MOST_ROWS)]
    falling = np.linspace(bounds[1], bounds[0], _KNOTS)
    confidence = np.array([temperatures.mean_confidence(part, float(np.exp(x))) for x in falling])
    confidence = np.clip(confidence, 1e-12, 1.0 - 1e-12)
    odds = np.log(confidence) - np.log1p(-confidence)
    # One knot is enough where the curve is flat up to rounding.
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
    """Return the robust log-likelihood of labels at a temperature; 0 if there are no labels.

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

    The integral is a sum over cells between ``points``, which cover the prior. Cells that hold much
    of it are split, so that a peak is resolved no matter how narrow it is and how far from the
    prior.

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
    """Return the mean density of each cell, with the log-density linear between its ends.

    A linear density would greatly overestimate wide cells in the tails.
    """
    mass, step = np.exp(y), np.diff(y)
    level = np.abs(step) < 1e-6
    slope = np.diff(mass) / np.where(level, 1.0, step)
    return np.asarray(np.where(level, mass[1:], slope))
