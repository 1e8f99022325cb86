"""Domain checks of the theory's arguments: each returns float64 or raises one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import finite as finite
from graphtemper._core.checks import non_negative as non_negative
from graphtemper._core.checks import plain as plain
from graphtemper._core.checks import require as require
from graphtemper._core.checks import together as together
from graphtemper.errors import IllConditionedWarning

Floats = NDArray[np.float64]

# The slope divides by the source's signal coefficient c. At |c| = 0.05 an error of 0.0025 in the
# source homophily (the standard error on about 10,000 edges is twice that) moves it by 10 %.
ILL_CONDITIONED_SIGNAL = 0.05
# Overflow does not warn here: `plain` turns it into an error.
quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
# Closer than this to the zero crossing, only rounding separates the signal from zero.
_ZERO_SIGNAL = 1e-12


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


def class_count(name: str, value: ArrayLike) -> Floats:
    """Integer numbers of classes, two or more."""
    array = finite(name, value)
    valid = (array >= 2.0) & (array == np.floor(array))
    require(name, array, valid, "an integer of at least 2 classes")
    return array


def one(name: str, array: Floats) -> float:
    """Require a single number."""
    if array.ndim:
        raise errors.range(f"{name} must be one number; call once for each value.")
    return float(array)


def source_signal(coefficient: Floats, crossing: str) -> None:
    """Refuse a source without signal, and warn when its signal is too small to divide by safely."""
    smallest = float(np.min(np.abs(coefficient), initial=np.inf))
    if smallest <= _ZERO_SIGNAL:
        raise errors.range(
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
