"""An order of the nodes in which neighbours lie close in memory, for products with large matrices.

A product reads one row of the dense array per edge. If the rows of a node's neighbours are spread
over memory, each of them waits for memory; if they lie near each other, most are in the cache. The
reverse Cuthill-McKee order brings neighbours together where the graph has such an order, as road
networks, grids and chains of communities do. A random graph has none.

`nearby` renumbers a matrix. Each row keeps the order of its entries, so products have the same bits
as in the original order.
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
    """A matrix with renumbered rows and columns.

    ``forward @ x`` puts rows in the new order and ``back @ x`` restores the old one: permutations
    as matrices, whose products are compiled and run on threads.
    """

    matrix: sp.csr_matrix
    forward: sp.csr_matrix
    back: sp.csr_matrix


# Renumbered copies of matrices in use, by id.
_known: dict[int, Nearby] = {}


def known(matrix: sp.csr_matrix) -> Nearby | None:
    """Return the renumbered copy of a matrix, if it has one."""
    return _known.get(id(matrix))


def remember(matrix: sp.csr_matrix) -> None:
    """Renumber a matrix if that pays, for as long as the matrix is in use."""
    near = nearby(matrix)
    if near is not None:
        _known[id(matrix)] = near
        finalize(matrix, _known.pop, id(matrix), None)


def nearby(matrix: sp.csr_matrix) -> Nearby | None:
    """Renumber a square matrix with a symmetric pattern, or return None if that would not pay.

    Examples
    --------
    >>> near = renumbered(sp.csr_matrix(np.eye(3, k=1) + np.eye(3, k=-1)), np.array([2, 0, 1]))
    >>> near.matrix.toarray().astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    """
    if share_nearby(matrix) >= _LOCAL_SHARE or share_in_balls(matrix) < _LOCAL_SHARE:
        return None
    return renumbered(matrix, reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64))


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


def renumbered(matrix: sp.csr_matrix, order: NDArray[np.int64]) -> Nearby:
    """Return the matrix with row and column ``order[i]`` at place i."""
    lengths = np.diff(matrix.indptr)[order]
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    entries = np.arange(matrix.nnz) + np.repeat(matrix.indptr[order] - indptr[:-1], lengths)
    place = np.empty(order.size, matrix.indices.dtype)
    place[order] = np.arange(order.size, dtype=place.dtype)
    parts = (
        matrix.data[entries],
        place[matrix.indices[entries]],
        indptr.astype(matrix.indptr.dtype),
    )
    return Nearby(
        sp.csr_matrix(parts, shape=matrix.shape),
        _rows_from(order.astype(place.dtype)),
        _rows_from(place),
    )


def _rows_from(origin: NDArray[np.integer]) -> sp.csr_matrix:
    """Return the permutation matrix that takes row i from ``origin[i]``."""
    size = origin.size
    parts = (np.ones(size, np.float32), origin, np.arange(size + 1, dtype=origin.dtype))
    return sp.csr_matrix(parts, shape=(size, size))
