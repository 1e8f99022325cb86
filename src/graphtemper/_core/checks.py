"""Checks of arguments: each returns the value, or raises an `InputError` of one sentence.

First those of single values, then those of arrays: logits, probabilities, labels, class shares.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors

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
        raise errors.wrong_type(f"{name} must be a real number, not {_short(value)}.")
    try:
        return float(value)
    except OverflowError as error:
        raise errors.range(f"{name} is too large for float64; pass a smaller number.") from error


def _within(value: Any, name: str, allowed: Callable[[float], bool], words: str) -> float:
    number = check_number(value, name)
    if not allowed(number):
        raise errors.range(f"{name} must {words}, not {number:g}.")
    return number


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
    raise errors.range(
        f"{name} must be an integer of at least {least}{limit}, not {_short(value)}."
    )


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
    return _within(value, name, lambda number: 0.0 < number < np.inf, "be positive and finite")


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
    words = f"be finite and at least {least:g}"
    return _within(value, name, lambda number: least <= number < np.inf, words)


def check_unit(value: float, name: str) -> float:
    """Return a number in [0, 1]."""
    return _within(value, name, lambda number: 0.0 <= number <= 1.0, "be between 0 and 1")


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
    raise errors.wrong_type(
        f"{name} must be a {kind.__name__}, not a {type(value).__name__}; {advice}."
    )


def check_fraction(value: float, name: str) -> float:
    """Return a number in [0, 1), such as the fraction of units that dropout removes.

    Examples
    --------
    >>> check_fraction(1.0, "dropout")
    Traceback (most recent call last):
    graphtemper.errors.InputError: dropout must be at least 0 and below 1, not 1.
    """
    return _within(value, name, lambda number: 0.0 <= number < 1.0, "be at least 0 and below 1")


def check_level(level: float) -> float:
    """Return the level of an interval or of a coverage, strictly between 0 and 1.

    Examples
    --------
    >>> check_level(90)
    Traceback (most recent call last):
    graphtemper.errors.InputError: level must lie strictly between 0 and 1, not 90.
    """
    words = "lie strictly between 0 and 1"
    return _within(level, "level", lambda number: 0.0 < number < 1.0, words)


def checked_level(family: str, level: float, low: float, high: float = math.inf) -> float:
    """Return the level as a float in [low, high]."""
    try:
        value = float(level)
    except (TypeError, ValueError) as error:
        raise errors.wrong_type(
            f"the level of {family} must be a number, not {level!r}."
        ) from error
    if not (low <= value <= high and math.isfinite(value)):
        domain = f"at least {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise errors.range(f"the level of {family} must be {domain} and finite, not {level!r}.")
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
        raise errors.choice(f"{name} must be one of {words}, not {_short(value)}.")
    return value


def _short(value: Any) -> str:
    # One line of bounded length: the value may be an array or the contents of a file.
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # an integer too long to print
        words = "a very large number"
    return words if len(words) <= 60 else words[:57] + "..."


FloatArray = NDArray[np.float64]

# Accepts half-precision softmax output, but neither logits nor one-vs-rest scores.
SUM_TOLERANCE = 1e-3


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as an array; rows of unequal length are an `InputError`.

    Examples
    --------
    >>> as_array([[1, 2], [3]], "logits")
    Traceback (most recent call last):
    graphtemper.errors.InputError: logits cannot be read as an array; pass rows of equal length.
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise errors.shape(
            f"{name} cannot be read as an array; pass rows of equal length."
        ) from error


def check_matrix(values: ArrayLike, name: str, *, allow_empty: bool = False) -> NDArray[Any]:
    """Return ``values`` as an (n, K) array of float32 or float64, without a copy if it is one."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise errors.wrong_type(f"{name} must hold real numbers, but its type is {array.dtype}.")
    if array.ndim == 1:
        raise errors.shape(
            f"{name} must have shape (n, K), but is one-dimensional; "
            "write a binary score g as two columns, logits [0, g] or probabilities [1 - p, p]."
        )
    if array.ndim != 2 or array.shape[1] < 2:
        raise errors.shape(f"{name} must have shape (n, K) with K >= 2, not {array.shape}.")
    if array.shape[0] == 0 and not allow_empty:
        raise errors.empty(f"{name} has no rows; pass at least one node.")
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float64)


