"""Roots of increasing functions, and log-odds.

There are two solvers because the temperature has two natural axes. `bounded_root` works on
log(1/T), where all T are positive, and takes third-order steps inside a bracket that shrinks: 3 to
4 evaluations, each a pass over all logits, where Newton's method needs 5 to 6. `increasing_root`
works on 1/T itself, which the theory needs because a population that is wrong more often than right
has a negative optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from graphtemper._core.checks import FloatArray
from graphtemper.errors import NotIdentifiableError

Floats = NDArray[np.float64]

# `increasing_root` searches up to this multiple of the start.
_LARGEST = 1e12
MAX_STEPS = 200


def increasing_root(evaluate: Callable[[float], float], unit: float) -> float:
    """Return the root of an increasing function to a relative error of about 1e-12.

    Steps of growing length, from ``unit`` on, find the change of sign. Without a root (the loss
    keeps falling) it raises `NotIdentifiableError`.
    """
    low, high, stride = 0.0, 0.0, unit
    while (above := evaluate(low) > 0.0) or evaluate(high) < 0.0:
        if stride > _LARGEST * unit:
            raise NotIdentifiableError(
                "No finite temperature minimises the NLL: the loss keeps falling as the scale "
                "grows."
            )
        low, high = (low - stride, low) if above else (high, high + stride)
        stride *= 2.0
    return low if low == high else float(brentq(evaluate, low, high, xtol=1e-14 * unit))


def binary_scale(values: Floats, posterior: Floats | float, weights: Floats) -> float:
    """Return the scale s that minimises the weighted NLL of sigmoid(s values), soft binary labels.

    The first-order condition is sum w x (sigmoid(s x) - q) = 0, increasing in s.
    """

    def condition(scale: float) -> float:
        # p - q as (1 - q) p - q (1 - p): where nearly all labels are 1, p - 1 would be rounding.
        right, wrong = expit(scale * values), expit(-scale * values)
        return float(np.dot(weights * values, (1.0 - posterior) * right - posterior * wrong))

    spread = float(np.dot(weights, values**2) / np.sum(weights))
    return increasing_root(condition, 1.0 if spread == 0.0 else 0.5 / np.sqrt(spread))


class Derivatives(NamedTuple):
    """A function of x and its first two derivatives, times one common positive factor."""

    value: float
    slope: float
    bend: float


def bounded_root(
    function: Callable[[float], Derivatives],
    start: float,
    bounds: tuple[float, float],
    tolerance: float,
) -> tuple[float, int, bool]:
    """Return the zero of an increasing function: Halley steps, kept inside a shrinking bracket.

    The result is the point, the number of evaluations, and False if the function keeps one sign up
    to a bound (then the point is that bound). ``tolerance`` bounds the error in x, estimated from
    the difference between the second-order and the third-order step.
    """
    low, high = bounds
    x = min(max(start, low), high)
    previous, stride = inf, 2.0
    for step_count in range(1, MAX_STEPS + 1):
        value, slope, bend = function(x)
        if value == 0.0:
            return x, step_count, True
        if (value < 0.0 and x == bounds[1]) or (value > 0.0 and x == bounds[0]):
            return x, step_count, False
        if value < 0.0:
            low = x
        else:
            high = x
        newton, halley = _steps(value, slope, bend)
        # Products, not powers: a float power that overflows raises, a product is inf.
        error = (newton - halley) * (newton - halley) / max(abs(halley), 1e-300)
        if max(error, abs(halley * halley * halley)) < tolerance and low <= x + halley <= high:
            return x + halley, step_count, True
        # A step that leaves the bracket, or is not at most half the previous one, is rejected:
        # move towards a bound that was never evaluated by growing strides, or bisect.
        step = halley
        if not (low < x + step < high) or abs(step) > 0.5 * previous:
            step = _safe_step(x, low, high, bounds, stride)
            stride *= 2.0
        previous = abs(step)
        if x + step == x:
            return x, step_count, True
        x += step
    return x, MAX_STEPS, True


def _steps(value: float, slope: float, bend: float) -> tuple[float, float]:
    if not slope > 0.0:  # flat to rounding: no information, let the bracket decide
        return (inf, inf) if value < 0.0 else (-inf, -inf)
    newton = -value / slope
    denominator = 1.0 + 0.5 * newton * bend / slope
    return newton, newton / denominator if denominator > 0.5 else newton


def _safe_step(
    x: float, low: float, high: float, bounds: tuple[float, float], stride: float
) -> float:
    if x == low and high == bounds[1]:
        return min(stride, high - x)
    if x == high and low == bounds[0]:
        return max(-stride, low - x)
    return 0.5 * (low + high) - x


# Fractions are clipped to this range; a finite sample does not distinguish values beyond it.
RANGE = (1e-4, 1.0 - 1e-4)


def log_odds(fraction: float | None) -> float:
    """Return log(a / (1 - a)) of a fraction clipped to `RANGE`; None counts as 1/2.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    value = float(np.clip(0.5 if fraction is None else fraction, *RANGE))
    return float(np.log(value / (1.0 - value)))


def log_odds_variance(share: FloatArray | float, num_nodes: float) -> FloatArray:
    """Return the sampling variance of the log-odds of a share that is counted on n nodes.

    Examples
    --------
    >>> float(log_odds_variance(0.5, 100))
    0.04
    """
    p = np.asarray(share)
    return np.asarray(1.0 / (num_nodes * np.maximum(p * (1.0 - p), min(0.01, 0.5 / num_nodes))))


def to_share(log_odds: float) -> float:
    """Return the fraction with these log-odds.

    Examples
    --------
    >>> to_share(0.0)
    0.5
    """
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def normal_quantile(level: float) -> float:
    """Return the half-width, in standard deviations, of a central interval of a normal."""
    return float(ndtri(0.5 + 0.5 * level))
