"""Small numerical tools of the experiments."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper.errors import InputError

FloatArray = NDArray[np.float64]


def stream(seed: int, name: str, repeat: int = 0) -> np.random.Generator:
    """Return a generator of random numbers that depends on a seed and on what is drawn.

    Examples
    --------
    >>> float(stream(3, "noise").random()) == float(stream(3, "split").random())
    False
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode()), repeat])


def log_odds(share: float) -> float:
    """Return the log-odds of a share, which is kept away from 0 and 1.

    Examples
    --------
    >>> log_odds(0.5), round(log_odds(1.0), 2)
    (0.0, 9.21)
    """
    value = float(np.clip(share, 1e-4, 1.0 - 1e-4))
    return float(np.log(value / (1.0 - value)))


def to_share(log_odds: float) -> float:
    """Return the share with these log-odds."""
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def nearest_temperature(logits: FloatArray, accuracy: float) -> float:
    """Return the temperature whose mean confidence is an accuracy, or comes nearest to it.

    Beyond the reach of any temperature, all probabilities are uniform, or all certain.

    Examples
    --------
    >>> logits = np.array([[0.0, 2.0], [0.0, -4.0]])
    >>> nearest_temperature(logits, 0.5) > 1e6, nearest_temperature(logits, 1.0) < 1e-5
    (True, True)
    """
    try:
        return temperature.match_confidence(logits, accuracy)
    except InputError:
        low, high = temperature.RELATIVE_BOUNDS
        spread = np.ptp(logits, axis=1)
        if not spread.any():
            return 1.0
        if accuracy <= 1.0 / logits.shape[1]:
            return float(high * spread.max())
        first, second = np.sort(logits, axis=1)[:, :-3:-1].T
        return float(low * (first - second)[first > second].min())
