"""Population quantities of the Gaussian model: decision values N(+-mean, variance), two classes.

The theorem and the bound are about these quantities, evaluated here exactly (closed form or
quadrature); `graphtemper.theory` exports them together with the paper's equations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr

from graphtemper.theory import domain

Floats = NDArray[np.float64]

# Gauss-Legendre nodes on (0, 1), squared so that they are dense where the sigmoid bends.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)
_UNIT = (0.5 * (_NODES + 1.0)) ** 2
_UNIT_WEIGHTS = _WEIGHTS * 0.5 * (_NODES + 1.0)


@domain.quiet
def slope_from_moments(mean: ArrayLike, variance: ArrayLike) -> float | Floats:
    """Calibration slope of decision values N(+-mean, variance) (``thm:kappa``).

    Formula: 2 mean / variance. Assumptions: balanced classes, one common variance. Limits: 0 when
    the classes coincide, negative when the decision points to the wrong class.

    Examples
    --------
    >>> slope_from_moments(1.5, 2.0)
    1.5
    """
    mean_, variance_ = domain.finite("mean", mean), domain.positive("variance", variance)
    domain.together(mean=mean_, variance=variance_)
    return domain.plain(2.0 * mean_ / variance_)


@domain.quiet
def population_accuracy(mean: ArrayLike, variance: ArrayLike) -> float | Floats:
    """Accuracy of decision values N(+-mean, variance) (follows from ``thm:kappa``).

    Formula: Phi(mean / sqrt(variance)). Assumptions: balanced classes, decision at zero. Limits:
    1/2 at mean 0, below 1/2 for a negative mean.

    Examples
    --------
    >>> round(population_accuracy(1.0, 1.0), 4)
    0.8413
    """
    mean_, variance_ = domain.finite("mean", mean), domain.positive("variance", variance)
    domain.together(mean=mean_, variance=variance_)
    return domain.plain(ndtr(mean_ / np.sqrt(variance_)))


@domain.quiet
def mean_abs_logit(mean: ArrayLike, variance: ArrayLike) -> float | Floats:
    """Mean of |delta| for delta ~ N(+-mean, variance), the input of ``prop:bound``.

    Formula: s sqrt(2/pi) exp(-m^2 / (2 s^2)) + m (2 Phi(m/s) - 1). Assumptions: balanced classes.
    Limits: s sqrt(2/pi) at mean 0, |mean| as the variance vanishes.

    Examples
    --------
    >>> round(mean_abs_logit(0.0, 1.0), 4)
    0.7979
    """
    mean_, variance_ = domain.finite("mean", mean), domain.positive("variance", variance)
    domain.together(mean=mean_, variance=variance_)
    spread = np.sqrt(variance_)
    centre = mean_ * (2.0 * ndtr(mean_ / spread) - 1.0)
    return domain.plain(
        spread * np.sqrt(2.0 / np.pi) * np.exp(-(mean_**2) / (2.0 * variance_)) + centre
    )


@domain.quiet
def population_gap(
    mean: ArrayLike, variance: ArrayLike, *, temperature: ArrayLike = 1.0
) -> float | Floats:
    """Mean confidence minus accuracy of the Gaussian model after a temperature, by quadrature.

    Formula: E[sigmoid(|delta| / T)] - E[sigmoid(slope |delta|)], delta ~ N(+-mean, variance),
    slope = 2 mean / variance. Assumptions: those of ``thm:kappa``. Limits: 0 at T = 1 / slope.
    The integrand never changes sign, so the absolute gap equals `population_ece`.

    Examples
    --------
    >>> round(population_gap(1.0, 4.0), 6), round(population_gap(1.0, 4.0, temperature=2.0), 6)
    (0.104546, 0.0)
    """
    mean_, variance_ = domain.finite("mean", mean), domain.positive("variance", variance)
    divisor = domain.positive("temperature", temperature)
    domain.together(mean=mean_, variance=variance_, temperature=divisor)
    scale = 1.0 / divisor
    kappa = 2.0 * mean_ / variance_
    magnitude, weight = _folded_rule(*np.broadcast_arrays(mean_, variance_))
    difference = expit(scale[..., None] * magnitude) - expit(kappa[..., None] * magnitude)
    return domain.plain(np.sum(weight * difference, axis=-1))


@domain.quiet
def population_ece(
    mean: ArrayLike, variance: ArrayLike, *, temperature: ArrayLike = 1.0
) -> float | Floats:
    """Exact population ECE of the Gaussian model after a temperature (what ``prop:bound`` bounds).

    Formula: E |sigmoid(slope |delta|) - sigmoid(|delta| / T)|, delta ~ N(+-mean, variance),
    slope = 2 mean / variance. Assumptions: those of ``thm:kappa``. Limits: 0 at T = 1 / slope; at
    T = 1 never above ``theory.ece_bound(slope, mean_abs_logit(mean, variance))``.

    Examples
    --------
    >>> round(population_ece(1.0, 4.0), 4), population_ece(1.0, 4.0, temperature=2.0)
    (0.1045, 0.0)
    """
    return domain.plain(np.abs(population_gap(mean, variance, temperature=temperature)))


def _folded_rule(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Nodes and weights for |delta|, delta ~ N(+-mean, variance), along a new last axis."""
    centre, spread = np.abs(mean)[..., None], np.sqrt(variance)[..., None]
    low = np.maximum(centre - 10.0 * spread, 0.0)
    width = centre + 10.0 * spread - low
    nodes = low + width * _UNIT
    density = np.exp(-0.5 * ((nodes - centre) / spread) ** 2)
    density += np.exp(-0.5 * ((nodes + centre) / spread) ** 2)
    weights = width * _UNIT_WEIGHTS * density / (spread * np.sqrt(2.0 * np.pi))
    return nodes, weights
