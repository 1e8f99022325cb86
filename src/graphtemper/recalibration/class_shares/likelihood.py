"""Target shares by maximum likelihood on calibrated source probabilities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from graphtemper._core.arrays import FloatArray, check_matrix, check_shares, probability_columns
from graphtemper._core.checks import check_integer, check_non_negative, check_positive
from graphtemper._core.reproducible import map_blocks, one_blas_thread
from graphtemper.errors import GraphTemperWarning, IllConditionedWarning, InputError

# Every share is compatible with the data when its standard error reaches half the unit interval.
_FLAT_ERROR = 0.5
# Most halvings of a Newton step; shorter steps are lost in rounding.
_HALVINGS = 20
_RELATIVE_RIDGE = 1e-10


def em(
    probabilities: ArrayLike,
    source_shares: ArrayLike,
    *,
    prior: float = 0.0,
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
) -> FloatArray:
    r"""Estimate class shares by maximum likelihood from calibrated source probabilities.

    .. math:: \hat\pi = \arg\max_\pi \ell(\pi), \qquad
              \ell(\pi) = \frac1n \sum_i \log \sum_k \frac{\pi_k}{s_k} p_{ik}.

    The likelihood is concave, so its maximum does not depend on the start. EM,
    :math:`\pi_k \leftarrow \pi_k g_k` with :math:`g_k = \partial\ell/\partial\pi_k`, climbs in
    every step but takes thousands where classes overlap; here each step is Newton's over the
    simplex (a non-negative least-squares problem), shortened until it climbs, and EM's if that
    fails. Because :math:`\sum_k \pi_k g_k = 1`, the likelihood is within :math:`\max_k g_k - 1`
    of its maximum, which is the test of convergence.

    It needs calibrated probabilities: overconfident ones pull shares towards the prediction
    shares, underconfident ones beyond the truth. One temperature calibrates confidence, not each
    class; a bias per class, fitted with it, also makes the mean probabilities right.

    Parameters
    ----------
    probabilities : (n, K) array
        The source's calibrated probabilities at the target's nodes.
    source_shares : (K,) array
        The class shares that those probabilities assume: the mean calibrated probability at the
        source, which is the class shares of its labels if calibration is right.
    prior : float
        Number of pseudo-nodes c with the source's shares: the term
        :math:`\frac{c}{n} \sum_k s_k \log\pi_k` of a Dirichlet prior. 0 is maximum likelihood; 10
        change little if the classes are well separated, and hold the shares in place if not.
    start : (K,) array, optional
        Positive wherever ``source_shares`` is; by default ``source_shares``.
    tolerance : float
        Distance from the largest mean log-likelihood (with its prior), in nats per node.
    max_iterations : int

    Returns
    -------
    (K,) array
        Class shares of the target; they sum to 1. A `GraphTemperWarning` says if the tolerance was
        not reached, an `IllConditionedWarning` if the likelihood is flat: if some direction of
        the shares has a standard error above 0.5.

    References
    ----------
    Saerens, Latinne & Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
    Probabilities", Neural Computation 2002; Alexandari, Kundaje & Shrikumar, "Maximum Likelihood
    with Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation", ICML 2020; Kim,
    Carbonetto, Stephens & Anitescu, "A Fast Algorithm for Maximum Likelihood Estimation of Mixture
    Proportions Using Sequential Quadratic Programming", 2020.

    Examples
    --------
    Three of four nodes are predicted as class 1 by a model that is right nine times in ten:

    >>> em([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]], [0.5, 0.5]).round(4)
    array([0.1875, 0.8125])
    >>> em([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]], [0.5, 0.5], prior=10).round(4)
    array([0.4366, 0.5634])
    """
    p = check_matrix(probabilities, "probabilities")
    source = check_shares(source_shares, "source_shares", p.shape[1])
    pseudo = check_non_negative(prior, "prior")
    limit = check_positive(tolerance, "tolerance")
    steps = check_integer(max_iterations, "max_iterations", 1)
    known = source > 0.0
    first = source if start is None else _checked_start(start, known)
    shares = np.zeros(len(source))
    with one_blas_thread():
        sample = _sample(p, source, pseudo)
        shares[known] = _climb(sample, first[known] / first.sum(), limit, steps)
    return shares


def share_error(
    probabilities: ArrayLike, source_shares: ArrayLike, shares: ArrayLike, *, prior: float = 0.0
) -> float:
    r"""Return the expected L1 error of the shares of `em` due to sampling of the target's nodes.

    .. math:: \sqrt{2/\pi} \sum_k \sqrt{\Sigma_{kk}}, \qquad
              \Sigma = Q (Q^\top H Q)^{-1} Q^\top

    with the observed information H at the shares and directions Q that keep their sum. Errors of
    the source's calibration come on top.

    Parameters
    ----------
    probabilities, source_shares, prior
        As given to `em`.
    shares : (K,) array
        The shares that it returned.

    Examples
    --------
    With certain labels the error is that of a sample proportion:

    >>> certain = np.eye(2)[np.arange(1000) % 2]
    >>> round(share_error(certain, [0.5, 0.5], [0.5, 0.5]), 6)
    0.025231
    >>> round(float(2 * np.sqrt(2 / np.pi * 0.25 / 1000)), 6)
    0.025231
    """
    p = check_matrix(probabilities, "probabilities")
    source = check_shares(source_shares, "source_shares", p.shape[1])
    estimate = check_shares(shares, "shares", p.shape[1])
    known = source > 0.0
    if np.count_nonzero(known) < 2:
        return 0.0
    sample = _sample(p, source, check_non_negative(prior, "prior"))
    _, curvature = sample.derivatives(estimate[known] / estimate[known].sum())
    basis = _sum_preserving_basis(len(curvature))
    inner = basis.T @ curvature @ basis * (1.0 / float(sample.weights[0]))
    covariance = basis @ np.linalg.pinv(inner, hermitian=True) @ basis.T
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return float(np.sqrt(2.0 / np.pi) * deviations.sum())


@dataclass(frozen=True, eq=False)
class _Sample:
    """Likelihood ratios p_ik / s_k as (classes the source has, n), and the nodes' weights."""

    ratios: FloatArray
    weights: FloatArray

    def likelihood(self, shares: FloatArray) -> float:
        """Mean log-likelihood."""

        def part(rows: slice) -> float:
            with np.errstate(divide="ignore"):  # -inf for a node that the shares exclude
                return float(self.weights[rows] @ np.log(shares @ self.ratios[:, rows]))

        return float(sum(map_blocks(part, *self.ratios.shape[::-1])))

    def derivatives(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient of the mean log-likelihood, and minus its Hessian."""

        def part(rows: slice) -> tuple[FloatArray, FloatArray]:
            scaled = self.ratios[:, rows] / (shares @ self.ratios[:, rows])
            weighted = scaled * self.weights[rows]
            return weighted.sum(axis=1), weighted @ scaled.T

        parts = map_blocks(part, *self.ratios.shape[::-1])
        size = len(shares)
        gradient = sum((first for first, _ in parts), np.zeros(size))
        return gradient, sum((second for _, second in parts), np.zeros((size, size)))


def _sample(p: NDArray[np.floating], source: FloatArray, prior: float) -> _Sample:
    known = source > 0.0
    ratios = np.empty((int(known.sum()), len(p)))

    def write(rows: slice) -> None:
        block = probability_columns(p, rows)[known] / source[known][:, None]
        top = block.max(axis=0)
        if not top.all():
            node = rows.start + int(np.argmin(top))
            raise InputError(
                f"probabilities[{node}] is 0 for every class with a positive source share; "
                "no shares explain it."
            )
        # The scale changes the likelihood by a constant and keeps rare classes from overflowing.
        ratios[:, rows] = block / top

    map_blocks(write, *p.shape)
    weights = np.full(len(p), 1.0 / (len(p) + prior))
    if prior > 0.0:  # one labelled pseudo-node per class
        ratios = np.hstack([ratios, np.eye(len(ratios))])
        weights = np.append(weights, prior * source[known] / (len(p) + prior))
    return _Sample(ratios, weights)


def _climb(
    sample: _Sample, shares: FloatArray, tolerance: float, max_iterations: int
) -> FloatArray:
    """Maximise the likelihood over the simplex; warn if that fails or the maximum is flat."""
    gap = np.inf
    for _ in range(max_iterations):
        gradient, curvature = sample.derivatives(shares)
        gap = float(gradient.max()) - 1.0
        if gap <= tolerance:
            _warn_if_flat(curvature, 1.0 / float(sample.weights[0]))
            return shares
        shares = _step(sample, shares, gradient, curvature)
    warnings.warn(
        f"The likelihood of the class shares is still up to {gap:.2g} nats per node below its "
        f"maximum after {max_iterations} iterations; allow more.",
        GraphTemperWarning,
        stacklevel=3,
    )
    return shares


def _step(
    sample: _Sample, shares: FloatArray, gradient: FloatArray, curvature: FloatArray
) -> FloatArray:
    """Return shares with a higher likelihood: a Newton step, a shorter one, or an EM step."""
    here = sample.likelihood(shares)
    move = _newton_point(shares, gradient, curvature) - shares
    slope = float(gradient @ move)
    for halving in range(_HALVINGS if slope > 0.0 else 0):
        length = 0.5**halving
        if sample.likelihood(shares + length * move) >= here + 1e-4 * length * slope:
            return shares + length * move
    updated = shares * gradient
    return np.asarray(updated / updated.sum())


def _newton_point(shares: FloatArray, gradient: FloatArray, curvature: FloatArray) -> FloatArray:
    """Maximise the quadratic model of the likelihood over the simplex.

    The constraint of sum 1 becomes the term -sum(y), which has the same maximum because the
    likelihood grows by log c when shares grow by c. With H shares = gradient the model is
    -y'Hy/2 + (2 gradient - 1)'y over y >= 0, a non-negative least-squares problem.
    """
    ridge = _RELATIVE_RIDGE * float(np.trace(curvature))
    root = np.linalg.cholesky(curvature + ridge * np.eye(len(shares)))
    target = solve_triangular(root, 2.0 * gradient - 1.0 + ridge * shares, lower=True)
    try:
        point = nnls(root.T, target)[0]
    except RuntimeError:  # too many changes of its active set: no Newton step here
        return shares
    return np.asarray(point / point.sum()) if point.any() else shares


def _warn_if_flat(curvature: FloatArray, nodes: float) -> None:
    size = len(curvature)
    if size < 2:
        return
    basis = _sum_preserving_basis(size)
    least = float(np.linalg.eigvalsh(basis.T @ curvature @ basis)[0])
    if nodes * least * _FLAT_ERROR**2 < 1.0:
        warnings.warn(
            "The probabilities hardly separate some classes, so the likelihood is flat and many "
            "class shares fit as well as these; pass more nodes, or a prior.",
            IllConditionedWarning,
            stacklevel=4,
        )


def _sum_preserving_basis(size: int) -> FloatArray:
    """Return an orthonormal basis of the directions in which shares keep their sum of 1."""
    return np.asarray(np.linalg.qr(np.eye(size)[:, 1:] - 1.0 / size)[0])


def _checked_start(start: ArrayLike, known: NDArray[np.bool_]) -> FloatArray:
    first = check_shares(start, "start", len(known))
    if not (first[known] > 0.0).all():
        raise InputError("start must be positive for every class with a positive source share.")
    return np.where(known, first, 0.0)
