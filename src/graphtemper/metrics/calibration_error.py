"""Calibration errors: top-label, maximum, debiased, class-wise, degree-binned."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.checks import (
    check_choice,
    check_count,
    check_matrix,
    check_pair,
    probability_columns,
)
from graphtemper._core.reproducible import map_blocks
from graphtemper.metrics.binned import (
    BinnedStatistics,
    Closed,
    Scheme,
    bin_probabilities,
    equal_width_edges,
    sum_in_bins,
)


def ece(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
) -> float:
    r"""Top-label expected calibration error, :math:`\sum_b \frac{n_b}{n} |\bar c_b - a_b|`.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins, scheme, closed
        As in `bin_probabilities`.

    Returns
    -------
    float
        Between 0 and 1. It is biased upwards; compare it with `noise_floor`.

    References
    ----------
    Naeini, Cooper & Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI 2015; Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> round(ece([[0.1, 0.9], [0.1, 0.9], [0.6, 0.4]], [1, 0, 0]), 4)
    0.4
    """
    return bin_probabilities(probabilities, labels, bins, scheme=scheme, closed=closed).ece


def mce(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
) -> float:
    r"""Top-label maximum calibration error, :math:`\max_b |\bar c_b - a_b|` over non-empty bins.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins, scheme, closed
        As in `bin_probabilities`.

    Examples
    --------
    >>> round(mce([[0.1, 0.9], [0.1, 0.9], [0.6, 0.4]], [1, 0, 0]), 4)
    0.4
    """
    return bin_probabilities(probabilities, labels, bins, scheme=scheme, closed=closed).mce


def debiased_ece(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
) -> float:
    r"""Root-mean-square binned calibration error with its sampling bias removed.

    .. math:: \sqrt{\max\Big(0, \sum_b \frac{n_b}{n}
              \Big[(\bar c_b - a_b)^2 - \frac{a_b (1 - a_b)}{n_b - 1}\Big]\Big)}

    The bracket is an unbiased estimate of the squared gap of a bin with at least two nodes if
    the nodes of a bin are exchangeable: independent, each correct with the same probability.
    Where that probability varies inside a bin, given the confidences, :math:`a_b(1-a_b)/(n_b-1)`
    exceeds the variance of :math:`a_b` by (variance of the probabilities) / :math:`(n_b-1)` and
    slightly too much is subtracted; where errors are correlated, too little is. A calibrated model
    scores about 0 where `ece` scores its noise floor. The number is in root-mean-square units:
    without noise it is at least as large as `ece`.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins, scheme, closed
        As in `bin_probabilities`.

    References
    ----------
    Kumar, Liang & Ma, "Verified Uncertainty Calibration", NeurIPS 2019 (the debiased estimator).

    Examples
    --------
    >>> round(debiased_ece([[0.1, 0.9]] * 4, [1, 1, 0, 0]), 4)
    0.2769
    """
    return bin_probabilities(probabilities, labels, bins, scheme=scheme, closed=closed).debiased_ece


def noise_floor(
    probabilities: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
) -> float:
    r"""Return the expected binned ECE of a perfectly calibrated model with these confidences.

    .. math:: \frac1n \sum_b \sqrt{\frac2\pi \sum_{i \in b} c_i (1 - c_i)}

    Each bin's sum of errors is treated as normal, so the value is approximate where bins hold only
    a few nodes. An ECE near this number is no evidence of miscalibration.

    Parameters
    ----------
    probabilities : (n, K) array
        No labels are needed.
    bins, scheme, closed
        As in `bin_probabilities`.

    Examples
    --------
    >>> round(noise_floor([[0.2, 0.8]] * 100), 4)
    0.0319
    """
    p = check_matrix(probabilities, "probabilities")
    # The floor does not depend on correctness, so any labels will do.
    labels = np.zeros(len(p), dtype=np.intp)
    return bin_probabilities(p, labels, bins, scheme=scheme, closed=closed).noise_floor


def classwise_ece(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15, *, closed: Closed = "right"
) -> float:
    r"""Mean over classes of the one-vs-rest ECE of that class's probability, equal-width bins.

    .. math:: \frac1K \sum_k \sum_b \frac{n_{bk}}{n} |\bar p_{bk} - \bar y_{bk}|

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins, closed
        As in `bin_probabilities`.

    References
    ----------
    Kull et al., "Beyond temperature scaling", NeurIPS 2019.

    Examples
    --------
    >>> round(classwise_ece([[0.1, 0.9], [0.1, 0.9], [0.6, 0.4]], [1, 0, 0]), 4)
    0.4
    """
    return float(
        np.mean([part.ece for part in class_statistics(probabilities, labels, bins, closed)])
    )


def class_statistics(
    probabilities: ArrayLike, labels: ArrayLike, bins: int, closed: Closed = "right"
) -> list[BinnedStatistics]:
    """Binned one-vs-rest statistics of every class: "confidence" is p_k, "correct" is y = k."""
    p, y = check_pair(probabilities, labels, "probabilities")
    grid = equal_width_edges(check_count(bins, "bins"))
    check_choice(closed, ("right", "left"), "closed")

    def part(rows: slice) -> list[BinnedStatistics]:
        block = np.minimum(probability_columns(p, rows), 1.0).astype(np.float64, copy=False)
        return [sum_in_bins(column, y[rows] == k, grid, closed) for k, column in enumerate(block)]

    blocks = map_blocks(part, *p.shape)
    return [reduce(add, column) for column in zip(*blocks, strict=True)]
