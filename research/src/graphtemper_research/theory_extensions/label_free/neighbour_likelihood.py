"""Likelihood of unlabelled binary logits whose neighbours are Binomial and whose noise is Gaussian.

A node of class +1 and degree d has k ~ Binomial(d, h) neighbours of its own class, and its
decision value is ``offset + signal (2k - d)/d + noise eps / sqrt(d)`` with eps standard normal;
class -1 is the mirror image. Signal and noise are the source's scale times the class mean and the
feature standard deviation. Everything here is per observation, so scores give standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

Floats = NDArray[np.float64]

# Above this degree the Binomial is replaced by its Gaussian limit: the class's skewness is then
# below 0.04 (at snr 1 and homophily 0.9), and the cost no longer grows.
LARGEST_EXACT_DEGREE = 128
_TINY = 1e-300
_ITERATIONS = 200
# Largest gain in log likelihood that a full step may still promise at a converged point.
_DECREMENT = 1e-4


class Evaluation(NamedTuple):
    """Log likelihood, its score and the posterior of class +1, one entry per observation."""

    log_likelihood: Floats
    scores: Floats
    posterior: Floats


def gaussian(values: Floats, degrees: Floats, parameters: Floats) -> Evaluation:
    """Two Gaussians ``N(offset +- mean, variance / degree)`` of equal weight.

    ``parameters`` is (mean, log variance, offset); scores are taken in the same coordinates.
    """
    mean, log_variance, offset = parameters
    variance = np.exp(log_variance) / degrees
    centred = values - offset
    half_log_odds = mean * centred / variance
    spread = (centred**2 + mean**2) / variance
    log_likelihood = (
        np.logaddexp(half_log_odds, -half_log_odds)
        - 0.5 * spread
        - 0.5 * np.log(8.0 * np.pi * variance)
    )
    pull = np.tanh(half_log_odds)
    scores = np.stack(
        [
            (pull * centred - mean) / variance,
            0.5 * spread - 0.5 - pull * half_log_odds,
            (centred - pull * mean) / variance,
        ],
        axis=1,
    )
    return Evaluation(log_likelihood, scores, expit(2.0 * half_log_odds))


class NeighbourLikelihood:
    """The exact likelihood, with the observations grouped by degree once and evaluated often.

    The coordinates are (log signal, logit(2h - 1), offset), all real. The snr (how much of the
    spread is feature noise rather than neighbours' labels) is an input: it enters only through the
    skewness of the classes, which the logits determine too poorly to estimate it as well.
    """

    def __init__(self, values: Floats, degrees: Floats, snr: float) -> None:
        self._snr = snr
        self._order = np.argsort(degrees, kind="stable")
        self._values = values[self._order]
        self._degrees = degrees[self._order]
        exact = int(np.searchsorted(self._degrees, LARGEST_EXACT_DEGREE, side="right"))
        self._exact = exact
        distinct, starts = np.unique(self._degrees[:exact], return_index=True)
        ends = np.append(starts, exact)[1:]
        self._groups = [
            (int(d), slice(int(a), int(b))) for d, a, b in zip(distinct, starts, ends, strict=True)
        ]

    def __call__(self, parameters: Floats) -> Evaluation:
        """Evaluate at one point, in the order the observations were given."""
        log_signal, logit_excess, offset = parameters
        signal = float(np.exp(log_signal))
        noise = signal / np.sqrt(self._snr)
        # Away from 0 and 1 the Binomial weights and their logarithms stay finite.
        excess = float(np.clip(expit(logit_excess), 1e-9, 1.0 - 1e-9))
        size = self._values.size
        log_likelihood, posterior = np.empty(size), np.empty(size)
        scores = np.empty((size, 3))
        centred = self._values - offset
        for degree, rows in self._groups:
            log_likelihood[rows], scores[rows], posterior[rows] = _one_degree(
                centred[rows], degree, signal, noise, excess
            )
        if self._exact < size:
            rows = slice(self._exact, size)
            log_likelihood[rows], scores[rows], posterior[rows] = _large_degree(
                centred[rows], self._degrees[rows], signal, noise, excess
            )
        back = np.empty(size, dtype=np.int64)
        back[self._order] = np.arange(size)
        return Evaluation(log_likelihood[back], scores[back], posterior[back])


@lru_cache(maxsize=4096)
def _lattice(degree: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Same-class neighbour counts, their log Binomial coefficients, the balance and its powers."""
    same = np.arange(degree + 1.0)
    log_choose = gammaln(degree + 1.0) - gammaln(same + 1.0) - gammaln(degree - same + 1.0)
    balance = (2.0 * same - degree) / degree
    return same, log_choose, balance, np.stack([np.ones_like(balance), balance, balance**2], axis=1)


def _one_degree(
    centred: Floats, degree: int, signal: float, noise: float, excess: float
) -> Evaluation:
    """All nodes of one degree: one Gaussian kernel matrix times one small table of weights."""
    homophily = 0.5 * (1.0 + excess)
    same, log_choose, balance, moments = _lattice(degree)
    own = np.exp(log_choose + same * np.log(homophily) + (degree - same) * np.log1p(-homophily))
    unit = float(np.sqrt(0.5 * degree)) / noise
    # The mirror class has the same lattice of means with the weights reversed, so one kernel does.
    table = np.concatenate([own[:, None] * moments, own[::-1, None] * moments], axis=1)
    # Exponents are taken relative to the nearest reachable mean, so no row underflows.
    nearest = (centred - np.clip(centred, -signal, signal)) * unit
    kernel = np.subtract.outer(centred * unit, (signal * unit) * balance)
    np.multiply(kernel, kernel, out=kernel)
    np.subtract((nearest * nearest)[:, None], kernel, out=kernel)
    np.exp(kernel, out=kernel)
    sums = kernel @ table
    plus, minus = sums[:, :3], sums[:, 3:]
    total = np.maximum(plus[:, 0] + minus[:, 0], _TINY)
    both = (plus + minus) / total[:, None]
    log_likelihood = (
        np.log(total)
        - nearest**2
        + 0.5 * np.log(degree)
        - np.log(noise)
        - 0.5 * np.log(8.0 * np.pi)
    )
    precision = degree / noise**2
    residual = centred - signal * both[:, 1]
    residual_balance = centred * both[:, 1] - signal * both[:, 2]
    residual_square = centred**2 - 2.0 * centred * signal * both[:, 1] + signal**2 * both[:, 2]
    by_signal = precision * signal * residual_balance
    by_noise = precision * residual_square - 1.0
    # d log Binomial / d(excess), then the chain rule of the logistic coordinate.
    slope = 0.5 * degree / (1.0 - excess**2)
    by_excess = slope * ((plus[:, 1] - minus[:, 1]) / total - excess)
    scores = np.stack(
        [
            by_signal + by_noise,
            by_excess * 2.0 * excess * (1.0 - excess),
            precision * residual,
        ],
        axis=1,
    )
    return Evaluation(log_likelihood, scores, plus[:, 0] / total)


def _large_degree(
    centred: Floats, degrees: Floats, signal: float, noise: float, excess: float
) -> Evaluation:
    """Take the Gaussian limit, with its scores carried to the same coordinates."""
    mean, variance = signal * excess, signal**2 * (1.0 - excess**2) + noise**2
    log_likelihood, scores, posterior = gaussian(
        centred, degrees, np.array([mean, np.log(variance), 0.0])
    )
    by_mean, by_log_variance, by_offset = scores.T
    chain = 2.0 * signal**2 * excess**2 * (1.0 - excess) / variance
    scores = np.stack(
        [
            by_mean * mean + 2.0 * by_log_variance,
            by_mean * mean * (1.0 - excess) - by_log_variance * chain,
            by_offset,
        ],
        axis=1,
    )
    return Evaluation(log_likelihood, scores, posterior)


class Maximum(NamedTuple):
    """Where the iteration ended; the inverse of the summed score products is the covariance."""

    point: Floats
    evaluation: Evaluation
    covariance: Floats
    converged: bool


def maximise(likelihood: Callable[[Floats], Evaluation], start: Floats, weights: Floats) -> Maximum:
    """Damped scoring with the outer product of scores.

    Steps are at most 1 in every coordinate, so values have to come in units of their own spread.
    It has converged when a full step would raise the log likelihood by less than 1e-4, a
    hundredth of a standard error; whoever needs the maximum has to look at ``converged``.
    """
    point, current = start, likelihood(start)
    value = float(np.dot(weights, current.log_likelihood))
    damping = 1e-3
    for _ in range(_ITERATIONS):
        gradient, matrix = weights @ current.scores, information(current, weights)
        scale = np.diag(matrix)
        if not (np.isfinite(value) and np.all(np.isfinite(matrix)) and np.all(scale > 0.0)):
            break
        # Bounded steps: far from the optimum the local model is not to be trusted.
        step = np.clip(_solve(matrix + damping * np.diag(scale), gradient), -1.0, 1.0)
        proposal = likelihood(point + step)
        gain = float(np.dot(weights, proposal.log_likelihood)) - value
        if not gain >= -1e-9:
            damping *= 8.0
            if damping > 1e10:
                break
            continue
        point, current, value = point + step, proposal, value + gain
        damping /= 8.0
        if gain < 1e-6 and damping < 1.0:
            break
    matrix = information(current, weights)
    if not np.all(np.isfinite(matrix)):
        return Maximum(point, current, np.full(matrix.shape, np.inf), converged=False)
    covariance: Floats = np.linalg.pinv(matrix, hermitian=True).astype(np.float64)
    gradient = weights @ current.scores
    return Maximum(
        point, current, covariance, bool(0.5 * gradient @ covariance @ gradient < _DECREMENT)
    )


def information(evaluation: Evaluation, weights: Floats) -> Floats:
    """Weighted sum of the outer products of the scores."""
    scores = evaluation.scores
    return np.asarray(scores.T @ (scores * weights[:, None]), dtype=np.float64)


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Solve after scaling the diagonal to one, by least squares when singular."""
    root = np.sqrt(np.diag(matrix))
    solution = np.linalg.lstsq(matrix / np.outer(root, root), right / root, rcond=1e-14)[0]
    return np.asarray(solution / root, dtype=np.float64)
