"""Tests on class shares: whether predictions moved beyond chance, and whether new shares fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from graphtemper._core.arrays import FloatArray, as_array, check_masses, check_shares
from graphtemper._core.checks import check_integer
from graphtemper._core.reproducible import Seed, generator
from graphtemper.errors import InputError

SMALL_COUNT = 5.0
"""Below this expected count, `shares_moved` simulates the null distribution."""
INDEPENDENT = (1.0, 1.0)
"""Design effects of independent nodes, at the source and at the target."""
_DRAWS = 9999
_RELATIVE_RANK = 1e-9
_HALF_A_NODE = 0.5


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
        Number of classes that are predicted, minus one.
    simulated : bool
        Whether the null distribution was simulated because expected counts were small.
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
    rounding: ArrayLike | None = None,
    design_effects: tuple[float, float] = INDEPENDENT,
    draws: int = _DRAWS,
    seed: Seed = 0,
) -> ShareTest:
    r"""Test whether the target's prediction shares can come from the source's.

    Pearson's statistic of the 2 x K table of prediction counts, with the pooled shares
    :math:`\bar q` and the sampling errors of both samples,

    .. math:: \chi^2 = \frac{n_s n_t}{n_s + n_t}
              \sum_i \frac{(q_i - \sum_j C_{ij})^2}{\bar q_i},

    is chi-squared with K - 1 degrees of freedom if nothing changed. If an expected count is below
    5, its distribution given both margins is simulated instead (the smallest p-value is then
    1 / (draws + 1)). Classes that are never predicted are ignored. If the source's counts were
    rounded, the variance that this has added to each is added to that of the difference.

    New class shares change the predictions, but so does every other shift: a small p-value supports
    a correction of the shares only if nothing else changed.

    The errors of neighbours are alike, so the shares of predictions vary more than those of
    independent nodes. With the rates :math:`M_{ij} = P_s(\hat y = i \mid y = j)` and design effects
    d, the covariance of the difference grows by

    .. math:: \Bigl(\frac{d_s - 1}{n_s} + \frac{d_t - 1}{n_t}\Bigr)
              \sum_j s_j (D_{M_j} - M_j M_j^\top),

    the part of its covariance that the classes do not explain. Classes that are alike in
    neighbours are no reason to allow for more: their shares have then really moved.

    Parameters
    ----------
    confusion : (K, K) array
        Joint shares at the source, rows predicted, columns true.
    num_source : int
        Number of nodes behind the table, none of which the model was trained on.
    predicted_shares : (K,) array
        Share of each predicted class at the target.
    num_target : int
        Number of nodes behind them.
    rounding : (K,) array, optional
        Variance of the source's number of predictions of each class due to rounding.
    design_effects : (float, float)
        By how much the predictions of source and target vary more, given the classes, than if nodes
        were independent (`graphtemper.signals.dependence`).
    draws : int
        Number of simulated tables; 0 always uses chi-squared.
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
    # Shares are ratios of counts, which rounding recovers from a few printed digits.
    counts = np.rint(np.outer(sizes, np.ones(len(table))) * [table.sum(axis=1), predicted])
    noise = np.zeros(len(table)) if rounding is None else as_array(rounding, "rounding")
    if noise.shape != predicted.shape or not noise.min() >= 0.0:
        raise InputError(f"rounding must be {len(table)} variances.")
    excess = _excess(table, [(d - 1.0) / n for d, n in zip(design_effects, sizes, strict=True)])
    seen = counts.sum(axis=0) > 0.0
    counts, noise, excess = counts[:, seen], noise[seen], excess[np.ix_(seen, seen)]
    degrees = counts.shape[1] - 1
    if degrees < 1 or not counts.sum(axis=1).all():
        return ShareTest(1.0, 0.0, max(degrees, 0), simulated=False)
    statistic = float(_pearson(counts[1], counts, noise, excess)[0])
    expected = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum()
    if draws == 0 or expected.min() >= SMALL_COUNT:
        p_value = float(chi2.sf(statistic, degrees))
        return ShareTest(p_value, statistic, degrees, simulated=False)
    p_value = _simulated_p_value(counts, noise, excess, statistic, draws, generator(seed))
    return ShareTest(p_value, statistic, degrees, simulated=True)


