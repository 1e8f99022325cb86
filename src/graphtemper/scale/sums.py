"""Mergeable sums: the partial results of files, which add up to those of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import map_blocks


def total(parts: Iterable[Any]) -> Any:
    """Add parts in their order, so that the bytes do not depend on the engine.

    Examples
    --------
    >>> total([1, 2, 3])
    6
    """
    return reduce(add, parts)


def distinct(*parts: NDArray[Any]) -> NDArray[Any]:
    """Return the different numbers of some arrays, sorted, much faster than `numpy.union1d`.

    Examples
    --------
    >>> distinct(np.array([3, 1]), np.array([1]))
    array([1, 3])
    """
    return np.unique(np.concatenate(parts), return_counts=True)[0]  # which sorts, and hashes not


def limit(share: float) -> np.uint64:
    """Return the number that a share of all 64-bit numbers do not exceed.

    Examples
    --------
    >>> int(limit(0.25)) == 2**62
    True
    """
    return np.uint64(min(share * 2.0**64, 2**64 - 2**11))


@dataclass(frozen=True)
class Moments:
    """Count, mean and squared deviations of columns; a matrix of them for the covariance.

    Merged by the formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm
    for computing sample variances", 1979), which does not lose digits to a large mean.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal((100, 3)) + 1e6
    >>> merged = Moments.of(x[:30]) + Moments.of(x[30:])
    >>> bool(np.allclose(merged.covariance, np.cov(x.T, bias=True), rtol=1e-6, atol=1e-9))
    True
    """

    count: int
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Moments:
        """Return the moments of rows (n, C), with the covariance of all pairs of columns."""
        share = np.full(len(rows), 1.0 / len(rows))
        mean = share @ rows

        def part(some: slice) -> FloatArray:
            deviation = rows[some] - mean
            return np.asarray(deviation.T @ deviation)

        return cls(len(rows), mean, total(map_blocks(part, *rows.shape)))

    def __add__(self, other: Moments) -> Moments:
        count, step = self.count + other.count, other.mean - self.mean
        square = step[:, None] * step if self.squares.ndim == 2 else step * step
        squares = self.squares + other.squares + square * (self.count * other.count / count)
        return Moments(count, self.mean + step * (other.count / count), squares)

    @property
    def covariance(self) -> FloatArray:
        """Squared deviations over the count: variances, or the covariance matrix."""
        return self.squares / self.count
