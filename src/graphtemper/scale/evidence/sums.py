"""Mergeable sums: the partial results of shards, which add up to those of the graph."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.signals.covariances import Covariance


@dataclass(frozen=True)
class Sums:
    """Numbers and arrays that add up field by field; subclasses define the fields."""

    def __add__(self, other: Self) -> Self:
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return type(self)(**{name: first + second for name, (first, second) in pairs.items()})


def total(parts: list[Any]) -> Any:
    """Add parts in their order, so that the bytes do not depend on the engine.

    Examples
    --------
    >>> total([1, 2, 3])
    6
    """
    return reduce(lambda one, other: one + other, parts)


class RatioSums(NamedTuple):
    """The sums behind `graphtemper.signals.covariances.ratio_of_sums`.

    Examples
    --------
    >>> whole = RatioSums.of(np.array([1.0, 3.0]), np.array([1.0, 1.0])).covariance
    >>> halves = [RatioSums.of(np.array([s]), np.array([1.0])) for s in (1.0, 3.0)]
    >>> total(halves).covariance == whole, whole
    (True, Covariance(value=2.0, error=0.7071067811865476))
    """

    sums: float
    weights: float
    squares: float
    mixed: float
    weight_squares: float

    @classmethod
    def of(cls, sums: FloatArray, weights: FloatArray) -> RatioSums:
        """Add up one product and one weight per node."""
        products = (sums @ sums, sums @ weights, weights @ weights)
        return cls(float(sums.sum()), float(weights.sum()), *map(float, products))

    def __add__(self, other: object) -> RatioSums:  # instead of concatenating tuples
        if not isinstance(other, RatioSums):
            return NotImplemented
        return RatioSums(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def covariance(self) -> Covariance:
        """Sum over weights with its standard error over nodes; zero if all weights are zero."""
        if self.weights <= 0.0:
            return Covariance(0.0, 0.0)
        value = self.sums / self.weights
        rest = self.squares - 2.0 * value * self.mixed + value**2 * self.weight_squares
        if not np.isfinite(rest):
            raise InputError(
                "the model's logits overflow on a part of its input; check the scale of the "
                "features."
            )
        return Covariance(value, float(np.sqrt(max(rest, 0.0))) / self.weights)


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
        mean = rows.mean(axis=0)
        deviation = rows - mean
        return cls(len(rows), mean, deviation.T @ deviation)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        step = other.mean - self.mean
        square = np.outer(step, step) if self.squares.ndim == 2 else step * step
        return Moments(
            count,
            self.mean + step * (other.count / count),
            self.squares + other.squares + square * (self.count * other.count / count),
        )

    @property
    def covariance(self) -> FloatArray:
        """Squared deviations over the count: variances, or the covariance matrix."""
        return self.squares / self.count
