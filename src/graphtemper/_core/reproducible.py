"""The same bytes for the same seed: random streams keyed by (seed, name), and limits on threads.

Work on blocks of rows runs on several threads without any effect on the result.
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import check_integer

Seed = int | np.random.Generator


def stream(seed: Seed, name: str, repeat: int = 0) -> np.random.Generator:
    """Return the generator of (seed, name, repeat); a generator is returned unchanged.

    Examples
    --------
    >>> same = stream(3, "noise").random() == stream(3, "noise").random()
    >>> other = stream(3, "noise").random() == stream(3, "mask").random()
    >>> same, other
    (True, False)
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(
        [check_integer(seed, "seed", 0), zlib.crc32(name.encode()), repeat]
    )


def generator(seed: Any) -> np.random.Generator:
    """Return NumPy's generator for a seed; a generator is returned unchanged.

    Examples
    --------
    >>> generator(-1)
    Traceback (most recent call last):
    graphtemper.errors.InputError: seed must be an integer of at least 0, not -1.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_integer(seed, "seed", 0))


Keys = NDArray[np.uint64]


def mixed(values: Keys) -> Keys:
    """Return well-mixed 64-bit numbers: the finaliser of SplitMix64 (Steele et al., 2014)."""
    x = values + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


Result = TypeVar("Result")

# Measured: small enough that a block and its temporaries stay in cache, large enough that threads
# spend their time inside NumPy's loops instead of waiting for the interpreter lock.
BLOCK_ELEMENTS = 262_144
# Below this many blocks, starting threads costs more than it saves.
MIN_BLOCKS_FOR_THREADS = 4
MAX_THREADS = 8


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
    and their number changes the order of summation and so the last bits. A model that runs on
    OpenMP, as torch does, keeps its threads if ``also_openmp`` is false.

    The limit applies to the process. Calls may overlap, also on several threads: the first sets it
    and the last to end restores what was there.
    """
    api = None if also_openmp else "blas"
    with _limits_lock:
        holders, limits = _limits.get(api, ([], None))
        if limits is None:
            threadpoolctl = importlib.import_module("threadpoolctl")  # untyped
            limits = threadpoolctl.threadpool_limits(1, api)
        _limits[api] = [*holders, get_ident()], limits
    try:
        yield
    finally:
        with _limits_lock:
            _release(api, _limits[api][0].index(get_ident()))


def _release(api: str | None, place: int) -> None:
    """Take a holder from a limit, and lift the limit with its last one."""
    holders, limits = _limits.pop(api)
    del holders[place]
    if holders:
        _limits[api] = holders, limits
    else:
        limits.restore_original_limits()


def _forked() -> None:
    """Forget the holders that a forked child does not have: all threads but the one that forked."""
    _limits_lock.release()
    for api, (holders, _) in list(_limits.items()):
        for place in reversed([x for x, holder in enumerate(holders) if holder != get_ident()]):
            _release(api, place)


# The threads that hold each limit, one entry per call, and the limit that was replaced.
_limits: dict[str | None, tuple[list[int], Any]] = {}
# Held for moments, and by the thread that forks while it does, so that no child begins without it.
_limits_lock = Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_limits_lock.acquire,
        after_in_parent=_limits_lock.release,
        after_in_child=_forked,
    )
