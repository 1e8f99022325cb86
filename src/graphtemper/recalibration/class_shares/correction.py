"""Logits that fit other class shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.arrays import FloatArray, check_matrix, check_shares
from graphtemper._core.checks import check_positive

SHARE_FLOOR = 1e-6
"""`adjust_logits` takes no share to be smaller than this."""


def adjust_logits(
    logits: ArrayLike,
    source_shares: ArrayLike,
    target_shares: ArrayLike,
    *,
    floor: float = SHARE_FLOOR,
) -> FloatArray:
    r"""Move logits to new class shares: :math:`z_{ik} + \log(\pi_k / s_k)`.

    By Bayes' rule the softmax of the result is the target's posterior if that of ``logits`` is
    the source's; so divide logits by their temperature first. Predictions may change.

    Parameters
    ----------
    logits : (n, K) array
        Calibrated logits.
    source_shares, target_shares : (K,) arrays
    floor : float
        Both shares are raised to it, so that a share of 0 makes a class unlikely and not
        impossible. With shares estimated from n nodes, 1 / n says as much as they can.

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
    moved = np.log(np.maximum(target, least)) - np.log(np.maximum(source, least))
    return np.asarray(z + moved, dtype=np.float64)
