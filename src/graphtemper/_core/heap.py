"""Keep freed memory at hand while a model runs many times.

By default the C library of Linux returns every large array to the system as soon as it is freed,
and the system fills the next one with zeros, page by page. A pass of a graph network allocates
arrays of edges times hidden units, so that this takes longer than its arithmetic.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

# Names and numbers of <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
# What glibc itself arrives at once an array of 32 MB was freed; and its default number of maps.
_LARGEST_THRESHOLD, _DEFAULT_MAPS = 32 << 20, 65_536
_lock = Lock()
_holders = 0


@contextmanager
def reused_memory(wanted: bool = True) -> Iterator[None]:
    """Reuse freed memory within the block, and return it to the system at its end.

    It applies to the process, and to large arrays of the main thread. Calls may overlap. Nothing
    happens with another C library than glibc, or where the environment sets how it allocates.

    Parameters
    ----------
    wanted
        Whether to do anything.

    Examples
    --------
    >>> with reused_memory():
    ...     total = sum(range(10))
    >>> total
    45
    """
    library = _glibc() if wanted else None
    if library is None:
        yield
        return
    _hold(library, 1)
    try:
        yield
    finally:
        _hold(library, -1)


def _hold(library: Any, change: int) -> None:
    global _holders
    with _lock:
        _holders += change
        if change == _holders == 1:
            library.mallopt(_MMAP_MAX, 0)
            library.mallopt(_TRIM_THRESHOLD, -1)
        elif not _holders:
            library.mallopt(_MMAP_MAX, _DEFAULT_MAPS)
            library.mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
            library.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_THRESHOLD)
            library.malloc_trim(0)


@cache
def _glibc() -> Any:
    """Return the C library if it is glibc and the environment does not say how it allocates."""
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    if os.name != "posix" or chosen or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    library = ctypes.CDLL(None)
    names = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return library if all(hasattr(library, name) for name in names) else None
