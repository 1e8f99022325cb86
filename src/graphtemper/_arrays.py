"""Checks of arguments, and cache-sized blocks of rows, shared by several rooms of the package."""

from __future__ import annotations

import importlib
import numbers
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper.errors import InputError

Result = TypeVar("Result")
FloatArray = NDArray[np.float64]

# Measured: small enough that a block and its temporaries stay in cache, large enough that threads
# spend their time inside NumPy's loops instead of waiting for the interpreter lock.
BLOCK_ELEMENTS = 262_144
# Below this many blocks, starting threads costs more than it saves.
MIN_BLOCKS_FOR_THREADS = 4
MAX_THREADS = 8


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
        raise InputError(
            f"{name} cannot be read as an array; pass rows of equal length."
        ) from error


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


def generator(seed: Any) -> np.random.Generator:
    """Return NumPy's generator for a seed; a generator is used as it is.

    Examples
    --------
    >>> generator(-1)
    Traceback (most recent call last):
    graphtemper.errors.InputError: seed must be a whole number of at least 0, not -1.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_whole(seed, "seed", 0))


def _short(value: Any) -> str:
    # One line of bounded length: the value may be an array or a whole file's text.
    try:
        words = " ".join(repr(value).split())
    except ValueError:  # an integer too long to print
        words = "a very large number"
    return words if len(words) <= 60 else words[:57] + "..."


def check_matrix(values: ArrayLike, name: str, *, allow_empty: bool = False) -> NDArray[Any]:
    """Return ``values`` as an (n, K) array of float32 or float64 without copying what is one."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, but its type is {array.dtype}.")
    if array.ndim == 1:
        raise InputError(
            f"{name} must have shape (n, K), but is one-dimensional; "
            "write a binary score g as two columns, logits [0, g] or probabilities [1 - p, p]."
        )
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(f"{name} must have shape (n, K) with K >= 2, not {array.shape}.")
    if array.shape[0] == 0 and not allow_empty:
        raise InputError(f"{name} has no rows; pass at least one node.")
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float64)


def check_labels(labels: ArrayLike, num_rows: int, num_classes: int) -> NDArray[np.intp]:
    """Return ``labels`` as (n,) class indices in 0 ... K-1."""
    array = as_array(labels, "labels")
    if array.shape != (num_rows,):
        raise InputError(f"labels must have shape ({num_rows},), one a row, not {array.shape}.")
    if array.dtype.kind not in "iu":
        raise InputError(f"labels must be integer class indices, but their type is {array.dtype}.")
    if num_rows and (array.min() < 0 or array.max() >= num_classes):
        row = int(np.argmax((array < 0) | (array >= num_classes)))
        if array[row] < 0:
            raise InputError(
                f"labels[{row}] is {array[row]}, which marks an unlabelled node; "
                "select the labelled nodes first."
            )
        raise InputError(
            f"labels[{row}] is {array[row]}, but with {num_classes} columns "
            f"labels run from 0 to {num_classes - 1}."
        )
    return array.astype(np.intp, copy=False)


def map_blocks(function: Callable[[slice], Result], rows: int, columns: int) -> list[Result]:
    """Call ``function`` on consecutive row slices and return the results in row order.

    NumPy releases the interpreter lock inside its loops, so blocks run on several threads. The
    slices depend only on the shape, so results do not depend on the number of threads.
    """
    size = max(BLOCK_ELEMENTS // columns, 1)
    blocks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    threads = min(num_cores(), MAX_THREADS, len(blocks))
    if threads < 2 or len(blocks) < MIN_BLOCKS_FOR_THREADS:
        return [function(block) for block in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, blocks))


def num_cores() -> int:
    """Return the number of cores this process may use."""
    # A container often has fewer than the machine.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_blas_thread(also_openmp: bool = True) -> Iterator[None]:
    """Keep linear algebra to one thread: small matrices, or work that already runs on all cores.

    On busy cores a library's own threads wait for each other 10 to 40 times as long as they work,
    and the order in which they sum, so the last bits, depends on how many there are. A model that
    runs on OpenMP, as torch does, keeps its threads where ``also_openmp`` is false.

    The limit is one of the process. Calls may overlap, also on several threads: the first sets it
    and the last to end puts back what was there.
    """
    api = None if also_openmp else "blas"
    with _limits_lock:
        count, limits = _limits.get(api, (0, None))
        if limits is None:
            threadpoolctl = importlib.import_module("threadpoolctl")  # untyped
            limits = threadpoolctl.threadpool_limits(1, api)
        _limits[api] = count + 1, limits
    try:
        yield
    finally:
        with _limits_lock:
            count, limits = _limits.pop(api)
            if count > 1:
                _limits[api] = count - 1, limits
            else:
                limits.restore_original_limits()


# How many calls hold each limit on threads, and what it replaced.
_limits: dict[str | None, tuple[int, Any]] = {}
_limits_lock = Lock()