def check_pair(
    values: ArrayLike, labels: ArrayLike, name: str
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return an (n, K) matrix and the (n,) labels of its rows."""
    matrix = check_matrix(values, name)
    return matrix, check_labels(labels, *matrix.shape)


def check_labels(labels: ArrayLike, num_rows: int, num_classes: int) -> NDArray[np.intp]:
    """Return ``labels`` as (n,) class indices in 0 ... K-1."""
    array = as_array(labels, "labels")
    if array.shape != (num_rows,):
        raise errors.shape(f"labels must have shape ({num_rows},), one per row, not {array.shape}.")
    if array.dtype.kind not in "iu":
        raise errors.wrong_type(
            f"labels must be integer class indices, but their type is {array.dtype}."
        )
    if num_rows and (array.min() < 0 or array.max() >= num_classes):
        row = int(np.argmax((array < 0) | (array >= num_classes)))
        if array[row] < 0:
            raise errors.no_labels(
                f"labels[{row}] is {array[row]}, which marks an unlabelled node; "
                "select the labelled nodes first."
            )
        raise errors.range(
            f"labels[{row}] is {array[row]}, but with {num_classes} columns "
            f"labels run from 0 to {num_classes - 1}."
        )
    return array.astype(np.intp, copy=False)


def check_finite_rows(values: FloatArray, name: str) -> None:
    """Raise if a number is not finite, and name its row.

    Examples
    --------
    >>> check_finite_rows(np.array([[0.0, np.nan]]), "logits")
    Traceback (most recent call last):
    graphtemper.errors.InputError: logits[0] holds nan; every number must be finite.
    """
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        value = values[row][~np.isfinite(values[row])][0]
        raise errors.not_finite(f"{name}[{row}] holds {value}; every number must be finite.")


def check_vector(values: ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as an (n,) array of finite float64 numbers."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise errors.shape(f"{name} must be one-dimensional, not of shape {array.shape}.")
    if array.dtype.kind not in "fiu" and array.size:
        raise errors.wrong_type(f"{name} must hold real numbers, but its type is {array.dtype}.")
    vector: FloatArray = array.astype(np.float64)
    if not np.isfinite(vector).all():
        raise errors.not_finite(
            f"{name} holds {vector[~np.isfinite(vector)][0]}; it must be finite."
        )
    return vector


def probability_columns(p: NDArray[Any], rows: slice) -> NDArray[Any]:
    """Return the given rows as a checked (K, n) block: short reductions become long vectors.

    Examples
    --------
    >>> probability_columns(np.array([[0.2, 0.8], [0.5, 0.6]]), slice(0, 2))
    Traceback (most recent call last):
    graphtemper.errors.InputError: probabilities[1] sums to 1.1 instead of 1; turn logits into \
probabilities with temperature.apply first.
    """
    block = np.ascontiguousarray(p[rows].T)
    error = np.abs(block.sum(axis=0) - 1.0)
    # Written so that NaN fails the test as well.
    if not (error.max() <= SUM_TOLERANCE and block.min() >= 0.0):
        _raise_bad_row(block, rows.start)
    return block


def _raise_bad_row(block: NDArray[Any], first_row: int) -> None:
    error = np.abs(block.sum(axis=0) - 1.0)
    bad = ~((error <= SUM_TOLERANCE) & (block.min(axis=0) >= 0.0))
    row = int(np.argmax(bad))
    values = block[:, row]
    name = f"probabilities[{first_row + row}]"
    if not np.isfinite(values).all():
        raise errors.not_finite(
            f"{name} holds {values[~np.isfinite(values)][0]}; it must be finite."
        )
    advice = "turn logits into probabilities with temperature.apply first"
    if values.min() < 0.0:
        raise errors.range(f"{name} holds {values.min():g}, which is negative; {advice}.")
    raise errors.range(f"{name} sums to {values.sum():g} instead of 1; {advice}.")


def finite(name: str, value: ArrayLike) -> FloatArray:
    """Real numbers without NaN or infinity."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.wrong_type(
            f"{name} must be a number or an array of numbers; got {value!r}."
        ) from error
    require(name, array, np.isfinite(array), "a finite number")
    return array


def non_negative(name: str, value: ArrayLike) -> FloatArray:
    """Numbers that are at least zero."""
    array = finite(name, value)
    require(name, array, array >= 0.0, "at least 0")
    return array


def together(**arrays: FloatArray) -> None:
    """Require shapes that broadcast to one."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise errors.shape(
            f"The arguments' shapes do not fit together ({shapes}); use equal or broadcastable "
            "shapes."
        ) from error


def require(name: str, array: FloatArray, valid: NDArray[np.bool_], condition: str) -> None:
    """Raise for the first entry of ``array`` that is not valid."""
    if not np.all(valid):
        bad = array[~valid].flat[0]
        raise errors.range(f"{name} must be {condition}; got {bad:g}.")


def plain(result: FloatArray) -> float | FloatArray:
    """Scalars in, float out; arrays in, array out; never NaN or infinity."""
    if not np.all(np.isfinite(result)):
        raise errors.range(
            "The result is outside the range of double precision; use less extreme arguments."
        )
    return float(result) if np.ndim(result) == 0 else result
