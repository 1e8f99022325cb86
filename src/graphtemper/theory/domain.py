"""Domain checks of the theory's arguments: each returns float64 or raises one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper.errors import IllConditionedWarning, InputError

Floats = NDArray[np.float64]

# The slope divides by the source's signal coefficient c. At |c| = 0.05 an error of 0.0025 in the
# source homophily (the standard error on about 10,000 edges is twice that) moves it by 10 %.
ILL_CONDITIONED_SIGNAL = 0.05
# Overflow does not warn here: `plain` turns it into an error.
quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
# Closer than this to the zero crossing, only rounding separates the signal from zero.
_ZERO_SIGNAL = 1e-12


def finite(name: str, value: ArrayLike) -> Floats:
    """Real numbers without NaN or infinity."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be a number or an array of numbers; got {value!r}."
        ) from error
    require(name, array, np.isfinite(array), "a finite number")
    return array


def homophily(name: str, value: ArrayLike) -> Floats:
    """Fractions of same-class neighbours."""
    array = finite(name, value)
    require(name, array, (array >= 0.0) & (array <= 1.0), "between 0 and 1 (an edge homophily)")
    return array


def positive(name: str, value: ArrayLike) -> Floats:
    """Strictly positive numbers."""
    array = finite(name, value)
    require(name, array, array > 0.0, "greater than 0")
    return array


def non_negative(name: str, value: ArrayLike) -> Floats:
    """Numbers that are at least zero."""
    array = finite(name, value)
    require(name, array, array >= 0.0, "at least 0")
    return array


def class_count(name: str, value: ArrayLike) -> Floats:
    """Integer numbers of classes, two or more."""
    array = finite(name, value)
    valid = (array >= 2.0) & (array == np.floor(array))
    require(name, array, valid, "an integer of at least 2 classes")
    return array


def one(name: str, array: Floats) -> float:
    """Require a single number."""
    if array.ndim:
        raise InputError(f"{name} must be one number; call once for each value.")
    return float(array)


def together(**arrays: Floats) -> None:
    """Require shapes that broadcast to one."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"The arguments' shapes do not fit together ({shapes}); use equal or broadcastable "
            "shapes."
        ) from error


def require(name: str, array: Floats, valid: NDArray[np.bool_], condition: str) -> None:
    """Raise for the first entry of ``array`` that is not valid."""
    if not np.all(valid):
        bad = array[~valid].flat[0]
        raise InputError(f"{name} must be {condition}; got {bad:g}.")


def source_signal(coefficient: Floats, crossing: str) -> None:
    """Refuse a source without signal, and warn when its signal is too small to divide by safely."""
    smallest = float(np.min(np.abs(coefficient), initial=np.inf))
    if smallest <= _ZERO_SIGNAL:
        raise InputError(
            f"h_source must differ from {crossing}: there the source's aggregated signal is zero "
            "and no source calibration exists; use a source graph with another homophily."
        )
    if smallest < ILL_CONDITIONED_SIGNAL:
        warnings.warn(
            f"h_source is close to {crossing} (signal coefficient {smallest:.3g}, below "
            f"{ILL_CONDITIONED_SIGNAL}): a small error in h_source moves the slope by a large "
            "factor.",
            IllConditionedWarning,
            # Past this function, the one that called it, and the next (or its `quiet` wrapper).
            stacklevel=4,
        )


def plain(result: Floats) -> float | Floats:
    """Scalars in, float out; arrays in, array out; never NaN or infinity."""
    if not np.all(np.isfinite(result)):
        raise InputError(
            "The result is outside the range of double precision; use less extreme arguments."
        )
    return float(result) if np.ndim(result) == 0 else result
