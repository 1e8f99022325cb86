r"""Samples of nodes and links by hashes of their numbers with a random salt.

Other last bits of the logits then leave the sample as it is: a node is taken because its draw is
among the lowest of its stratum, not because of its rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import Keys, mixed
from graphtemper.graph.neighbourhoods import Rows

_BINS = 32


def strata(probabilities: FloatArray) -> Rows:
    """Return a number per node by predicted class and bin of confidence, (n,).

    Examples
    --------
    >>> strata(np.array([[0.9, 0.1], [0.1, 0.9], [0.11, 0.89]])).tolist()
    [28, 60, 60]
    """
    confidence = probabilities.max(axis=1)
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    return np.asarray(probabilities.argmax(axis=1) * _BINS + bins)


def partners(indptr: NDArray[Any], own: Keys, others: Keys, start: np.uint64) -> Rows:
    """Return the position of a random neighbour of every node that has any.

    Parameters
    ----------
    indptr
        Where the neighbours of each node start, (n + 1,).
    own, others
        Keys of the nodes, and of their neighbours in the order of ``indptr``.
    start
        The random number of this sample, a `salt`.

    Examples
    --------
    >>> keys = mixed(np.arange(5, dtype=np.uint64))
    >>> found = partners(np.array([0, 3, 3, 5]), keys[:3], keys, np.uint64(7))
    >>> found.size, bool(0 <= found[0] < 3), bool(3 <= found[1] < 5)
    (2, True, True)
    """
    counts = np.diff(indptr)
    owner = np.repeat(np.arange(counts.size), counts)
    draws = mixed(others + np.repeat(mixed(own + start), counts))
    order = np.lexsort((draws, owner))  # the lowest draw of each node comes first
    return np.asarray(order[(np.cumsum(counts) - counts)[counts > 0]])


def salt(rng: np.random.Generator) -> np.uint64:
    """Return a random number that is added to keys before they are hashed."""
    return np.uint64(rng.integers(2**64, dtype=np.uint64))
