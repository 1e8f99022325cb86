r"""Metrics of decisions: precision, recall, F1, specificity, rankings, cost, with labels.

With ``positive`` one class stands against all others: a node is flagged if its probability of
that class reaches ``threshold``, or, without a threshold, if the class is its prediction.
Otherwise the metric is the mean over the classes for which it is defined (macro average). A
metric that is undefined, as precision without a flagged node, is None. `rates`, `ranking` and `top`
take counts, and so serve expected ones (`graphtemper.Recalibration.metrics`) as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_integer, check_pair, check_unit

RATES = ("precision", "recall", "f1", "specificity")
RANKINGS = ("auroc", "average_precision")
NAMES = (*RATES, *RANKINGS, "precision_at_k", "recall_at_k", "cost")


def rates(table: FloatArray) -> dict[str, FloatArray]:
    r"""Return precision, recall, F1 and specificity of every class, NaN where undefined.

    ``table`` (..., K, K) counts nodes by true class (rows) and decided class (columns). With TP on
    its diagonal, :math:`P = TP / (TP + FP)`, :math:`R = TP / (TP + FN)`,
    :math:`F_1 = 2 TP / (2 TP + FP + FN)` and the specificity :math:`TN / (TN + FP)`.

    Examples
    --------
    >>> found = rates(np.array([[8.0, 2.0], [1.0, 4.0]]))
    >>> {name: values.round(3).tolist()[1] for name, values in found.items()}
    {'precision': 0.667, 'recall': 0.8, 'f1': 0.727, 'specificity': 0.8}
    """
    hits = np.einsum("...kk->...k", table)
    decided, true = table.sum(axis=-2), table.sum(axis=-1)
    others = table.sum(axis=(-2, -1))[..., None] - true
    parts = (
        (hits, decided),
        (hits, true),
        (2.0 * hits, decided + true),
        (others - (decided - hits), others),
    )
    return {name: _ratio(*part) for name, part in zip(RATES, parts, strict=True)}


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.asarray(np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), np.nan))


def groups(scores: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows from the highest score to the lowest, and where groups of equal scores begin."""
    order = np.argsort(-scores, kind="stable")
    return order, np.flatnonzero(np.diff(scores[order], prepend=np.inf))


def ranking(hits: FloatArray, counts: FloatArray) -> dict[str, FloatArray]:
    r"""Return the area under the ROC curve and average precision, NaN where undefined.

    ``counts`` (m,) are the nodes of each distinct score, highest first, and ``hits`` (..., m) the
    positive ones among them. Ties count half for the area; average precision is
    :math:`\sum_j (R_j - R_{j-1}) P_j`.

    Examples
    --------
    >>> found = ranking(np.array([1.0, 0.0, 1.0]), np.ones(3))
    >>> {name: round(float(value), 3) for name, value in found.items()}
    {'auroc': 0.5, 'average_precision': 0.833}
    """
    found, seen = np.cumsum(hits, axis=-1), np.cumsum(counts)
    total = found[..., -1]
    above = ((counts - hits) * (found - 0.5 * hits)).sum(axis=-1)
    average = (hits * found / seen).sum(axis=-1)
    areas = _ratio(above, total * (seen[-1] - total)), _ratio(average, total)
    return dict(zip(RANKINGS, areas, strict=True))


def top(hits: FloatArray, counts: FloatArray, k: int) -> FloatArray:
    """Return the positive nodes among the k with the highest scores; ties count in proportion."""
    seen = np.cumsum(counts)
    last = int(np.searchsorted(seen, k))
    part = (k - (seen[last] - counts[last])) / counts[last]
    return np.asarray(hits[..., :last].sum(axis=-1) + part * hits[..., last])


