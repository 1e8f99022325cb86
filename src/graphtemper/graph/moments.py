"""Means and standard deviations of feature columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.checks import Features

# Entries per block of rows. The random numbers that a seed gives depend on it.
BLOCK_ELEMENTS = 1 << 20


def column_moments(features: Features) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (divisor N) of each column, in float64.

    Examples
    --------
    >>> mean, std = column_moments(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), std.tolist()
    ([1.0, 1.0], [1.0, 0.0])
    """
    count, width = features.shape
    if not isinstance(features, np.ndarray):
        column, values = features.indices, features.data.astype(np.float64)
        mean = np.bincount(column, values, minlength=width) / count
        stored = np.bincount(column, minlength=width)
        squares = np.bincount(column, (values - mean[column]) ** 2, minlength=width)
        # Zeros that are not stored deviate by the mean.
        return mean, np.sqrt((squares + (count - stored) * mean**2) / count)
    mean = np.asarray(features.mean(axis=0, dtype=np.float64))
    total = np.zeros(width)
    near = mean.astype(features.dtype)
    for rows in row_blocks(count, width):
        deviation = features[rows] - near
        total += np.square(deviation, dtype=np.float64).sum(axis=0)
    # The deviations are from the mean rounded to the precision of the features.
    return mean, np.sqrt(np.maximum(total / count - (mean - near) ** 2, 0.0))


def row_blocks(count: int, width: int) -> Iterator[slice]:
    """Yield slices of rows with about `BLOCK_ELEMENTS` entries each."""
    size = max(BLOCK_ELEMENTS // width, 1)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
