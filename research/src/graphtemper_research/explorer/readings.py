"""Every number that the explorer shows for one state, from the library's public functions.

The page computes the same in JavaScript (`readings.js`); tests compare the two. Added noise
gamma on the target is expressed through the functions that exist: the target's features keep their
means, so their noise is sqrt(1 + gamma) and their snr is divided by 1 + gamma. In the Gaussian
model homophily and noise act one after the other: slope = slope x slope_covariate(h_t).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from graphtemper import errors, theory
from graphtemper._core.checks import check_integer, check_number
from graphtemper.errors import GraphTemperError, IllConditionedWarning
from graphtemper.theory import domain, finite_degree


@dataclass(frozen=True)
class Bounds:
    """The range of one slider."""

    least: float
    most: float


BOUNDS = {
    "h_source": Bounds(0.0, 1.0),
    "h_target": Bounds(0.0, 1.0),
    "snr": Bounds(0.01, 10.0),
    "degree": Bounds(1.0, 100.0),
    "num_classes": Bounds(2, 20),
    "gamma": Bounds(0.0, 10.0),
}


@dataclass(frozen=True)
class State:
    """The values of the six sliders; values outside `BOUNDS` raise `InputError`.

    Examples
    --------
    >>> State(h_target=0.65).degree
    25.0
    """

    h_source: float = 0.8
    h_target: float = 0.6
    snr: float = 1.0
    degree: float = 25.0
    num_classes: int = 2
    gamma: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, bounds = getattr(self, field.name), BOUNDS[field.name]
            if field.name == "num_classes":
                check_integer(value, field.name, int(bounds.least), int(bounds.most))
                continue
            number = check_number(value, field.name)
            if not bounds.least <= number <= bounds.most:
                raise errors.range(
                    f"{field.name} must be between {bounds.least:g} and {bounds.most:g}, "
                    f"not {number:g}."
                )
            object.__setattr__(self, field.name, number)


def readings(state: State) -> dict[str, Any]:
    """Return every number that the page shows, by name; None where a quantity does not exist.

    Examples
    --------
    >>> values = readings(State(h_target=0.6))
    >>> round(values["slope"], 4), round(values["temperature"], 4), values["direction"]
    (0.2789, 3.5854, 'over-confident')
    >>> readings(State(h_source=0.5))["slope"] is None
    True
    """
    with warnings.catch_warnings():
        # The page shows ``ill_conditioned`` instead.
        warnings.simplefilter("ignore", IllConditionedWarning)
        return _limit(state) | _finite(state)


def _limit(state: State) -> dict[str, Any]:
    """Compute the closed forms, and the Gaussian model by quadrature."""
    h_target, h_source, snr, degree = state.h_target, state.h_source, state.snr, state.degree
    slope = _maybe(
        lambda: (
            theory.slope(h_target, h_source, snr)
            * theory.slope_covariate(h_target, snr, state.gamma)
        )
    )
    # With a self-loop, feature noise has weight 1 + 1/d relative to the labels' randomness.
    joined = snr * degree / (degree + 1.0)
    slope_self_loop = _maybe(
        lambda: (
            theory.slope_self_loop(h_target, h_source, snr, degree)
            * theory.slope_covariate(h_target, joined, state.gamma)
        )
    )
    values: dict[str, Any] = {
        "slope": slope,
        "temperature": _temperature(slope),
        "direction": _direction(slope),
        "slope_self_loop": slope_self_loop,
        "temperature_self_loop": _temperature(slope_self_loop),
        "self_loop_zero_crossing": theory.self_loop_zero_crossing(degree),
        "slope_limit_low_snr": _maybe(lambda: theory.slope_limit_low_snr(h_target, h_source)),
        "slope_limit_high_snr": _maybe(lambda: theory.slope_limit_high_snr(h_target, h_source)),
        "signal_source": theory.signal_coefficient(h_source, state.num_classes),
        "signal_target": theory.signal_coefficient(h_target, state.num_classes),
        "signal_ratio": _maybe(lambda: theory.signal_ratio(h_target, h_source, state.num_classes)),
        "ill_conditioned": abs(2.0 * h_source - 1.0) < domain.ILL_CONDITIONED_SIGNAL,
    }
    names = ("accuracy", "mean_confidence", "ece", "mean_abs_logit", "ece_bound")
    if slope is None:
        return values | dict.fromkeys(names)
    mean, variance = (float(moment) for moment in _logit_moments(state))
    accuracy = float(theory.population_accuracy(mean, variance))
    size = float(theory.mean_abs_logit(mean, variance))
    population = (
        accuracy,
        accuracy + float(theory.population_gap(mean, variance)),
        float(theory.population_ece(mean, variance)),
        size,
        float(theory.ece_bound(slope, size)),
    )
    return values | dict(zip(names, population, strict=True))


def _logit_moments(state: State) -> tuple[float, float]:
    """Return mean and variance of source-calibrated logits on the target, given class +1."""
    source = theory.aggregated_moments(state.h_source, state.snr, state.degree)
    mean, variance = theory.aggregated_moments(
        state.h_target,
        state.snr / (1.0 + state.gamma),
        state.degree,
        sigma=math.sqrt(1.0 + state.gamma),
    )
    scale = float(theory.slope_from_moments(*source))
    return scale * float(mean), scale**2 * float(variance)


def _finite(state: State) -> dict[str, Any]:
    """Compute the same without the large-degree limit, for Poisson degrees."""
    slope = _maybe(lambda: _finite_slope(state, self_loop=False))
    loops = _maybe(lambda: _finite_slope(state, self_loop=True))
    values: dict[str, Any] = {
        "finite_slope": slope,
        "finite_temperature": _temperature(slope),
        "finite_slope_self_loop": loops,
        "finite_temperature_self_loop": _temperature(loops),
    }
    if slope is None:
        return values | {"finite_accuracy": None, "finite_ece": None}
    snr = state.snr / (1.0 + state.gamma)
    right = float(finite_degree.finite_degree_accuracy(state.h_target, snr, state.degree))
    source = float(finite_degree.optimal_scale(state.h_source, state.snr, state.degree))
    # `finite_degree_ece` calibrates at the target's snr; this temperature turns that scale into the
    # source's, in units of the target's noise.
    there = float(finite_degree.optimal_scale(state.h_source, snr, state.degree))
    undo = there / (source * math.sqrt(1.0 + state.gamma))
    return values | {
        "finite_accuracy": right if source > 0.0 else 1.0 - right,
        "finite_ece": finite_degree.finite_degree_ece(
            state.h_target, state.h_source, snr, state.degree, temperature=undo
        ),
    }


def _finite_slope(state: State, *, self_loop: bool) -> float:
    if not self_loop:
        theory.slope(state.h_target, state.h_source, state.snr)  # refuses a source without signal
    source, target = (
        float(finite_degree.optimal_scale(h, snr, state.degree, self_loop=self_loop))
        for h, snr in (
            (state.h_source, state.snr),
            (state.h_target, state.snr / (1.0 + state.gamma)),
        )
    )
    if source == 0.0:
        raise errors.range("h_source lies on the zero crossing; use another homophily.")
    return target / math.sqrt(1.0 + state.gamma) / source


def _temperature(slope: float | None) -> float | None:
    return None if slope is None or slope <= 0.0 else float(theory.optimal_temperature(slope))


def _maybe(compute: Callable[[], Any]) -> float | None:
    """Return a number, or None where it is not defined."""
    try:
        return float(compute())
    except GraphTemperError:
        return None


def _direction(slope: float | None) -> str | None:
    """Return what a slope means, or None without one."""
    if slope is None or abs(slope - 1.0) <= 1e-9:
        return None if slope is None else "calibrated"
    return "over-confident" if slope < 1.0 else "under-confident"
