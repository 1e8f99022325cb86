"""An order of the rows in which a product with a large matrix reads the same memory again soon.

A product reads one row of the dense array per edge. If consecutive rows of the matrix have far
apart neighbours, each read waits for memory; if they share neighbours, most are in the cache. The
reverse Cuthill-McKee order brings such rows together where the graph has such an order, as road
networks, grids and chains of communities do. A random graph has none.

`nearby` puts the rows of a matrix in that order. Columns keep their numbers and each row the order
of its entries, so every sum has the same bits, and results go to their own place.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import finalize

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

# Rows this close are taken to be in the cache together.
WINDOW = 16_384
# A graph is in order if this share of its edges stay within the window, and it can be put in order
# if this share of the edges of a ball of nodes stay within the ball. In a random graph of degree d
# it is about 2 / d.
_LOCAL_SHARE = 0.5
_BALLS, _BALL_SIZE = 4, 4096


@dataclass(frozen=True, eq=False)
class Nearby:
    """A matrix with its rows in another order; ``order`` has the old number of each."""

    matrix: sp.csr_matrix
    order: NDArray[np.int64]


# Ordered copies of matrices in use, by id.
_known: dict[int, Nearby] = {}


def known(matrix: sp.csr_matrix) -> Nearby | None:
    """Return the ordered copy of a matrix, if it has one."""
    return _known.get(id(matrix))


def remember(matrix: sp.csr_matrix) -> None:
    """Order the rows of a matrix if that pays, for as long as the matrix is in use."""
    near = nearby(matrix)
    if near is not None:
        _known[id(matrix)] = near
        finalize(matrix, _known.pop, id(matrix), None)


def nearby(matrix: sp.csr_matrix) -> Nearby | None:
    """Order the rows of a matrix with a symmetric pattern; None if that would not be faster.

    Examples
    --------
    >>> nearby(sp.csr_matrix(np.eye(3))) is None
    True
    """
    if share_nearby(matrix) >= _LOCAL_SHARE or share_in_balls(matrix) < _LOCAL_SHARE:
        return None
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64)
    return Nearby(sp.csr_matrix(matrix[order]), order)


def share_nearby(matrix: sp.csr_matrix, rows: int = 2000) -> float:
    """Return the share of edges that join rows within `WINDOW`, over a sample of rows."""
    sample = np.unique(np.linspace(0, matrix.shape[0] - 1, rows).astype(np.int64))
    some = matrix[sample]
    distance = np.abs(np.repeat(sample, np.diff(some.indptr)) - some.indices)
    return float((distance < WINDOW).mean()) if distance.size else 1.0


def share_in_balls(matrix: sp.csr_matrix) -> float:
    """Return the share of the edges of small balls of nodes that stay within their ball."""
    inside = total = 0
    for centre in np.linspace(0, matrix.shape[0] - 1, _BALLS).astype(np.int64):
        ball = frontier = np.array([centre])
        while frontier.size and ball.size < _BALL_SIZE:
            frontier = np.setdiff1d(matrix[frontier].indices, ball)[: _BALL_SIZE - ball.size]
            ball = np.union1d(ball, frontier)
        ends = matrix[ball].indices
        inside, total = inside + int(np.isin(ends, ball).sum()), total + ends.size
    return inside / total if total else 1.0
