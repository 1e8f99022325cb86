"""Proper scores: negative log-likelihood and the Brier score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.checks import check_pair, probability_columns
from graphtemper._core.reproducible import map_blocks


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
