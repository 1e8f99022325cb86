"""Independent random streams keyed by (seed, name)."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

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
