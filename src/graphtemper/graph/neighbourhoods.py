"""Neighbourhoods: the nodes within some edges of others."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def ball(adjacency: sp.csr_matrix, centre: Rows, radius: int) -> Rows:
    """Return all nodes within ``radius`` edges of the centre, sorted.

    Examples
    --------
    >>> path = sp.diags([1.0, 1.0], [-1, 1], shape=(6, 6), format="csr")
    >>> ball(path, np.array([0, 5]), 1).tolist()
    [0, 1, 4, 5]
    """
    inside = np.zeros(adjacency.shape[0], dtype=bool)
    inside[centre] = True
    boundary = centre
    for _ in range(radius):
        reached = np.zeros_like(inside)
        reached[adjacency[boundary].indices] = True
        boundary = np.flatnonzero(reached & ~inside)
        inside[boundary] = True
    return np.flatnonzero(inside)
