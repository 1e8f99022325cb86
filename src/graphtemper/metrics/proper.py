"""Proper scores: negative log-likelihood, and the Brier score with its decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.checks import check_pair, probability_columns
from graphtemper._core.reproducible import map_blocks
from graphtemper.metrics.calibration_error import class_statistics


@dataclass(frozen=True, slots=True)
class BrierDecomposition:
    """Brier score = reliability - resolution + uncertainty + within_bin, exactly.

    Attributes
    ----------
    reliability : float
        Mean squared gap between mean probability and frequency per bin; 0 is best.
    resolution : float
        Variance of the frequencies between bins; larger is better.
    uncertainty : float
        Variance of the labels, independent of the model.
    within_bin : float
        The part hidden by binning: variance of the probabilities inside a bin, minus twice their
        covariance with the labels.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bin: float

    @property
    def brier(self) -> float:
        """The Brier score the four parts add up to."""
        return self.reliability - self.resolution + self.uncertainty + self.within_bin


def nll(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Mean negative log-likelihood, :math:`-\frac1n \sum_i \log p_{i y_i}`, in nats.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array

    Returns
    -------
    float
        Infinite if any node gives its label probability 0; nothing is clipped.

    Examples
    --------
    >>> round(nll([[0.5, 0.5], [0.1, 0.9]], [0, 1]), 4)
    0.3993
    """
    p, y = check_pair(probabilities, labels, "probabilities")

    def part(rows: slice) -> float:
        block = probability_columns(p, rows)
        chosen = block[y[rows], np.arange(block.shape[1])]
        with np.errstate(divide="ignore"):  # log 0 = -inf is the answer, not an accident
            return -float(np.log(chosen, dtype=np.float64).sum())

    return sum(map_blocks(part, *p.shape)) / len(p)


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Mean squared distance to the one-hot label, :math:`\frac1n\sum_{ik}(p_{ik}-1[y_i=k])^2`.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array

    Returns
    -------
    float
        Between 0 and 2. For K = 2 it is twice the squared error of the positive class.

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", 1950.

    Examples
    --------
    >>> round(brier([[0.5, 0.5], [0.1, 0.9]], [0, 1]), 4)
    0.26
    """
    p, y = check_pair(probabilities, labels, "probabilities")

    def part(rows: slice) -> float:
        block = probability_columns(p, rows).astype(np.float64)
        block[y[rows], np.arange(block.shape[1])] -= 1.0
        return float(np.square(block).sum())

    return sum(map_blocks(part, *p.shape)) / len(p)


def brier_decomposition(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15
) -> BrierDecomposition:
    r"""Split the Brier score into reliability, resolution, uncertainty and a within-bin rest.

    Every class is binned by its own probability (equal width). With mean probability
    :math:`\bar p_{bk}`, frequency :math:`\bar y_{bk}` and class share :math:`\bar y_k`,

    .. math:: \mathrm{REL} = \sum_{kb} \tfrac{n_{bk}}{n} (\bar p_{bk} - \bar y_{bk})^2, \quad
              \mathrm{RES} = \sum_{kb} \tfrac{n_{bk}}{n} (\bar y_{bk} - \bar y_k)^2, \quad
              \mathrm{UNC} = \sum_k \bar y_k (1 - \bar y_k).

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins : int

    Returns
    -------
    BrierDecomposition

    References
    ----------
    Murphy, "A new vector partition of the probability score", 1973; Stephenson, Coelho &
    Jolliffe, "Two extra components in the Brier score decomposition", 2008.

    Examples
    --------
    >>> parts = brier_decomposition([[0.5, 0.5], [0.1, 0.9]], [0, 1])
    >>> round(parts.brier, 4), round(parts.uncertainty, 4)
    (0.26, 0.5)
    """
    reliability = resolution = uncertainty = 0.0
    for part in class_statistics(probabilities, labels, bins):
        frequency = part.correct_sum / np.maximum(part.count, 1)
        share = part.correct_sum.sum() / part.total
        reliability += float((part.count * part.gap**2).sum() / part.total)
        resolution += float((part.count * (frequency - share) ** 2).sum() / part.total)
        uncertainty += float(share * (1.0 - share))
    rest = brier(probabilities, labels) - (reliability - resolution + uncertainty)
    return BrierDecomposition(reliability, resolution, uncertainty, rest)
