"""Whether new class shares explain what is seen of a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from graphtemper._core.arrays import FloatArray, as_array, check_shares
from graphtemper.errors import InputError
from graphtemper.recalibration.class_shares.moved import SMALL_COUNT

_RELATIVE_RANK = 1e-9
_HALF_A_NODE = 0.5


@dataclass(frozen=True, slots=True)
class FitTest:
    """The test whether some class shares explain a target's cells.

    Attributes
    ----------
    p_value : float
        Small if they do not; 1 where there is nothing left to test.
    statistic : float
        Squared distance of the cells from what the shares predict, in units of its sampling error.
    degrees : int
        Cells, less one; 0 where there are no more cells than classes, so that any shares fit.
    """

    p_value: float
    statistic: float
    degrees: int


def shares_fit(source_counts: ArrayLike, target_counts: ArrayLike, shares: ArrayLike) -> FitTest:
    r"""Test whether a target's cells are the source's classes mixed in other shares.

    With the source's laws :math:`M_{rj} = P_s(\text{cell } r \mid y = j)` from :math:`m_j` nodes,

    .. math:: d = c - n M\pi, \quad
              S = n (D_{M\pi} - M\pi\pi^\top M^\top)
              + n^2 \sum_j \frac{\pi_j^2}{m_j} (D_{M_j} - M_j M_j^\top), \quad
              \chi^2 = d^\top S^{-1} d,

    with target counts c of n nodes and diagonal matrices D: the sampling errors of the target and
    of the table (there with half a node more in every cell). For given shares and R cells it is
    close to chi-squared with R - 1 degrees of freedom, which is what the p-value takes. Estimated
    shares follow the target's nodes, so that a true shift is rejected somewhat less often than the
    level says. Cells are joined until each expects five nodes.

    This is what tells new shares from every other shift: noise, rewired edges or scaled features
    change the classes' own laws, and then no shares fit. It cannot see a change whose mixture looks
    like one of the source's classes in other shares.

    Parameters
    ----------
    source_counts : (R, K) array
        Source nodes by cell and class.
    target_counts : (R,) array
        Target nodes by cell.
    shares : (K,) array
        Class shares that were estimated for the target.

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
    pi = check_shares(shares, "shares", table.shape[1])
    nodes = table.sum(axis=0)
    known = nodes > 0.0
    laws, pi, nodes = table[:, known] / nodes[known], pi[known], nodes[known]
    if not (pi.sum() > 0.0 and cells.sum() > 0.0):
        return FitTest(1.0, 0.0, 0)
    pi = pi / pi.sum()
    size = float(cells.sum())
    groups = _joined(size * (laws @ pi))
    laws, cells = _sum_groups(laws, groups), _sum_groups(cells[:, None], groups)[:, 0]
    if len(laws) <= laws.shape[1]:
        return FitTest(1.0, 0.0, 0)
    degrees = len(laws) - 1
    expected = laws @ pi
    # A cell in which a class has no node yet is not known to have none: half a node each.
    likely = (laws * nodes + _HALF_A_NODE) / (nodes + _HALF_A_NODE * len(laws))
    weights = pi**2 / nodes
    spread = size * (np.diag(expected) - np.outer(expected, expected))
    spread += size**2 * (np.diag(likely @ weights) - (likely * weights) @ likely.T)
    away = cells - size * expected
    # Counts sum to n, so the covariance lacks one direction, in which nothing deviates.
    inverse = np.linalg.pinv(spread, rcond=_RELATIVE_RANK, hermitian=True)
    statistic = float(away @ inverse @ away)
    return FitTest(float(chi2.sf(statistic, degrees)), statistic, degrees)


def _joined(expected: FloatArray) -> list[list[int]]:
    """Return groups of cells that expect enough nodes each; the rarest cells are joined first."""
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
