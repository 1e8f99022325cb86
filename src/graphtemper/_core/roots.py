"""One-dimensional convex minimisation by its first-order condition: Newton inside a bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from graphtemper.errors import NotIdentifiableError

Floats = NDArray[np.float64]

# Roots are looked for up to this multiple of the start.
_LARGEST = 1e12


def increasing_root(
    evaluate: Callable[[float], tuple[float, float]], start: float, *, tolerance: float = 1e-12
) -> float:
    """Root of an increasing function given as value and derivative.

    Newton's step is taken while it stays inside the bracket, bisection otherwise, so the iteration
    cannot diverge; ``start`` also sets the unit of the tolerance. Without a root (the loss falls
    for ever) it raises `NotIdentifiableError`.
    """
    low, high = -np.inf, np.inf
    unit = abs(start) or 1.0
    point, reach = start, unit
    for iteration in range(200):
        value, derivative = evaluate(point)
        if value == 0.0:
            return point
        if value > 0.0:
            high = point
        else:
            low = point
        step = -value / derivative if derivative > 0.0 else np.inf
        proposal = point + step
        # Where the function decays like an exponential, Newton's steps are all alike and short.
        slow = iteration > 10 and iteration % 4 == 0
        if abs(step) <= tolerance * max(abs(point), 1e-8 * unit):
            return proposal
        if np.isfinite(low) and np.isfinite(high):
            if slow or not low < proposal < high:
                proposal = 0.5 * (low + high)
        elif slow or abs(step) > reach:
            # One side is still open: walk there, twice as far each time, until the sign changes.
            proposal = point - np.copysign(reach, value)
            reach *= 2.0
        if abs(proposal - point) <= tolerance * max(abs(point), 1e-8 * unit):
            return proposal
        if abs(proposal) > _LARGEST * unit:
            break
        point = proposal
    raise NotIdentifiableError(
        "No finite temperature minimises the NLL: the loss keeps falling as the scale grows."
    )


def binary_scale(values: Floats, posterior: Floats | float, weights: Floats) -> float:
    """Scale s that minimises the weighted NLL of sigmoid(s values) for soft binary labels.

    The first-order condition is sum w x (sigmoid(s x) - q) = 0, increasing in s.
    """

    def condition(scale: float) -> tuple[float, float]:
        # p - q as (1 - q) p - q (1 - p): where nearly all labels are 1, p - 1 would be rounding.
        right, wrong = expit(scale * values), expit(-scale * values)
        first = weights * values
        gradient = float(np.dot(first, (1.0 - posterior) * right - posterior * wrong))
        curvature = float(np.dot(first * values, right * wrong))
        return gradient, curvature

    spread = float(np.dot(weights, values**2) / np.sum(weights))
    return increasing_root(condition, 0.0 if spread == 0.0 else 0.5 / np.sqrt(spread))
