"""How well confidence ranks errors: the metrics of decisions, where to be right is the class.

Nodes with equal confidence count as their average over all orders.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics
from graphtemper_research.harness.numeric import FloatArray, top_label


def error_auroc(probabilities: FloatArray, labels: NDArray[Any]) -> float | None:
    """Return the probability that a right node is more confident than a wrong one, ties one half.

    None if every node is right, or every node wrong.

    Examples
    --------
    >>> error_auroc([[0.1, 0.9], [0.4, 0.6]], [1, 0])
    1.0
    """
    return metrics.auroc(*_right(probabilities, labels), 1)


def risk_at_coverage(probabilities: FloatArray, labels: NDArray[Any], coverage: float) -> float:
    """Return the error rate of the most confident fraction of the nodes, rounded up.

    Examples
    --------
    >>> risk_at_coverage([[0.1, 0.9], [0.4, 0.6]], [1, 0], 0.5)
    0.0
    """
    columns, right = _right(probabilities, labels)
    # Rounding first: 0.07 * 100 is 7.000000000000001, and selecting 8 nodes would be wrong.
    selected = max(math.ceil(round(coverage * right.size, 9)), 1)
    accurate = metrics.precision_at_k(columns, right, 1, k=selected)
    assert accurate is not None
    return 1.0 - accurate


def _right(probabilities: FloatArray, labels: NDArray[Any]) -> tuple[FloatArray, NDArray[np.intp]]:
    confidence, correct = top_label(probabilities, labels)
    return np.column_stack([1.0 - confidence, confidence]), correct.astype(np.intp)
