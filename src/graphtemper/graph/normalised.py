"""The matrices of a graph's links: adjacency, and the normalised operators S.

Rows are sorted, so that sums over neighbours have one order. The compiled loop and SciPy give the
same matrix.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.compiled import kernels
from graphtemper._core.reproducible import map_blocks
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph

Operator = Literal["mean", "symmetric", "self-loop"]
Indices = NDArray[np.signedinteger[Any]]
_MOST = np.iinfo(np.int32).max


def adjacency_matrix(graph: Graph) -> sp.csr_matrix:
    """Return the symmetric 0/1 adjacency matrix of the links as float32 CSR."""
    return link_matrix(graph.links, graph.num_nodes)


def link_matrix(links: NDArray[np.int32], num_nodes: int) -> sp.csr_matrix:
    """Return the symmetric 0/1 matrix of some links, (L, 2), each once, as float32 CSR.

    Examples
    --------
    >>> link_matrix(np.array([[0, 2]], np.int32), 3).toarray().astype(int).tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    indices, indptr = link_rows(links, num_nodes, loops=False)
    ones = np.ones(indices.size, dtype=np.float32)
    return sp.csr_matrix((ones, indices, indptr), shape=(num_nodes, num_nodes))


def without_diagonal(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return ones at the other entries of a matrix that has the whole diagonal, as float32 CSR.

    Examples
    --------
    >>> without_diagonal(sp.csr_matrix([[2.0, 3.0], [0.0, 1.0]])).toarray().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    rows = np.arange(matrix.shape[0], dtype=matrix.indices.dtype)
    indices = matrix.indices[matrix.indices != np.repeat(rows, np.diff(matrix.indptr))]
    indptr = matrix.indptr - np.arange(matrix.indptr.size, dtype=matrix.indptr.dtype)
    ones = np.ones(indices.size, dtype=np.float32)
    return sp.csr_matrix((ones, indices, indptr), shape=matrix.shape)


def link_rows(links: NDArray[np.int32], num_nodes: int, *, loops: bool) -> tuple[Indices, Indices]:
    """Return column indices and row pointers of links, (L, 2); with ``loops``, of the diagonal too.

    Examples
    --------
    >>> [part.tolist() for part in link_rows(np.array([[0, 2]], np.int32), 3, loops=True)]
    [[0, 2, 1, 0, 2], [0, 2, 3, 5]]
    """
    size, compiled = 2 * len(links) + (num_nodes if loops else 0), kernels()
    if compiled is not None and size <= _MOST:
        indices, indptr = np.empty(size, np.int32), np.empty(num_nodes + 1, np.int32)
        compiled.link_rows(np.ascontiguousarray(links), indptr, indices, loops)
        return indices, indptr
    matrix = _numbered(links, num_nodes, loops)
    return matrix.indices, matrix.indptr


def _numbered(links: NDArray[np.int32], num_nodes: int, loops: bool) -> sp.csr_matrix:
    """Return the matrix whose entries are the numbers of the links + 1; of the diagonal, L + 1."""
    count, (low, high) = len(links), links.T
    own = np.arange(num_nodes if loops else 0, dtype=links.dtype)
    edge = np.arange(1, count + 1, dtype=np.int32 if count < _MOST else np.int64)
    number = np.concatenate([edge, edge, np.full(own.size, count + 1, edge.dtype)])
    rows, columns = np.concatenate([low, high, own]), np.concatenate([high, low, own])
    return sp.csr_matrix((number, (rows, columns)), shape=(num_nodes, num_nodes))


def row_scale(
    degrees: NDArray[np.integer] | NDArray[np.floating], kind: Operator
) -> NDArray[np.float64]:
    """Return the factor of each row of an operator, and of each column unless it is the mean.

    ``degrees`` count neighbours, without the self-loop. A node of degree zero has factor zero.

    Examples
    --------
    >>> row_scale(np.array([0, 2, 4]), "mean").tolist()
    [0.0, 0.5, 0.25]
    """
    count = degrees.astype(np.float64) + (1.0 if kind == "self-loop" else 0.0)
    left = np.zeros_like(count)
    np.power(count, -1.0 if kind == "mean" else -0.5, out=left, where=count > 0)
    return left


def _scaled_ones(
    indices: Indices, indptr: Indices, left: FloatArray, right: FloatArray | None
) -> NDArray[np.float32]:
    """Return left[row] right[column], or left[row], at every stored entry of a CSR structure."""
    values, compiled = np.empty(indices.size, np.float32), kernels()
    if indices.dtype != np.int32 or indptr.dtype != np.int32:
        compiled = None

    def fill(rows: slice) -> None:
        if compiled is not None:
            compiled.scaled_ones(indptr, indices, left, values, right, rows.start, rows.stop)
            return
        pointers = indptr[rows.start : rows.stop + 1]
        some = slice(int(pointers[0]), int(pointers[-1]))
        products = np.repeat(left[rows], np.diff(pointers))
        values[some] = products if right is None else products * right[indices[some]]

    map_blocks(fill, left.size, indices.size // max(left.size, 1) + 1)
    return values


def normalised_matrix(graph: Graph, kind: Operator = "self-loop") -> sp.csr_matrix:
    """Return the normalised operator of a graph's links; see `graphtemper.graph.operators`.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1]])
    >>> normalised_matrix(g).toarray().round(3).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    links, size, loops, own = (
        graph.links,
        graph.num_nodes,
        kind == "self-loop",
        _link_weights(graph),
    )
    if own is None:
        indices, indptr = link_rows(links, size, loops=loops)
        left = row_scale(np.diff(indptr) - int(loops), kind)
        values = _scaled_ones(indices, indptr, left, None if kind == "mean" else left)
    else:
        matrix = _numbered(links, size, loops)
        indices, indptr = matrix.indices, matrix.indptr
        sums = np.bincount(links.ravel(), np.repeat(own, 2), minlength=size)
        left = row_scale(sums, kind)
        products = np.repeat(left, np.diff(indptr)) * np.append(own, 1.0)[matrix.data - 1]
        values = products if kind == "mean" else products * left[indices]
        values = values.astype(np.float32)
    return sp.csr_matrix((values, indices, indptr), shape=(size, size))


def _link_weights(graph: Graph) -> NDArray[np.float64] | None:
    """Return the weight of every link, (L,), or None if edges have none; refuse negative ones."""
    weight = graph.edge_weight
    if weight is None:
        return None
    bad = np.flatnonzero(weight < 0)
    if bad.size:
        raise InputError(
            f"edge_weight[{bad[0]}] is {weight[bad[0]]}; a normalised operator needs weights of 0 "
            "or more, so make them positive or leave them out with replace(edge_weight=None)."
        )
    number = graph.link_of_edge
    inner = number >= 0
    sums = np.bincount(number[inner], weight[inner], minlength=len(graph.links))
    return sums.astype(np.float64)
