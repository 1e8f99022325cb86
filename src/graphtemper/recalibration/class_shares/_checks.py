"""Checks of shares and confusion tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.arrays import FloatArray, as_array, check_masses, check_shares
from graphtemper.errors import InputError


def check_confusion(confusion: ArrayLike) -> FloatArray:
    table = as_array(confusion, "confusion")
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise InputError(f"confusion must have shape (K, K) with K >= 2, not {table.shape}.")
    return check_masses(table, "confusion", "divide counts by their total")


def check_start(start: ArrayLike, known: NDArray[np.bool_]) -> FloatArray:
    first = check_shares(start, "start", len(known))
    if not (first[known] > 0.0).all():
        raise InputError("start must be positive for every class with a positive source share.")
    return np.where(known, first, 0.0)
