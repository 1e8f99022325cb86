"""Small numerical tools of the experiments."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def bin_index(values: FloatArray, edges: FloatArray, closed: str) -> NDArray[np.intp]:
    """Return the bin of each value in [0, 1]; ``closed`` says which edge belongs to a bin.

    Examples
    --------
    >>> values, edges = np.array([0.0, 0.2, 0.5, 1.0]), np.array([0.0, 0.5, 1.0])
    >>> bin_index(values, edges, "right").tolist(), bin_index(values, edges, "left").tolist()
    ([0, 0, 0, 1], [0, 0, 1, 1])
    """
    return np.searchsorted(edges[1:-1], values, side="left" if closed == "right" else "right")


def top_label(probabilities: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, NDArray[Any]]:
    """Return the largest probability of every row, and whether its class is the label.

    Examples
    --------
    >>> confidence, right = top_label([[0.1, 0.9], [0.6, 0.4]], [1, 1])
    >>> confidence.tolist(), right.tolist()
    ([0.9, 0.6], [True, False])
    """
    p = np.asarray(probabilities, dtype=np.float64)
    return p.max(axis=1), p.argmax(axis=1) == np.asarray(labels)


def column_moments(features: Any) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of every column of dense or sparse features.

    Examples
    --------
    >>> [moment.tolist() for moment in column_moments(np.array([[0.0, 1.0], [2.0, 1.0]]))]
    [[1.0, 1.0], [1.0, 0.0]]
    """
    if isinstance(features, np.ndarray):
        return features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    exact = features.astype(np.float64)
    mean = np.asarray(exact.mean(axis=0)).ravel()
    squares = np.asarray(exact.multiply(exact).mean(axis=0)).ravel()
    return mean, np.sqrt(np.maximum(squares - mean**2, 0.0))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra to one thread, for small matrices or where all cores have work."""
    with importlib.import_module("threadpoolctl").threadpool_limits(1):
        yield
