"""Rounding: no number of a card is more precise than the sample behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray

# Smallest multiple that counts are rounded to.
_BASE = 3


def coarse(value: FloatArray | float, error: FloatArray | float) -> FloatArray:
    """Round values to multiples of a power of two between half their standard error and all of it.

    Values without an error stay as they are.

    Examples
    --------
    >>> float(coarse(0.8123, 0.02)), float(coarse(0.8123, 0.0))
    (0.8125, 0.8123)
    """
    size = np.asarray(error, dtype=np.float64)
    exponent = np.floor(np.log2(size, where=size > 0.0, out=np.zeros_like(size)))
    grid = np.where(size > 0.0, np.exp2(exponent), 1.0)
    return np.where(size > 0.0, np.round(np.asarray(value) / grid) * grid, value)


def coarse_share(share: FloatArray | float, count: int) -> FloatArray:
    """Round fractions of ``count`` nodes by their sampling error.

    Examples
    --------
    >>> float(coarse_share(0.8123, 300)), float(coarse_share(1.0, 300))
    (0.8125, 1.0)
    """
    p = np.clip(share, 1.0 / count, 1.0 - 1.0 / count)
    return np.clip(coarse(share, np.sqrt(p * (1.0 - p) / count)), 0.0, 1.0)


def coarse_shares(shares: FloatArray, count: int) -> FloatArray:
    """Round fractions that sum to one; they still do."""
    rounded = coarse_share(shares, count)
    return np.asarray(rounded / rounded.sum()) if rounded.sum() > 0.0 else shares


def coarse_log(value: float, count: int) -> float:
    """Round a positive number relative to its size, by one over the root of ``count``."""
    return float(np.exp(coarse(np.log(value), 1.0 / np.sqrt(count)))) if value > 0.0 else value


def coarse_quantile(values: FloatArray, exact: float, level: float) -> float:
    """Round a quantile of the values by its standard error, so that it is no node's value.

    Where values are skewed, half the distance between the quantiles one standard error away is more
    than the distance to the nearer one. The grid is then finer, so that the result stays between
    them.

    Examples
    --------
    >>> scores = np.r_[np.linspace(0.0, 0.9, 45), np.linspace(0.95, 0.96, 5)]
    >>> bool(coarse_quantile(scores, 0.958, 0.98) <= scores.max())
    True
    """
    error = float(np.sqrt(max(level * (1.0 - level), 1.0 / values.size) / values.size))
    low, high = np.quantile(values, np.clip([level - error, level + error], 0.0, 1.0)).tolist()
    grid = 0.5 * (high - low)
    rounded = float(coarse(exact, grid))
    while low <= exact <= high and not low <= rounded <= high:
        grid *= 0.5
        rounded = float(coarse(exact, grid))
    return rounded


def coarse_signals(values: dict[str, float], count: int) -> dict[str, float]:
    """Round signals, which are log-odds or logarithms with errors of at least one over root n."""
    return {name: float(coarse(item, 1.0 / np.sqrt(count))) for name, item in values.items()}


def rounded_counts(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Round counts at random to multiples of three, or of the root of larger ones, without bias.

    Statistical offices publish tables of small counts in this way.

    Examples
    --------
    >>> counts = rounded_counts(np.full(30_000, 4), np.random.default_rng(0))
    >>> np.unique(counts).tolist(), round(float(counts.mean()), 1)
    ([3, 6], 4.0)
    """
    base = _base(counts)
    whole, rest = np.divmod(counts, base)
    return np.asarray(base * (whole + (rng.random(counts.shape) * base < rest)), dtype=np.int64)


def rounding_variance(counts: NDArray[np.int64]) -> FloatArray:
    """Return the variance that `rounded_counts` has added to each of the rounded counts.

    A remainder r of a multiple of b has variance r (b - r), on average (b^2 - 1) / 6. Where most
    cells are empty this would be too much, because a count of zero is not changed. A rare node
    becomes three with probability one third and has variance 2, so that five times the share of
    threes among zeros and threes estimates their variance.

    Examples
    --------
    >>> exact = np.random.default_rng(0).poisson(0.3, 20_000)
    >>> stored = rounded_counts(exact, np.random.default_rng(1))
    >>> bool(abs(rounding_variance(stored).mean() / ((stored - exact) ** 2).mean() - 1) < 0.05)
    True
    """
    variance = (_base(counts) ** 2 - 1) / 6.0
    few = counts <= _BASE
    threes, size = int((counts == _BASE).sum()), int(few.sum())
    variance[few] = min(5.0 * threes / max(size, 1), (_BASE**2 - 1) / 6.0)
    return np.asarray(variance)


def _base(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(np.floor(np.sqrt(counts)).astype(np.int64), _BASE)


def num_scored(num_nodes: int) -> int:
    """Return how many of n labelled nodes an environment's accuracy is counted on."""
    return 2 * num_nodes // 3
