"""Selective prediction: how well confidence separates correct predictions from errors.

Nodes with equal confidence are exchangeable: where an order is needed, every order of a tie
counts equally, so no result depends on how the nodes are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.checks import FloatArray, check_number
from graphtemper.errors import NotIdentifiableError, RangeError
from graphtemper.metrics.top_label import top_label


def error_auroc(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the probability that a correct node is more confident than a wrong one (ties: 1/2).

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array

    Returns
    -------
    float
        1: confidence separates errors perfectly; 1/2: it is uninformative.

    Raises
    ------
    NotIdentifiableError
        If every node is correct, or every node is wrong.

    Examples
    --------
    >>> error_auroc([[0.1, 0.9], [0.3, 0.7], [0.2, 0.8]], [1, 0, 1])
    1.0
    """
    ties = _ties(probabilities, labels)
    correct = ties.size - ties.errors
    pairs = float(correct.sum() * ties.errors.sum())
    if pairs == 0.0:
        state = "correct" if ties.errors.sum() == 0 else "wrong"
        raise NotIdentifiableError(
            "error AUROC needs correct and wrong nodes, but all "
            f"{int(ties.size.sum())} are {state}."
        )
    # Groups run from most to least confident: errors in later groups are less confident.
    beaten = ties.errors.sum() - np.cumsum(ties.errors)
    return float((correct * (beaten + 0.5 * ties.errors)).sum() / pairs)


def aurc(probabilities: ArrayLike, labels: ArrayLike) -> float:
    r"""Area under the risk-coverage curve, :math:`\frac1n\sum_{m=1}^n r_m`.

    :math:`r_m` is the error rate among the m most confident nodes. Lower is better; a random
    order gives the error rate.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array

    References
    ----------
    Geifman, Uziel & El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
    classifiers", ICLR 2019.

    Examples
    --------
    >>> round(aurc([[0.1, 0.9], [0.3, 0.7], [0.2, 0.8]], [1, 0, 1]), 4)
    0.1111
    """
    ties = _ties(probabilities, labels)
    # The m-th node carries, on average over orders, the error rate of its tie.
    errors = np.cumsum(np.repeat(ties.errors / ties.size, ties.size))
    return float(np.mean(errors / np.arange(1, len(errors) + 1)))


def risk_at_coverage(probabilities: ArrayLike, labels: ArrayLike, coverage: float) -> float:
    """Return the error rate among the most confident fraction ``coverage`` of the nodes.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    coverage : float
        In (0, 1]; the first ceil(coverage n) nodes are selected, at least one, and a tie at the
        cut counts in proportion.

    Examples
    --------
    >>> risk_at_coverage([[0.1, 0.9], [0.3, 0.7], [0.2, 0.8]], [1, 0, 1], coverage=0.5)
    0.0
    """
    fraction = check_number(coverage, "coverage")
    if not 0.0 < fraction <= 1.0:
        raise RangeError(f"coverage must lie in (0, 1], not {coverage!r}.")
    ties = _ties(probabilities, labels)
    # Rounding first: 0.07 * 100 is 7.000000000000001, and selecting 8 nodes would be wrong.
    selected = max(int(np.ceil(np.round(fraction * ties.size.sum(), 9))), 1)
    before = np.cumsum(ties.size) - ties.size
    weight = np.clip(selected - before, 0, ties.size) / ties.size
    return float((weight * ties.errors).sum() / selected)


class _Ties(NamedTuple):
    """Nodes grouped by equal confidence, most confident first."""

    size: NDArray[np.intp]
    errors: FloatArray


def _ties(probabilities: ArrayLike, labels: ArrayLike) -> _Ties:
    confidence, correct = top_label(probabilities, labels)
    order = np.argsort(-confidence)
    confidence = confidence[order]
    starts = np.flatnonzero(np.r_[True, confidence[1:] != confidence[:-1]])
    errors = np.add.reduceat((~correct[order]).astype(np.float64), starts)
    return _Ties(np.diff(np.r_[starts, len(confidence)]), errors)
