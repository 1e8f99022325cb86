r"""Smooth calibration error: the ECE without bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.checks import FloatArray
from graphtemper.metrics.binned import weighted_count
from graphtemper.metrics.top_label import top_label

# Cells of the grid of residuals: far finer than the bandwidth at the fixed point for any data that
# fit in memory.
GRID_CELLS = 16_384
BANDWIDTH_TOLERANCE = 1e-9


def smooth_ece(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Smooth calibration error (smECE) of the top label.

    For a bandwidth :math:`\sigma` let

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big|\frac1n \sum_i (y_i - c_i)
              K_\sigma(t, c_i)\Big| dt

    with :math:`K_\sigma` the Gaussian kernel reflected at 0 and 1. The value falls as
    :math:`\sigma` grows, and smECE is the fixed point :math:`\sigma = \mathrm{smECE}_\sigma`. It
    is within a constant factor of the distance to the nearest calibrated predictor, and
    continuous in the confidences, which binned ECE is not.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array

    Returns
    -------
    float
        Between 0 and 1.

    References
    ----------
    Blasiok & Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing",
    ICLR 2024 (arXiv 2309.12236).

    Notes
    -----
    Reflection at both ends turns the kernel into the heat kernel of the unit interval, whose
    eigenfunctions are cosines: smoothing multiplies the k-th cosine coefficient of the residuals
    by :math:`e^{-(\pi k \sigma)^2 / 2}`. Residuals are spread linearly onto a fixed grid once, so
    each bandwidth costs one short cosine transform.

    Examples
    --------
    >>> round(smooth_ece([[0.1, 0.9]] * 100, [1] * 60 + [0] * 40), 3)
    0.3
    """
    from scipy.fft import dct, idct
    from scipy.optimize import brentq

    confidence, correct = top_label(probabilities, labels)
    spectrum = dct(_on_grid(confidence, correct - confidence) / len(confidence))
    frequency = np.pi * np.arange(GRID_CELLS)

    def excess(bandwidth: float) -> float:
        with np.errstate(under="ignore"):
            damped = spectrum * np.exp(-0.5 * (bandwidth * frequency) ** 2)
        return bandwidth - float(np.abs(idct(damped)).sum())

    if excess(0.0) >= 0.0:  # no residual at all
        return 0.0
    # smECE is at most 1 because residuals are, so the fixed point lies in (0, 1].
    return float(brentq(excess, 0.0, 1.0 + BANDWIDTH_TOLERANCE, xtol=BANDWIDTH_TOLERANCE))


def _on_grid(position: FloatArray, weight: FloatArray) -> FloatArray:
    # Cell centres at (j + 1/2) / cells, the points of the cosine transform; each weight is divided
    # between the two nearest centres, which keeps its mean position.
    place = np.clip(position * GRID_CELLS - 0.5, 0.0, GRID_CELLS - 1.0)
    cell = np.minimum(place.astype(np.intp), GRID_CELLS - 2)
    share = place - cell
    left = weighted_count(cell, weight * (1.0 - share), GRID_CELLS)
    return left + weighted_count(cell + 1, weight * share, GRID_CELLS)
