"""Conformal thresholds: quantiles of scores, corrected for the new node."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import errors
from graphtemper._core.checks import FloatArray, as_array, check_level, check_vector

# 0.07 * 100 is 7.000000000000001: rounding must not skip an integer.
_ROUNDING = 1e-12


def threshold(
    scores: ArrayLike,
    level: float,
    weights: ArrayLike | None = None,
    new_weight: ArrayLike = 1.0,
) -> FloatArray:
    r"""Return the score that a new node's true class stays below with the given probability.

    .. math:: \hat q = \min\Bigl\{q : \sum_{i:\, s_i \le q} w_i \ge
              (1 - \alpha) \bigl(w_{new} + \sum_i w_i\bigr)\Bigr\}

    Without weights this is the :math:`\lceil (n + 1)(1 - \alpha) \rceil`-th smallest of n scores.
    The new node counts as a score of infinity: where all n scores together do not reach the
    level, as with :math:`n < (1-\alpha)/\alpha`, the threshold is infinite and a set contains every
    class.

    Parameters
    ----------
    scores : (n,) array
        Scores of the true classes of labelled nodes.
    level : float
        1 - alpha, in (0, 1).
    weights : (n,) array, optional
        Ratio of the target's density to the source's at each node, up to a factor. With exact
        ratios the coverage holds at the target; with estimated ones, approximately.
    new_weight : float or (m,) array
        The same ratio at the new node, or at several new nodes.

    Returns
    -------
    float64 array of the shape of ``new_weight``

    References
    ----------
    Vovk, Gammerman & Shafer, "Algorithmic Learning in a Random World", 2005; Tibshirani, Barber,
    Candès & Ramdas, "Conformal Prediction Under Covariate Shift", NeurIPS 2019.

    Examples
    --------
    >>> float(threshold(range(1, 20), 0.9))     # the 18th of 19, as 0.9 * 20 = 18
    18.0
    >>> float(threshold(range(1, 9), 0.9))      # eight nodes are too few for 90 %
    inf
    >>> threshold([1.0, 2.0, 3.0], 0.5, [1.0, 1.0, 6.0], [1.0, 100.0]).tolist()
    [3.0, inf]
    """
    values = check_vector(scores, "scores")
    fraction = check_level(level)
    if values.size == 0:
        raise errors.empty("scores is empty; pass at least one labelled node.")
    counts = np.ones(values.size) if weights is None else check_vector(weights, "weights")
    if counts.shape != values.shape:
        raise errors.shape(f"weights must have shape {values.shape}, not {counts.shape}.")
    added = np.asarray(as_array(new_weight, "new_weight"), dtype=np.float64)
    if counts.min() < 0.0 or not counts.sum() > 0.0 or not (added >= 0.0).all():
        raise errors.range("weights must not be negative, and one of them must be positive.")
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(counts[order])
    needed = fraction * (reached[-1] + added) * (1.0 - _ROUNDING)
    candidates = np.append(values[order], np.inf)
    return np.asarray(candidates[np.searchsorted(reached, needed, side="left")])