def confusion(
    probabilities: ArrayLike,
    labels: ArrayLike,
    positive: int | None = None,
    threshold: float | None = None,
) -> FloatArray:
    """Count nodes by true class (rows) and decided class (columns); (2, 2) with ``positive``.

    Examples
    --------
    >>> confusion([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], [0, 0, 1]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    p, true = check_pair(probabilities, labels, "probabilities")
    decided, size = p.argmax(axis=1), p.shape[1]
    if positive is not None:
        positive = check_integer(positive, "positive", 0, size - 1)
        decided, true, size = decided == positive, true == positive, 2
        if threshold is not None:
            decided = p[:, positive] >= check_unit(threshold, "threshold")
    elif threshold is not None:
        raise errors.missing("a threshold needs a class; pass positive= as well.")
    table = np.zeros((size, size))
    np.add.at(table, (true.astype(np.intp), decided.astype(np.intp)), 1.0)
    return table


def decisions(
    probabilities: ArrayLike,
    labels: ArrayLike,
    positive: int | None = None,
    threshold: float | None = None,
    k: int | None = None,
    costs: ArrayLike | None = None,
) -> dict[str, float | None]:
    """Return all metrics by name, None where one is undefined or needs ``k`` or ``costs``.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    positive, threshold
        See the module.
    k
        Size of a review: the k nodes with the highest probability of the positive class. Where
        equal scores straddle the limit, they count in proportion.
    costs
        Cost of a node by true class (rows) and decision (columns), in the shape of `confusion`. The
        metric is the sum over nodes.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]
    >>> found = decisions(p, [0, 0, 1], positive=1, k=2, costs=[[0, 1], [20, 0]])
    >>> found["precision"], found["recall_at_k"], found["cost"]
    (0.5, 1.0, 1.0)
    """
    table = confusion(probabilities, labels, positive, threshold)
    p, true = check_pair(probabilities, labels, "probabilities")
    asked = range(p.shape[1]) if positive is None else [positive]
    counted = [_counted(p[:, j].astype(np.float64), true == j) for j in asked]
    ranked = [ranking(*pair) for pair in counted]
    found = {
        name: _mean(values if positive is None else values[1:])
        for name, values in rates(table).items()
    } | {name: _mean(np.array([one[name] for one in ranked])) for name in RANKINGS}
    if k is not None:
        if positive is None:
            raise errors.missing("k needs a class; pass positive= as well.")
        first, total = top(*counted[0], check_integer(k, "k", 1, len(p))), counted[0][0].sum()
        found["precision_at_k"] = float(first / k)
        found["recall_at_k"] = _mean(_ratio(first, total)[None])
    if costs is not None:
        found["cost"] = float((checked_costs(costs, len(table)) * table).sum())
    return {name: found.get(name) for name in NAMES}


def _named(name: str, meaning: str) -> Callable[..., float | None]:
    """Return one of the metrics as a function with the arguments of `decisions`."""

    def metric(
        probabilities: ArrayLike, labels: ArrayLike, positive: int | None = None, **options: Any
    ) -> float | None:
        return decisions(probabilities, labels, positive, **options)[name]

    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = f"Return {meaning}; arguments as for `decisions`."
    return metric


precision = _named("precision", "the share of flagged nodes that are positive")
recall = _named("recall", "the share of positive nodes that are flagged")
f1 = _named("f1", "the harmonic mean of precision and recall")
specificity = _named("specificity", "the share of the other nodes that are not flagged")
auroc = _named("auroc", "the probability that a positive node scores above another, ties 1/2")
average_precision = _named("average_precision", "mean precision over positive nodes, by score")
precision_at_k = _named("precision_at_k", "the share of positive nodes among the first k by score")
recall_at_k = _named("recall_at_k", "the share of the positive nodes among the first k by score")
cost = _named("cost", "the total cost of the decisions")


def checked_costs(costs: ArrayLike, size: int) -> FloatArray:
    """Return finite costs by true and decided class, or refuse them."""
    try:
        array = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.shape(f"costs must be a {size} x {size} table of numbers.") from error
    if array.shape != (size, size):
        raise errors.shape(
            f"costs must be a {size} x {size} table, true classes in rows and decisions in "
            f"columns, not of shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise errors.range("costs must be finite numbers.")
    return array


def _mean(values: FloatArray) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _counted(scores: FloatArray, true: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the positive nodes and all nodes of each distinct score, highest first."""
    order, starts = groups(scores)
    hits = np.add.reduceat(true[order].astype(np.float64), starts)
    return hits, np.diff(np.append(starts, order.size)).astype(np.float64)
