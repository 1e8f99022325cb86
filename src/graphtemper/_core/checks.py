"""Checks of single arguments: each returns the value, or raises one clear sentence."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from graphtemper.errors import InputError


def check_number(value: Any, name: str) -> float:
    """Return one real number, possibly infinite or NaN, as a float.

    Examples
    --------
    >>> check_number("2", "tol")
    Traceback (most recent call last):
    graphtemper.errors.InputError: tol must be a real number, not '2'.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a real number, not {_short(value)}.")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{name} is too large for float64, not a usable number.") from error


def check_whole(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return a whole number in ``least ... most``.

    Examples
    --------
    >>> check_whole(2.5, "hops", 0)
    Traceback (most recent call last):
    graphtemper.errors.InputError: hops must be a whole number of at least 0, not 2.5.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and value >= least and (most is None or value <= most):
        return int(value)
    limit = "" if most is None else f" and at most {most}"
    raise InputError(
        f"{name} must be a whole number of at least {least}{limit}, not {_short(value)}."
    )


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


def check_instance(value: Any, kind: type, name: str, call: str) -> None:
    """Refuse a value of another type; ``call`` shows the order of the arguments.

    Examples
    --------
    >>> check_instance([1], dict, "card", "follow(predictor, snapshots, card, log)")
    Traceback (most recent call last):
    graphtemper.errors.InputError: card must be a dict, not a list; \
call follow(predictor, snapshots, card, log).
    """
    if not isinstance(value, kind):
        raise InputError(
            f"{name} must be a {kind.__name__}, not a {type(value).__name__}; call {call}."
        )


def _short(value: Any) -> str:
    # One line of bounded length: the value may be an array or a whole file's text.
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # an integer too long to print
        words = "a very large number"
    return words if len(words) <= 60 else words[:57] + "..."