def _excess(table: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Return the covariance of predicted shares that dependent nodes add, given the classes."""
    if min(weights) < 0.0:
        raise InputError("design_effects must be two numbers of at least 1.")
    shares = table.sum(axis=0)
    return sum(weights) * within_classes(table / np.where(shares > 0.0, shares, 1.0), shares)


def within_classes(rates: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the covariance of one node's cell, (C, C), given its class, from P(cell | class)."""
    return np.asarray(np.diag(rates @ shares) - (rates * shares) @ rates.T)


def _pearson(
    target: FloatArray,
    counts: FloatArray,
    noise: FloatArray,
    excess: FloatArray,
    errors: FloatArray | float = 0.0,
    moves: FloatArray | float = 0.0,
) -> FloatArray:
    """Statistic of one or many rows of target counts under the margins of ``counts``.

    ``noise`` is the variance of the source's counts due to rounding, ``errors`` are drawn from it;
    ``excess`` is the covariance of the shares due to dependence, ``moves`` are drawn from it.
    """
    (others, size), total = counts.sum(axis=1), counts.sum()
    expected = counts.sum(axis=0) * size / total
    rows = np.atleast_2d(target)
    if not (noise.any() or excess.any()):
        # The source's deviations are minus the target's, which adds this factor.
        factor = total / others
        return np.asarray(factor * ((rows - expected) ** 2 / expected).sum(axis=1))
    shares = expected / size
    source = counts.sum(axis=0) - rows + errors
    gap = rows / size - source / source.sum(axis=1, keepdims=True) + moves
    spread = (1.0 / others + 1.0 / size) * (np.diag(shares) - np.outer(shares, shares)) + excess
    inverse = _inverse(spread + _rounded_rates(noise, shares) / others**2)
    return np.asarray(((gap @ inverse) * gap).sum(axis=1))


def _rounded_rates(noise: FloatArray, rates: FloatArray) -> FloatArray:
    """Return the covariance of rates due to rounded counts, times the square of their sum."""
    cross = np.outer(noise, rates)
    return np.asarray(np.diag(noise) - cross - cross.T + noise.sum() * np.outer(rates, rates))


def _inverse(spread: FloatArray) -> FloatArray:
    """Invert a covariance of counts, which is singular in one direction, without deviation."""
    return np.asarray(np.linalg.pinv(spread, rcond=_RELATIVE_RANK, hermitian=True))


def _simulated_p_value(
    counts: FloatArray,
    noise: FloatArray,
    excess: FloatArray,
    statistic: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    pooled = counts.sum(axis=0).astype(np.int64)
    tables = rng.multivariate_hypergeometric(pooled, int(counts[1].sum()), size=draws)
    errors: FloatArray | float = 0.0
    moves: FloatArray | float = 0.0
    if noise.any():
        errors = rng.standard_normal(tables.shape) * np.sqrt(noise)
    if excess.any():
        variances, directions = np.linalg.eigh(excess)
        root = directions * np.sqrt(np.maximum(variances, 0.0))
        moves = rng.standard_normal(tables.shape) @ root.T
    reached = _pearson(tables.astype(np.float64), counts, noise, excess, errors, moves)
    # Equal tables must count as equal in spite of rounding.
    return (1.0 + float(np.count_nonzero(reached >= statistic * (1.0 - 1e-9)))) / (1.0 + draws)


@dataclass(frozen=True, slots=True)
class FitTest:
    """The test whether some class shares explain a target's cells.

    Attributes
    ----------
    p_value : float
        Small if they do not; 1 if there is nothing to test.
    statistic : float
        Squared distance of the cells from what the shares predict, in units of its sampling error.
    degrees : int
        Number of cells, minus one; 0 if there are no more cells than classes, so that any shares
        fit.
    """

    p_value: float
    statistic: float
    degrees: int


def shares_fit(
    source_counts: ArrayLike,
    target_counts: ArrayLike,
    shares: ArrayLike,
    *,
    rounding: ArrayLike | None = None,
) -> FitTest:
    r"""Test whether a target's cells are the source's classes mixed in other shares.

    With the source's rates :math:`M_{rj} = P_s(\text{cell } r \mid y = j)` from :math:`m_j` nodes,

    .. math:: d = c - n M\pi, \quad
              S = n (D_{M\pi} - M\pi\pi^\top M^\top)
              + n^2 \sum_j \frac{\pi_j^2}{m_j} (D_{M_j} - M_j M_j^\top), \quad
              \chi^2 = d^\top S^{-1} d,

    with target counts c of n nodes and diagonal matrices D: the sampling errors of the target and
    of the table (there with half a node more in every cell). For fixed shares and R cells the
    statistic is close to chi-squared with R - 1 degrees of freedom, which gives the p-value.
    Estimated shares are fitted to the target's nodes, so that a true label shift is rejected
    somewhat less often than the level says. Cells are merged until each expects five nodes. If the
    source's counts were rounded, the errors of the rates due to it are added to S.

    Nodes are taken to be independent. Where neighbours err alike, true label shift is rejected more
    often than the level says, which costs corrections and adds no wrong ones.

    The test separates label shift from other shifts: noise, rewired edges or scaled features change
    the class-conditional distributions, and then no shares fit. It cannot detect a change that
    looks like another mixture of the source's classes.

    Parameters
    ----------
    source_counts : (R, K) array
        Source nodes by cell and class.
    target_counts : (R,) array
        Target nodes by cell.
    shares : (K,) array
        Class shares that were estimated for the target.
    rounding : (R, K) array, optional
        Variance of the source's counts due to rounding.

    References
    ----------
    The test of overidentifying restrictions: Hansen, Econometrica 1982.

    Examples
    --------
    >>> source = np.array([[70, 10], [20, 30], [10, 60]])
    >>> shares_fit(source, [16, 19, 45], [0.1, 0.9]).p_value > 0.05
    True
    >>> shares_fit(source, [40, 0, 40], [0.5, 0.5]).p_value < 1e-4
    True
    """
    table = as_array(source_counts, "source_counts").astype(np.float64)
    cells = as_array(target_counts, "target_counts").astype(np.float64)
    if table.ndim != 2 or cells.shape != table.shape[:1]:
        raise InputError(
            f"source_counts must be (R, K) and target_counts (R,), not {table.shape} and "
            f"{cells.shape}."
        )
    noise = np.zeros(table.shape) if rounding is None else as_array(rounding, "rounding")
    if noise.shape != table.shape or not noise.min() >= 0.0:
        raise InputError("rounding must be variances, as many as source_counts.")
    pi = check_shares(shares, "shares", table.shape[1])
    nodes = table.sum(axis=0)
    known = nodes > 0.0
    rates, pi, nodes = table[:, known] / nodes[known], pi[known], nodes[known]
    noise = noise[:, known]
    if not (pi.sum() > 0.0 and cells.sum() > 0.0):
        return FitTest(1.0, 0.0, 0)
    pi = pi / pi.sum()
    size = float(cells.sum())
    groups = _merged(size * (rates @ pi))
    rates, cells = _sum_groups(rates, groups), _sum_groups(cells[:, None], groups)[:, 0]
    noise = _sum_groups(noise, groups)
    if len(rates) <= rates.shape[1]:
        return FitTest(1.0, 0.0, 0)
    degrees = len(rates) - 1
    expected = rates @ pi
    # An empty cell of a class does not prove that its probability is 0: add half a node each.
    likely = (rates * nodes + _HALF_A_NODE) / (nodes + _HALF_A_NODE * len(rates))
    weights = pi**2 / nodes
    spread = size * (np.diag(expected) - np.outer(expected, expected))
    spread += size**2 * within_classes(likely, weights)
    for rate, variance, weight in zip(rates.T, noise.T, weights / nodes, strict=True):
        spread += size**2 * weight * _rounded_rates(variance, rate)
    deviation = cells - size * expected
    statistic = float(deviation @ _inverse(spread) @ deviation)
    return FitTest(float(chi2.sf(statistic, degrees)), statistic, degrees)


def _merged(expected: FloatArray) -> list[list[int]]:
    """Return groups of cells that expect enough nodes each; the rarest cells are merged first."""
    groups: list[list[int]] = [[]]
    for cell in np.argsort(expected, kind="stable").tolist():
        if float(expected[groups[-1]].sum()) >= SMALL_COUNT:
            groups.append([])
        groups[-1].append(cell)
    if len(groups) > 1 and float(expected[groups[-1]].sum()) < SMALL_COUNT:
        rest = groups.pop()
        groups[-1] += rest
    return groups


def _sum_groups(values: FloatArray, groups: list[list[int]]) -> FloatArray:
    return np.array([values[group].sum(axis=0) for group in groups])


def check_confusion(confusion: ArrayLike) -> FloatArray:
    """Return a joint confusion table as float64, or say what is wrong with it."""
    table = as_array(confusion, "confusion")
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise InputError(f"confusion must have shape (K, K) with K >= 2, not {table.shape}.")
    return check_masses(table, "confusion", "divide counts by their total")
