"""Rounding: no number of a card is more precise than the sample behind it."""

from __future__ import annotations

import numpy as np

from graphtemper._core.arrays import FloatArray


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
    """Round a quantile of the values by its standard error, so that it is no node's value."""
    error = float(np.sqrt(max(level * (1.0 - level), 1.0 / values.size) / values.size))
    ends = np.quantile(values, np.clip([level - error, level + error], 0.0, 1.0))
    return float(coarse(exact, 0.5 * float(ends[1] - ends[0])))


def coarse_signals(values: dict[str, float], count: int) -> dict[str, float]:
    """Round signals, which are log-odds or logarithms with errors of at least one over root n."""
    return {name: float(coarse(item, 1.0 / np.sqrt(count))) for name, item in values.items()}
