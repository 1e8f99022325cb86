"""The one place where metrics check their arguments and read the top label off probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.arrays import SUM_TOLERANCE, FloatArray, check_labels, check_matrix
from graphtemper._core.checks import check_whole
from graphtemper._core.threads import map_blocks
from graphtemper.errors import InputError

# More bins, groups or resamples than this is a slip, and would only fill the memory.
MAX_COUNT = 100_000


def check_pair(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return both as arrays of matching shape; `columns` checks the probabilities' values."""
    p = check_matrix(probabilities, "probabilities")
    return p, check_labels(labels, *p.shape)


def columns(p: NDArray[Any], rows: slice) -> NDArray[Any]:
    """Return the given rows as a checked (K, n) block: short reductions become long vectors."""
    block = np.ascontiguousarray(p[rows].T)
    error = np.abs(block.sum(axis=0) - 1.0)
    # Written so that NaN fails the test too.
    if not (error.max() <= SUM_TOLERANCE and block.min() >= 0.0):
        _raise_bad_row(block, rows.start)
    return block


def confidence_and_correct(
    block: NDArray[Any], labels: NDArray[np.intp]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Largest probability, and whether the first class that attains it is the label."""
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
    p, y = check_pair(probabilities, labels)
    confidence = np.empty(len(p))
    correct = np.empty(len(p), dtype=np.bool_)

    def write(rows: slice) -> None:
        confidence[rows], correct[rows] = confidence_and_correct(columns(p, rows), y[rows])

    map_blocks(write, *p.shape)
    return confidence, correct


def check_count(value: int, name: str) -> int:
    """Return a positive whole number of at most `MAX_COUNT`, or say what was passed instead."""
    return check_whole(value, name, 1, MAX_COUNT)


def _raise_bad_row(block: NDArray[Any], first_row: int) -> None:
    error = np.abs(block.sum(axis=0) - 1.0)
    bad = ~((error <= SUM_TOLERANCE) & (block.min(axis=0) >= 0.0))
    row = int(np.argmax(bad))
    values = block[:, row]
    name = f"probabilities[{first_row + row}]"
    if not np.isfinite(values).all():
        raise InputError(f"{name} holds {values[~np.isfinite(values)][0]}; it must be finite.")
    if values.min() < 0.0:
        raise InputError(
            f"{name} holds {values.min():g}, which is negative; "
            "turn logits into probabilities with temperature.apply first."
        )
    raise InputError(
        f"{name} sums to {values.sum():g} instead of 1; "
        "turn logits into probabilities with temperature.apply first."
    )
