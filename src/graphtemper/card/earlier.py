r"""Earlier labels: what the classes of the same nodes were, one period ago.

A node whose prediction equals its old class is more often right than another, but how much more
depends on how fast classes change, so old labels cannot be taken for new ones. Environments that
were learned together with the labels before them (`SourceCard.learn(..., earlier=...)`) show it:
there, being right is regressed on confidence, on agreement with the old label, and on the
predicted and the old class. With the moments :math:`X^\top X / n` and :math:`X^\top r / n` of some
environments, which are all that a card keeps of this, the accuracy of a new one is

.. math:: \bar x^\top \Big(\sum_e X_e^\top X_e / n_e + \rho I\Big)^{-1} \sum_e X_e^\top r_e / n_e.

How far that is off in an environment that is left out, next to the usual variation between
environments, gives the interval. The columns also explain a part of which predictions are right
when there are new labels (`graphtemper.recalibration.labels.sequences`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors, temperature
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds, log_odds_variance, to_share
from graphtemper.card.random_effects import CONSTANTS, ENVIRONMENTS

MOST_CLASSES = 8
"""With more classes, which class it is does not enter: moments would fill a card."""
_RIDGE = 1e-3
# No regression on a few means knows that nothing, or everything, is right.
_LEAST, _MOST = 0.02, 0.98


def checked(earlier: ArrayLike, num_nodes: int, num_classes: int) -> NDArray[np.int64]:
    """Return the newest known class of every node (N,), -1 where there is none.

    Parameters
    ----------
    earlier
        Classes of all nodes in one earlier period (N,), -1 where unknown, or a list of such arrays,
        the newest last.
    num_nodes, num_classes
        Of the graph and of the model.

    Examples
    --------
    >>> checked([[0, 1, -1], [1, -1, -1]], 3, 2).tolist()
    [1, 1, -1]
    """
    values = np.asarray(earlier)
    if values.dtype.kind not in "iu" or values.ndim > 2 or values.shape[-1:] != (num_nodes,):
        raise errors.shape(
            "earlier labels must be one class for each node of the graph, -1 where unknown, or a "
            f"list of such arrays, the newest last; {num_nodes} nodes need other than "
            f"{values.dtype} of shape {values.shape}."
        )
    if values.min() < -1 or values.max() >= num_classes:
        raise errors.range(
            f"earlier labels must be from 0 to {num_classes - 1}, or -1 where unknown; there are "
            f"values from {values.min()} to {values.max()}."
        )
    newest = np.full(num_nodes, -1, dtype=np.int64)
    for period in np.atleast_2d(values):
        newest = np.where(period >= 0, period, newest)
    return newest


def agreement(logits: FloatArray, old: NDArray[np.int64]) -> FloatArray:
    """Return whether an old class is known and is the predicted one, and which it is (n, 2 + K).

    Examples
    --------
    >>> agreement(np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]]), np.array([0, 0, -1])).tolist()
    [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    known, same = old >= 0, old == logits.argmax(axis=1)
    return np.column_stack([known, same, which(old, logits.shape[1], MOST_CLASSES)])


def which(classes: NDArray[Any], num_classes: int, most: int) -> FloatArray:
    """Return one column per class (n, K) that says whether it is that one; none if K > ``most``."""
    columns = np.arange(num_classes if num_classes <= most else 0)
    return np.asarray(classes[:, None] == columns, np.float64)


def design(logits: FloatArray, old: NDArray[np.int64]) -> FloatArray:
    """Return the columns of the regression, (n, p); the first is 1."""
    classes = which(logits.argmax(axis=1), logits.shape[1], MOST_CLASSES)
    confidence = temperature.apply(logits).max(axis=1)
    return np.column_stack([np.ones(old.size), confidence, classes, agreement(logits, old)])


def num_columns(num_classes: int) -> int:
    """Return p, the number of columns of `design`.

    Examples
    --------
    >>> num_columns(3), num_columns(100)
    (10, 4)
    """
    return 4 + 2 * (num_classes if num_classes <= MOST_CLASSES else 0)


def moments(logits: FloatArray, old: NDArray[np.int64], right: NDArray[np.bool_]) -> FloatArray:
    """Return the moments of columns, and of columns and being right, (p, p + 1)."""
    x = design(logits, old)
    return np.asarray(x.T @ np.column_stack([x, right]) / len(x))


def expect(known: Sequence[tuple[FloatArray, float]], here: FloatArray, num_nodes: int) -> Estimate:
    """Predict the accuracy of a new environment from the means of its columns (p,).

    ``known`` are the moments and the log-odds of the accuracy of at least one environment.
    """
    every = [table for table, _ in known]
    gaps = [
        truth - _estimate([*every[:k], *every[k + 1 :]], table[0])
        for k, (table, truth) in enumerate(known)
        if len(known) > 1
    ]
    centre = _estimate(every, here)
    c = CONSTANTS
    between = (c.spread_count * c.spread**2 + float(np.square(gaps).sum())) / (
        c.spread_count + len(gaps)
    )
    sampling = float(log_odds_variance(to_share(centre), num_nodes))
    return Estimate.of_log_odds(centre, float(np.sqrt(between + sampling)), ENVIRONMENTS)


def _estimate(known: Sequence[FloatArray], means: FloatArray) -> float:
    """Return the log-odds of the accuracy by the regression on moments of some environments."""
    total = np.sum(known, axis=0)
    size = len(total)
    slope = np.linalg.solve(total[:, :size] + _RIDGE * np.eye(size), total[:, size])
    return log_odds(float(np.clip(means[:size] @ slope, _LEAST, _MOST)))
