"""Checks of single arguments: each returns the value, or raises an `InputError` of one sentence."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from graphtemper.errors import InputError

Choice = TypeVar("Choice")

# More bins, groups or resamples than this is a mistake, and would only fill the memory.
MAX_COUNT = 100_000


def check_number(value: Any, name: str) -> float:
    """Return a real number, possibly infinite or NaN, as a float.

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
        raise InputError(f"{name} is too large for float64; pass a smaller number.") from error


def check_integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return an integer in ``least ... most``.

    Examples
    --------
    >>> check_integer(2.5, "hops", 0)
    Traceback (most recent call last):
    graphtemper.errors.InputError: hops must be an integer of at least 0, not 2.5.
    """
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if integer and value >= least and (most is None or value <= most):
        return int(value)
    limit = "" if most is None else f" and at most {most}"
    raise InputError(f"{name} must be an integer of at least {least}{limit}, not {_short(value)}.")


def check_count(value: int, name: str) -> int:
    """Return a positive integer of at most `MAX_COUNT`."""
    return check_integer(value, name, 1, MAX_COUNT)


def check_positive(value: float, name: str) -> float:
    """Return a finite number above 0.

    Examples
    --------
    >>> check_positive(-1.0, "lr")
    Traceback (most recent call last):
    graphtemper.errors.InputError: lr must be positive and finite, not -1.
    """
    number = check_number(value, name)
    if not 0.0 < number < np.inf:
        raise InputError(f"{name} must be positive and finite, not {number:g}.")
    return number


def check_non_negative(value: float, name: str) -> float:
    """Return a finite number of at least 0."""
    return check_at_least(value, name, 0.0)


def check_at_least(value: float, name: str, least: float) -> float:
    """Return a finite number of at least ``least``.

    Examples
    --------
    >>> check_at_least(0.5, "floor", 1.0)
    Traceback (most recent call last):
    graphtemper.errors.InputError: floor must be finite and at least 1, not 0.5.
    """
    number = check_number(value, name)
    if not least <= number < np.inf:
        raise InputError(f"{name} must be finite and at least {least:g}, not {number:g}.")
    return number


def check_unit(value: float, name: str) -> float:
    """Return a number in [0, 1]."""
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
    if isinstance(value, kind):
        return
    advice = f"call {call}"
    if isinstance(value, str | os.PathLike) and hasattr(kind, "load"):
        advice = f"{kind.__name__}.load(path) reads a file"
    raise InputError(f"{name} must be a {kind.__name__}, not a {type(value).__name__}; {advice}.")


def check_fraction(value: float, name: str) -> float:
    """Return a number in [0, 1), such as the fraction of units that dropout removes.

    Examples
    --------
    >>> check_fraction(1.0, "dropout")
    Traceback (most recent call last):
    graphtemper.errors.InputError: dropout must be at least 0 and below 1, not 1.
    """
    number = check_number(value, name)
    if not 0.0 <= number < 1.0:
        raise InputError(f"{name} must be at least 0 and below 1, not {number:g}.")
    return number


def check_level(level: float) -> float:
    """Return the level of an interval or of a coverage, strictly between 0 and 1.

    Examples
    --------
    >>> check_level(90)
    Traceback (most recent call last):
    graphtemper.errors.InputError: level must lie strictly between 0 and 1, not 90.
    """
    number = check_number(level, "level")
    if not 0.0 < number < 1.0:
        raise InputError(f"level must lie strictly between 0 and 1, not {number:g}.")
    return number


def checked_level(family: str, level: float, low: float, high: float = math.inf) -> float:
    """Return the level as a float in [low, high]."""
    try:
        value = float(level)
    except (TypeError, ValueError) as error:
        raise InputError(f"the level of {family} must be a number, not {level!r}.") from error
    if not (low <= value <= high and math.isfinite(value)):
        domain = f"at least {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise InputError(f"the level of {family} must be {domain} and finite, not {level!r}.")
    return value


def check_choice(value: Choice, choices: Iterable[object], name: str) -> Choice:
    """Return a value that is one of the choices.

    Examples
    --------
    >>> check_choice("l2", ("nll", "brier"), "loss")
    Traceback (most recent call last):
    graphtemper.errors.InputError: loss must be one of 'nll', 'brier', not 'l2'.
    """
    options = tuple(choices)
    # An array would compare element by element, so only strings are compared by value.
    equal = value in options if isinstance(value, str) else any(value is item for item in options)
    if not equal:
        words = ", ".join(repr(option) for option in options)
        raise InputError(f"{name} must be one of {words}, not {_short(value)}.")
    return value


def _short(value: Any) -> str:
    # One line of bounded length: the value may be an array or the contents of a file.
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # an integer too long to print
        words = "a very large number"
    return words if len(words) <= 60 else words[:57] + "..."
