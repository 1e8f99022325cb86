"""Random streams: one an idea and seed, so that no two parts of the package share their numbers."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from graphtemper._core.checks import check_whole
from graphtemper.errors import InputError

Seed = int | np.random.Generator


def stream(seed: Seed, name: str, repeat: int = 0) -> np.random.Generator:
    """Return the generator that belongs to (seed, name, repeat); a generator is used as it is.

    Examples
    --------
    >>> same = stream(3, "noise").random() == stream(3, "noise").random()
    >>> other = stream(3, "noise").random() == stream(3, "mask").random()
    >>> same, other
    (True, False)
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(
            f"seed must be a whole number of at least 0 or a numpy Generator, not {seed!r}."
        )
    return np.random.default_rng([int(seed), zlib.crc32(name.encode()), repeat])


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
