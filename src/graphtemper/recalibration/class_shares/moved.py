"""Whether the shares of the predictions have moved beyond chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from graphtemper._core.arrays import FloatArray, check_shares
from graphtemper._core.checks import check_integer
from graphtemper._core.random_streams import Seed, generator
from graphtemper.recalibration.class_shares._checks import check_confusion

SMALL_COUNT = 5.0
"""Below this expected count, `shares_moved` simulates its law instead of using chi-squared."""
_DRAWS = 9999


@dataclass(frozen=True, slots=True)
class ShareTest:
    """The test whether two samples of predictions have the same shares.

    Attributes
    ----------
    p_value : float
        Uniform if nothing changed; small if the prediction shares differ.
    statistic : float
        Pearson's chi-squared of the 2 x K table of counts.
    degrees : int
        Predicted classes that occur, less one.
    simulated : bool
        Whether the law of the statistic was simulated because expected counts were small.
    """

    p_value: float
    statistic: float
    degrees: int
    simulated: bool


def shares_moved(
    confusion: ArrayLike,
    num_source: int,
    predicted_shares: ArrayLike,
    num_target: int,
    *,
    draws: int = _DRAWS,
    seed: Seed = 0,
) -> ShareTest:
    r"""Test whether the target's prediction shares can come from the source's.

    Pearson's statistic of the 2 x K table of prediction counts, with the pooled shares
    :math:`\bar q` and the sampling errors of both samples,

    .. math:: \chi^2 = \frac{n_s n_t}{n_s + n_t}
              \sum_i \frac{(q_i - \sum_j C_{ij})^2}{\bar q_i},

    is chi-squared with K - 1 degrees of freedom if nothing changed. Where an expected count is
    below 5, its law given both margins is simulated instead (the smallest p-value is then
    1 / (draws + 1)). Classes that are never predicted do not count.

    New class shares show here as far as predictions see them, but so does every other shift that
    moves predictions: a small p-value supports a correction of the shares only if nothing else
    changed. Nodes count as independent; where neighbours are alike, pass the smaller number of
    independent nodes they are worth.

    Parameters
    ----------
    confusion : (K, K) array
        Joint shares at the source, rows predicted, columns true.
    num_source : int
        Nodes behind the table, none of which the model was trained on.
    predicted_shares : (K,) array
        Share of each predicted class at the target.
    num_target : int
        Nodes behind them.
    draws : int
        Simulated tables; 0 always uses chi-squared.
    seed : int or Generator

    Returns
    -------
    ShareTest

    References
    ----------
    Pearson, 1900; Lipton, Wang & Smola 2018 test label shift on the prediction shares.

    Examples
    --------
    >>> table = np.array([[0.8, 0.1], [0.2, 0.9]]) * 0.5
    >>> round(shares_moved(table, 1000, [0.46, 0.54], 1000).p_value, 3)
    0.653
    >>> shares_moved(table, 1000, [0.24, 0.76], 1000).p_value < 1e-6
    True
    """
    table = check_confusion(confusion)
    predicted = check_shares(predicted_shares, "predicted_shares", len(table))
    sizes = check_integer(num_source, "num_source", 1), check_integer(num_target, "num_target", 1)
    check_integer(draws, "draws", 0)
    # Shares of counts: rounding undoes what printing them to a few digits did.
    counts = np.rint(np.outer(sizes, np.ones(len(table))) * [table.sum(axis=1), predicted])
    counts = counts[:, counts.sum(axis=0) > 0.0]
    degrees = counts.shape[1] - 1
    if degrees < 1 or not counts.sum(axis=1).all():
        return ShareTest(1.0, 0.0, max(degrees, 0), simulated=False)
    statistic = float(_pearson(counts[1], counts)[0])
    expected = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum()
    if draws == 0 or expected.min() >= SMALL_COUNT:
        p_value = float(chi2.sf(statistic, degrees))
        return ShareTest(p_value, statistic, degrees, simulated=False)
    p_value = _simulated_p_value(counts, statistic, draws, generator(seed))
    return ShareTest(p_value, statistic, degrees, simulated=True)


def _pearson(target: FloatArray, counts: FloatArray) -> FloatArray:
    """Statistic of one or many rows of target counts under the margins of ``counts``."""
    size, total = counts[1].sum(), counts.sum()
    expected = counts.sum(axis=0) * size / total
    # The source's deviations are the target's with the other sign: they enter as this factor.
    factor = total / (total - size)
    return np.asarray(factor * ((np.atleast_2d(target) - expected) ** 2 / expected).sum(axis=1))


def _simulated_p_value(
    counts: FloatArray, statistic: float, draws: int, rng: np.random.Generator
) -> float:
    pooled = counts.sum(axis=0).astype(np.int64)
    tables = rng.multivariate_hypergeometric(pooled, int(counts[1].sum()), size=draws)
    # Equal tables must count as equal whatever the order of their sums.
    reached = _pearson(tables.astype(np.float64), counts) >= statistic * (1.0 - 1e-9)
    return (1.0 + float(np.count_nonzero(reached))) / (1.0 + draws)
