"""Checks of shares and confusion tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._arrays import (
    FloatArray,
    as_array,
    check_number,
)
from graphtemper.errors import (
    InputError,
)
from graphtemper.metrics._inputs import SUM_TOLERANCE


def check_confusion(confusion: ArrayLike) -> FloatArray:
    table = as_array(confusion, "confusion")
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise InputError(f"confusion must have shape (K, K) with K >= 2, not {table.shape}.")
    return check_masses(table, "confusion", "divide counts by their total")


def check_shares(values: ArrayLike, name: str, classes: int) -> FloatArray:
    shares = as_array(values, name)
    if shares.shape != (classes,):
        raise InputError(f"{name} must have shape ({classes},), one a class, not {shares.shape}.")
    return check_masses(shares, name, "divide by the sum")


def check_masses(values: NDArray[np.generic], name: str, advice: str) -> FloatArray:
    """Return non-negative finite numbers that sum to 1, without the error of their rounding."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, but its type is {values.dtype}.")
    masses = values.astype(np.float64)
    if not np.isfinite(masses).all():
        raise InputError(f"{name} holds {masses[~np.isfinite(masses)][0]}; it must be finite.")
    if masses.min() < 0.0:
        raise InputError(f"{name} holds {masses.min():g}; it must not be negative.")
    if not abs(masses.sum() - 1.0) <= SUM_TOLERANCE:
        raise InputError(f"{name} sums to {masses.sum():g} instead of 1; {advice}.")
    return np.asarray(masses / masses.sum())


def check_start(start: ArrayLike, known: NDArray[np.bool_]) -> FloatArray:
    first = check_shares(start, "start", len(known))
    if not (first[known] > 0.0).all():
        raise InputError("start must be positive for every class with a positive source share.")
    return np.where(known, first, 0.0)


def check_positive(value: float, name: str) -> float:
    number = check_number(value, name)
    if not 0.0 < number < np.inf:
        raise InputError(f"{name} must be positive and finite, not {number:g}.")
    return number


def check_non_negative(value: float, name: str) -> float:
    number = check_number(value, name)
    if not 0.0 <= number < np.inf:
        raise InputError(f"{name} must be finite and at least 0, not {number:g}.")
    return number


def check_unit(value: float, name: str) -> float:
    number = check_number(value, name)
    if not 0.0 <= number <= 1.0:
        raise InputError(f"{name} must be between 0 and 1, not {number:g}.")
    return number
