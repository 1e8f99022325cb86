r"""Split views: the frozen model on two disjoint parts of its input.

Corruption is independent between the parts, so it drops out of the covariance between the two
outputs of the model, and the signal remains. With the same splits at source and target, the ratio
of the two covariances is a squared *signal gain*:

.. math:: g^2 = \frac{\sum_s \mathrm{tr}\,\mathrm{Cov}_t(u_s, v_s)}
                     {\sum_s \mathrm{tr}\,\mathrm{Cov}_s(u_s, v_s)}.

The parts are halves of the feature columns; a view sets the columns of the other half to their
means. The sums are over splits and come before the ratio, because the covariance of a single split
may be near zero. Views of neighbours are in `graphtemper.signals.neighbours`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.models.fast_passes import Rows


def column_halves(num_features: int, splits: int, seed: int) -> NDArray[np.bool_]:
    """Return random halves of the columns, (splits, F) bool; the same seed gives the same halves.

    Examples
    --------
    >>> column_halves(6, 2, seed=0).sum(axis=1).tolist()
    [3, 3]
    """
    halves = np.zeros((splits, num_features), dtype=bool)
    for row in range(splits):
        order = np.random.default_rng([seed, row]).permutation(num_features)
        halves[row, order[: num_features // 2]] = True
    return halves


def cross_covariance(first: FloatArray, second: FloatArray) -> float:
    """Return the trace of the covariance between two views, (n, K) each.

    Logits are centred per node first, because a constant added to all logits of a node has no
    effect.

    Examples
    --------
    >>> u = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> cross_covariance(u, u), cross_covariance(u, -u)
    (2.0, -2.0)
    """
    return float(node_products(first, second).mean())


def node_products(first: FloatArray, second: FloatArray, centre: Rows = None) -> FloatArray:
    """Return the contribution of each node to the cross-covariance, (N,); their mean is the latter.

    The spread over nodes gives the standard error. The views are centred over the whole graph, or
    over the rows ``centre``, a uniform sample of it, so that the product of a node does not depend
    on which other nodes are observed.
    """
    u, v = (centred(view) for view in (first, second))
    middle = [view.mean(axis=0) if centre is None else view[centre].mean(axis=0) for view in (u, v)]
    return np.asarray(np.einsum("ik,ik->i", u - middle[0], v - middle[1]))


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    share = np.full((values.shape[1], 1), 1.0 / values.shape[1])
    return np.asarray(values - values @ share)  # a product is faster than a mean of short rows
