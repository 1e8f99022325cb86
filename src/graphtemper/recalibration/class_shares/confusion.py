"""Class shares from a confusion table and the predictions, and logits that fit them."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, nnls

from graphtemper._core.arrays import FloatArray, check_matrix, check_shares
from graphtemper._core.checks import (
    check_integer,
    check_non_negative,
    check_number,
    check_positive,
    check_unit,
)
from graphtemper.errors import IllConditionedWarning, InputError, NotIdentifiableError
from graphtemper.recalibration.class_shares.share_tests import (
    ShareTest,
    check_confusion,
    shares_moved,
)

SHARE_FLOOR = 1e-6
"""Smallest share that `adjust_logits` uses."""
LEAST_SINGULAR_VALUE = 0.05
"""`bbse` amplifies errors of the predicted shares by at most the inverse of this."""


def bbse(confusion: ArrayLike, predicted_shares: ArrayLike) -> FloatArray:
    r"""Solve the confusion table for the class shares (black-box shift estimation).

    .. math:: C w = q, \qquad \hat\pi_j \propto s_j \max(w_j, 0), \qquad s_j = \sum_i C_{ij}

    It is solved for :math:`s_j w_j` with the columns :math:`M_j = C_j / s_j`, so that a rare class
    does not look like an ill-conditioned one. If the smallest singular value :math:`\sigma` of M is
    below :math:`\rho` = 0.05, an `IllConditionedWarning` is given and the answer is

    .. math:: \arg\min_\pi |M\pi - q|^2 + (\rho^2 - \sigma^2) |\pi - s|^2,

    the smallest ridge that amplifies errors of q by at most :math:`1/\rho`. It leaves the shares at
    the source's where predictions are uninformative, and vanishes at the threshold.

    Parameters
    ----------
    confusion : (K, K) array
        Joint shares at the source, rows predicted, columns true.
    predicted_shares : (K,) array
        Share of each predicted class at the target.

    Returns
    -------
    (K,) array
        Class shares of the target; they sum to 1.

    References
    ----------
    Lipton, Wang & Smola, "Detecting and Correcting for Label Shift with Black Box Predictors",
    ICML 2018.

    Examples
    --------
    A model that is right in 80 % and 90 % of its two classes, on a target with shares 0.2 and 0.8:

    >>> table = np.array([[0.8, 0.1], [0.2, 0.9]]) * 0.5
    >>> bbse(table, [0.8 * 0.2 + 0.1 * 0.8, 0.2 * 0.2 + 0.9 * 0.8]).round(6)
    array([0.2, 0.8])
    """
    table = check_confusion(confusion)
    predicted = check_shares(predicted_shares, "predicted_shares", len(table))
    source = table.sum(axis=0)
    known = source > 0.0
    rates = table[:, known] / source[known]
    sigma = float(np.linalg.svd(rates, compute_uv=False)[-1])
    change = _ridge(rates, predicted - rates @ source[known], _lifting_ridge(sigma))
    shares = np.zeros(len(table))
    shares[known] = np.maximum(source[known] + change, 0.0)
    if shares.sum() <= SHARE_FLOOR:
        raise NotIdentifiableError(
            "No class shares explain the predicted shares: the target's predictions are classes "
            "that the source never predicted; check that both come from the same model."
        )
    return np.asarray(shares / shares.sum())


def rlls(
    confusion: ArrayLike,
    predicted_shares: ArrayLike,
    num_source: int,
    num_target: int,
    *,
    alpha: float = 0.01,
    failure: float = 0.05,
    gamma: float | None = None,
) -> FloatArray:
    r"""Estimate class shares by regularised learning under label shift.

    .. math:: \hat\theta = \arg\min_{\theta \ge -1} |C\theta - (q - C 1)| + \Delta |\theta|, \qquad
              w = 1 + \gamma\hat\theta, \qquad \hat\pi_j \propto s_j w_j,

    .. math:: \Delta = 3\alpha \Bigl(\frac{2 \log(2K/\epsilon)}{3 n_s}
              + \sqrt{\frac{2 \log(2K/\epsilon)}{n_s}}\Bigr).

    Norms are not squared, so the minimum is the ridge regression whose penalty :math:`\lambda`
    satisfies :math:`\lambda |\theta| = \Delta |C\theta - b|`; the left side over the right rises
    with :math:`\lambda`, and its root is found exactly. Nothing moves if
    :math:`|C^T b| \le \Delta |b|`, and :math:`\theta = C^{-1} b` for small :math:`\Delta`.

    Parameters
    ----------
    confusion : (K, K) array
        Joint shares at the source, rows predicted, columns true.
    predicted_shares : (K,) array
        Share of each predicted class at the target.
    num_source, num_target : int
        Number of nodes behind the table and behind the predicted shares; the effective number of
        independent nodes if neighbours are alike.
    alpha : float
        Fraction of the concentration bound to use. The bound is loose: the authors' code has 0.01.
    failure : float
        The probability :math:`\epsilon` that the bound fails.
    gamma : float, optional
        Fraction of the estimated change to apply, in [0, 1]. The authors use 0 with too few target
        nodes for an assumed size of the change and 1 otherwise. The default is
        :math:`\gamma = \max(0, 1 - (K-1)/\chi^2)` with the statistic of `shares_moved`: 0 for a
        change within sampling error, and near 1 for a much larger one.

    Returns
    -------
    (K,) array
        Class shares of the target; they sum to 1.

    References
    ----------
    Azizzadenesheli, Liu, Yang & Anandkumar, "Regularized Learning for Domain Adaptation under
    Label Shifts", ICLR 2019.

    Examples
    --------
    >>> table = np.array([[0.8, 0.1], [0.2, 0.9]]) * 0.5
    >>> rlls(table, [0.24, 0.76], 20_000, 20_000).round(3)
    array([0.2, 0.8])

    With 20 nodes each, less than half of a change within sampling error is applied:

    >>> rlls(table, [0.24, 0.76], 20, 20).round(3)
    array([0.371, 0.629])
    """
    table = check_confusion(confusion)
    predicted = check_shares(predicted_shares, "predicted_shares", len(table))
    delta = _concentration(len(table), check_integer(num_source, "num_source", 1), alpha, failure)
    if gamma is None:
        gamma = _applied_fraction(shares_moved(table, num_source, predicted, num_target, draws=0))
    trust = check_unit(gamma, "gamma")
    theta = _least_sum_of_norms(table, predicted - table.sum(axis=1), delta)
    shares = table.sum(axis=0) * (1.0 + trust * theta)
    return np.asarray(shares / shares.sum())


def _lifting_ridge(sigma: float) -> float:
    """Return the ridge that lifts the smallest singular value to the least one, and warn."""
    if sigma >= LEAST_SINGULAR_VALUE:
        return 0.0
    warnings.warn(
        f"The confusion table hardly separates some classes (smallest singular value "
        f"{sigma:.2g}); in those directions the shares are held near the source's.",
        IllConditionedWarning,
        stacklevel=3,
    )
    return LEAST_SINGULAR_VALUE**2 - sigma**2


def _ridge(matrix: FloatArray, residual: FloatArray, penalty: float) -> FloatArray:
    """Minimise |A x - r|^2 + penalty |x|^2, without squaring the condition of A."""
    size = matrix.shape[1]
    stacked = np.vstack([matrix, np.sqrt(penalty) * np.eye(size)])
    target = np.concatenate([residual, np.zeros(size)])
    return np.asarray(np.linalg.lstsq(stacked, target, rcond=None)[0])


def _bounded_ridge(matrix: FloatArray, residual: FloatArray, penalty: float) -> FloatArray:
    """Minimise |A x - r|^2 + penalty |x|^2 over x >= -1."""
    free = _ridge(matrix, residual, penalty)
    if free.min() >= -1.0:
        return free
    root = np.sqrt(penalty) * np.eye(len(free))
    weights = nnls(
        np.vstack([matrix, root]),
        np.concatenate([residual + matrix.sum(axis=1), root.sum(axis=1)]),
    )[0]
    return np.asarray(weights - 1.0)


def _least_sum_of_norms(matrix: FloatArray, target: FloatArray, delta: float) -> FloatArray:
    """Minimise |A x - b| + delta |x| over x >= -1: the ridge whose penalty fits both norms."""
    size = float(np.linalg.norm(target))
    if float(np.linalg.norm(matrix.T @ target)) <= delta * size:
        return np.zeros(matrix.shape[1])

    def excess(log_penalty: float) -> float:
        penalty = float(np.exp(log_penalty))
        theta = _bounded_ridge(matrix, target, penalty)
        misfit = float(np.linalg.norm(matrix @ theta - target))
        return (penalty * float(np.linalg.norm(theta)) - delta * misfit) / size

    scale = 2.0 * float(np.log(np.linalg.norm(matrix, 2)))
    low, high = scale - 30.0, scale + 30.0
    if excess(low) >= 0.0:  # the misfit vanishes: the minimum is at the kink of its norm
        return _bounded_ridge(matrix, target, float(np.exp(low)))
    if excess(high) <= 0.0:
        return np.zeros(matrix.shape[1])
    root = float(brentq(excess, low, high, xtol=1e-12))
    return _bounded_ridge(matrix, target, float(np.exp(root)))


def _concentration(classes: int, num_source: int, alpha: float, failure: float) -> float:
    share = check_non_negative(alpha, "alpha")
    chance = check_number(failure, "failure")
    if not 0.0 < chance < 1.0:
        raise InputError(f"failure must be a probability between 0 and 1, not {chance:g}.")
    size = 2.0 * float(np.log(2.0 * classes / chance)) / num_source
    return 3.0 * share * (size / 3.0 + float(np.sqrt(size)))


def _applied_fraction(test: ShareTest) -> float:
    return max(0.0, 1.0 - test.degrees / test.statistic) if test.statistic > 0.0 else 0.0


def adjust_logits(
    logits: ArrayLike,
    source_shares: ArrayLike,
    target_shares: ArrayLike,
    *,
    floor: float = SHARE_FLOOR,
) -> FloatArray:
    r"""Adapt logits to new class shares: :math:`z_{ik} + \log(\pi_k / s_k)`.

    By Bayes' rule the softmax of the result is the target's posterior if that of ``logits`` is
    the source's; so divide logits by their temperature first. Predictions may change.

    Parameters
    ----------
    logits : (n, K) array
        Calibrated logits.
    source_shares, target_shares : (K,) arrays
    floor : float
        Lower bound of both shares, so that a share of 0 makes a class unlikely and not impossible.
        Use 1 / n for shares that were estimated from n nodes.

    Returns
    -------
    (n, K) float64 array

    Examples
    --------
    >>> from graphtemper import temperature
    >>> temperature.apply(adjust_logits([[0.0, 0.0]], [0.5, 0.5], [0.2, 0.8])).round(6)
    array([[0.2, 0.8]])
    """
    z = check_matrix(logits, "logits", allow_empty=True)
    least = check_positive(floor, "floor")
    source = check_shares(source_shares, "source_shares", z.shape[1])
    target = check_shares(target_shares, "target_shares", z.shape[1])
    shift = np.log(np.maximum(target, least)) - np.log(np.maximum(source, least))
    return np.asarray(z + shift, dtype=np.float64)
