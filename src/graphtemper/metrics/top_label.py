"""Confidence and correctness of the top label of every node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.checks import FloatArray, check_pair, probability_columns
from graphtemper._core.reproducible import map_blocks


def confidence_and_correct(
    block: NDArray[Any], labels: NDArray[np.intp]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the largest probability, and whether the first class that attains it is the label."""
    top = block.max(axis=0)
    n = len(top)
    is_top = block == top
    if np.count_nonzero(is_top) == n:  # no ties: the label is the argmax iff it attains the top
        correct = is_top.ravel().take(labels * n + np.arange(n))
    else:
        correct = block.argmax(axis=0) == labels
    return np.minimum(top, 1.0).astype(np.float64, copy=False), correct


def top_label(probabilities: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return confidence (n,) and correctness (n,) of the predicted class of every node."""
    p, y = check_pair(probabilities, labels, "probabilities")
    confidence = np.empty(len(p))
    correct = np.empty(len(p), dtype=np.bool_)

    def write(rows: slice) -> None:
        confidence[rows], correct[rows] = confidence_and_correct(
            probability_columns(p, rows), y[rows]
        )

    map_blocks(write, *p.shape)
    return confidence, correct
