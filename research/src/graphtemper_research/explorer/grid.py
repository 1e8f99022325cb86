"""The theory on a grid, which the explorer's page interpolates: no formula is written twice.

A linear model reads a logit as a coefficient times the aggregated feature. The best coefficient of
a graph depends on its homophily, snr and degree, and grows with the snr; the slope is the one that
is right on the target over that of the source. So tables of three variables give every slope. The
page does what `between` does; `TOLERANCE` says how close that is to `graphtemper.theory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import theory

Axes = dict[str, NDArray[np.float64]]
AXES: Axes = {
    "homophily": np.linspace(0.0, 1.0, 41),
    "log snr": np.log(np.geomspace(0.01, 10.0, 10)),
    "log degree": np.log(np.geomspace(4.0, 100.0, 7)),
}
LOGITS: Axes = {"asinh mean": np.linspace(0.0, 6.0, 25), "asinh spread": np.linspace(0.01, 6.0, 25)}
TOLERANCE = {"slope": 0.05, "share": 0.015}
"""Largest errors of slopes, relative where they are above 1, and of accuracies and confidences.

They hold where the target is at most ten times as noisy as the source, and the source not at a zero
crossing.
"""


@cache
def tables() -> Axes:
    """Return each table: an array with one axis per entry of `AXES`, or of `LOGITS`.

    Coefficients are divided by snr and degree, and stored as asinh, in which they bend less.
    """
    h, log_snrs, log_degrees = AXES.values()
    upper = h[h >= 0.5]
    parts: dict[str, list[NDArray[np.float64]]] = {
        name: [] for name in ("limit", "finite", "loop", "limit accuracy", "accuracy", "width")
    }
    for snr, degree in product(np.exp(log_snrs), np.exp(log_degrees)):
        # Class means at +-1, so that the noise shrinks where the snr grows.
        mean, variance = theory.aggregated_moments(h, snr, degree, sigma=1.0 / np.sqrt(snr))
        scale = np.asarray(theory.optimal_scale(upper, snr, degree))
        right = np.asarray(theory.finite_degree_accuracy(upper, snr, degree))
        limit = theory.slope_from_moments(mean, variance) / (2.0 * snr * degree)
        # Below one half, neighbours say the opposite and nothing else changes.
        finite = _mirrored(scale, -1.0) / (2.0 * np.sqrt(snr) * degree)
        # At homophily 1 this coefficient is 1 whatever the snr.
        loop = theory.slope_self_loop(h, 1.0, snr, degree)
        for name, values in (("limit", limit), ("finite", finite), ("loop", loop)):
            parts[name].append(np.arcsinh(SHARP * np.asarray(values)))
        parts["limit accuracy"].append(np.asarray(theory.population_accuracy(mean, variance)))
        parts["accuracy"].append(0.5 + _mirrored(right - 0.5, -1.0))
        parts["width"].append(0.5 * np.log(variance))
    shape = (len(log_snrs), len(log_degrees), len(h))
    found = {name: np.reshape(rows, shape).transpose(2, 0, 1) for name, rows in parts.items()}
    mean, spread = np.meshgrid(*map(np.sinh, LOGITS.values()), indexing="ij")
    gap = np.asarray(theory.population_gap(mean, spread**2))
    return found | {"confidence": gap + np.asarray(theory.population_accuracy(mean, spread**2))}


SHARP = 10.0
"""How much coefficients are stretched before asinh."""


def _mirrored(values: NDArray[np.float64], sign: float) -> NDArray[np.float64]:
    """Return values at homophilies from 0 to 1 from those at 0.5 and above."""
    return np.concatenate([sign * values[:0:-1], values])


def between(table: NDArray[np.float64], axes: Sequence[NDArray[np.float64]], at: Any) -> float:
    """Return a table's value between its points: linear along every axis, constant outside.

    Examples
    --------
    >>> axes = [np.array([0.0, 1.0]), np.array([0.0, 2.0])]
    >>> between(np.array([[0.0, 2.0], [1.0, 3.0]]), axes, (0.5, 1.0))
    1.5
    """
    for axis, value in zip(axes, at, strict=True):
        step = (len(axis) - 1) * (value - axis[0]) / (axis[-1] - axis[0])
        step = min(max(step, 0.0), len(axis) - 1.0)
        low = min(int(step), len(axis) - 2)
        table = table[low] * (1.0 - (step - low)) + table[low + 1] * (step - low)
    return float(table)


def readings(
    h_source: float, snr_source: float, h_target: float, snr_target: float, degree: float
) -> dict[str, float]:
    """Return what the page shows for two graphs of one degree, by interpolation."""
    source, target = (
        {
            name: between(table, list(AXES.values()), (h, np.log(snr), np.log(degree)))
            for name, table in tables().items()
            if name != "confidence"
        }
        for h, snr in ((h_source, snr_source), (h_target, snr_target))
    )
    ratio = snr_target / snr_source
    slopes = {
        name: ratio * float(np.sinh(target[name]) / np.sinh(source[name]))
        for name in ("limit", "finite", "loop")
    }
    # The coefficient of the source, applied to the target: mean and spread of its logits.
    scale = 2.0 * snr_source * degree * abs(np.sinh(source["limit"])) / SHARP
    mean, spread = scale * abs(2.0 * h_target - 1.0), scale * np.exp(target["width"])
    said = between(
        tables()["confidence"], list(LOGITS.values()), (np.arcsinh(mean), np.arcsinh(spread))
    )
    turned = source["limit"] < 0.0
    shares = {
        name: 1.0 - target[name] if turned else target[name]
        for name in ("limit accuracy", "accuracy")
    }
    return slopes | shares | {"confidence": said}
