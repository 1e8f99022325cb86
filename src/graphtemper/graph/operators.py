"""Normalised operators S and products S^k X: the package's only sparse-product code.

Products are SciPy's, on blocks of rows with one thread per core; SciPy releases the interpreter
lock. ``benchmarks/run.py`` compares them with SciPy on one thread and with torch. Each row is
summed by one thread, edge by edge, so the bytes do not depend on the number of threads.

`column_moments` gives the mean and deviation of each feature column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, get_args, overload
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import map_blocks, num_cores, one_blas_thread
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph

Dense = NDArray[np.floating]

# Below this many multiply-adds, starting threads costs more than it saves.
_WORTH_THREADS = 4_000_000
# Longer single-precision sums may lose the third digit: the mean of 2,000,000 was 2 % off.
LONG_ROW = 16_384
# Directions whose variance is below this fraction of the largest hold only rounding error.
_NEGLIGIBLE = 1e-12


def adjacency(graph: Graph) -> sp.csr_matrix:
    """Return the symmetric 0/1 adjacency matrix A of the links as float32 CSR.

    Directions, self-loops, repeats and weights of edges are not in it, see `Graph.links`.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
    >>> adjacency(g).toarray().astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    with_loops = _matrices.get(graph, {}).get("self-loop")
    if with_loops is None or graph.edge_weight is not None:
        return _cached(graph, "adjacency", adjacency_matrix)
    return _cached(graph, "adjacency", lambda _: without_diagonal(with_loops))


def operator(graph: Graph, kind: Operator = "self-loop") -> sp.csr_matrix:
    r"""Return a normalised aggregation operator S as float32 CSR.

    ============  ==========================================  ===========================
    kind          S                                           isolated node
    ============  ==========================================  ===========================
    `mean`        :math:`D^{-1}A`                             a zero row: it aggregates nothing
    `symmetric`   :math:`D^{-1/2}AD^{-1/2}`                   a zero row
    `self-loop`   :math:`\tilde D^{-1/2}(A+I)\tilde D^{-1/2}`  keeps its own features
    ============  ==========================================  ===========================

    `self-loop` is the operator of Kipf and Welling's GCN and of the paper's SIGN features. With
    `Graph.edge_weight`, A holds the weights of the links and D their sums; weights must not be
    negative. A is symmetric in a directed graph too: the weight of a link is the sum of its edges'.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
    >>> operator(g, "mean").toarray()[1].tolist()
    [0.5, 0.0, 0.5]
    """
    if kind not in get_args(Operator):
        raise errors.choice(
            f"unknown operator {kind!r}; use one of {', '.join(get_args(Operator))}."
        )
    return _cached(graph, kind, partial(normalised_matrix, kind=kind))


# Matrices and moments of the graphs in use: a dozen passes over one graph compute them once.
_matrices: WeakKeyDictionary[Graph, dict[str, sp.csr_matrix]] = WeakKeyDictionary()
_moments: WeakKeyDictionary[Graph, tuple[FloatArray, FloatArray]] = WeakKeyDictionary()


def _cached(graph: Graph, name: str, make: Callable[[Graph], sp.csr_matrix]) -> sp.csr_matrix:
    matrices = _matrices.setdefault(graph, {})
    if name not in matrices:
        matrix = make(graph)
        matrix.data.setflags(write=False)  # the matrix is shared between callers
        matrices[name] = matrix
    return matrices[name]


def project(features: Dense | sp.csr_matrix, weights: Dense) -> Dense:
    """Return ``features @ weights`` as a dense array, the same bytes on any number of threads.

    Rows are computed in blocks that depend on the shape alone, each by one thread: the threads of a
    BLAS library would sum in an order that depends on their number.

    Examples
    --------
    >>> project(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    if not isinstance(features, np.ndarray):
        return np.asarray(features @ weights)
    count, width = features.shape
    out = np.empty((count, weights.shape[1]), np.result_type(features.dtype, weights.dtype))

    def write(rows: slice) -> None:
        out[rows] = features[rows] @ weights

    with one_blas_thread(also_openmp=False):
        map_blocks(write, count, max(width, 1))
    return out


def gaussian_factor(weights: Dense, std: FloatArray) -> NDArray[np.float32]:
    """Return (r, C) L with L^T L = W^T diag(std^2) W for W (F, C): white rows times L are E W.

    r is the rank, so a binary model (whose first logit is always 0) draws half the numbers.
    """
    scaled = weights.astype(np.float64) * std[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    relevant = values > _NEGLIGIBLE * max(float(values[-1]), np.finfo(np.float64).tiny)
    factor = (vectors[:, relevant] * np.sqrt(values[relevant])).T
    factor[:, ~scaled.any(axis=0)] = 0.0  # a logit without weights has no noise at all
    return np.asarray(factor, dtype=np.float32)


@overload
def multiply(matrix: sp.csr_matrix, columns: Dense, *, wide: bool = False) -> Dense: ...
@overload
def multiply(
    matrix: sp.csr_matrix, columns: sp.csr_matrix, *, wide: bool = False
) -> sp.csr_matrix: ...
def multiply(
    matrix: sp.csr_matrix, columns: Dense | sp.csr_matrix, *, wide: bool = False
) -> Dense | sp.csr_matrix:
    """Return ``matrix @ columns``; sparse stays sparse. With ``wide``, sums are in float64.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
    >>> multiply(operator(g, "mean"), np.array([[1.0], [0.0], [2.0]])).ravel().tolist()
    [0.0, 1.5, 0.0]
    """
    if sp.issparse(columns):
        return sp.csr_matrix(matrix @ columns)
    dense = np.ascontiguousarray(columns)
    width = 1 if dense.ndim == 1 else dense.shape[1]
    threads = num_cores() if matrix.nnz * width >= _WORTH_THREADS else 1
    product = _product(matrix, dense.astype(np.float64, copy=False) if wide else dense, threads)
    if product.dtype == np.float32:
        for row in np.flatnonzero(np.diff(matrix.indptr) > LONG_ROW).tolist():
            product[row] = _long_row(matrix, row, dense)
    return product


def _long_row(matrix: sp.csr_matrix, row: int, dense: Dense) -> NDArray[np.float64]:
    """Return one row of the product, summed in float64 over blocks of neighbours."""
    total, (start, stop) = np.zeros(dense.shape[1:]), matrix.indptr[row : row + 2].tolist()
    for first in range(start, stop, LONG_ROW):
        block = slice(first, min(first + LONG_ROW, stop))
        values = dense[matrix.indices[block]].astype(np.float64)
        # No matrix product: its order of summation may depend on the number of threads.
        total += (values.T * matrix.data[block]).sum(axis=-1)
    return total


def _product(matrix: sp.csr_matrix, dense: Dense, threads: int) -> Dense:
    """Return the product of blocks of rows, each on one of the threads."""
    if threads == 1 or dense.shape[0] != matrix.shape[1]:  # SciPy says what is wrong
        return np.asarray(matrix @ dense)
    kind = np.result_type(matrix.data.dtype, dense.dtype)
    out = np.empty((matrix.shape[0], *dense.shape[1:]), kind)

    def fill(first: int, last: int) -> None:
        start, stop = matrix.indptr[[first, last]].tolist()
        # A view of the rows: slicing the matrix would copy them.
        parts = matrix.data[start:stop], matrix.indices[start:stop]
        rows = (*parts, matrix.indptr[first : last + 1] - start)
        out[first:last] = sp.csr_matrix(rows, (last - first, matrix.shape[1])) @ dense

    # Several blocks per thread, with equal numbers of non-zeros, so that hubs delay no thread.
    cuts = np.searchsorted(matrix.indptr, np.linspace(0, matrix.nnz, 4 * threads + 1)).tolist()
    cuts[0], cuts[-1] = 0, matrix.shape[0]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, cuts[:-1], cuts[1:]))
    return out


def horner(matrix: sp.csr_matrix, terms: list[Dense]) -> Dense:
    r"""Return :math:`\sum_k S^k B_k` with one product per hop.

    The sum is computed as :math:`B_0 + S(B_1 + S(B_2 + \dots))`. For a linear model
    :math:`B_k = X W_k` has K columns, so prediction propagates K columns instead of the F
    columns of X.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [0.0]], edges=[[0, 1]])
    >>> x = np.array([[1.0], [0.0]])
    >>> horner(operator(g, "mean"), [x, 2 * x]).ravel().tolist()
    [1.0, 2.0]
    """
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = _sum(multiply(matrix, total), term)
    return total


def _sum(product: Dense, term: Dense) -> Dense:
    """Return the sum, in the memory of the product if it has the type."""
    return np.add(product, term, out=product if product.dtype >= term.dtype else None)


# Entries per block of rows. The random numbers that a seed gives depend on it.
BLOCK_ELEMENTS = 1 << 20


def column_moments(features: Features) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (divisor N) of each column, in float64.

    Examples
    --------
    >>> mean, std = column_moments(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), std.tolist()
    ([1.0, 1.0], [1.0, 0.0])
    """
    count, width = features.shape
    if not isinstance(features, np.ndarray):
        column, values = features.indices, features.data.astype(np.float64)
        mean = np.bincount(column, values, minlength=width) / count
        stored = np.bincount(column, minlength=width)
        squares = np.bincount(column, (values - mean[column]) ** 2, minlength=width)
        # Zeros that are not stored deviate by the mean.
        return mean, np.sqrt((squares + (count - stored) * mean**2) / count)
    mean = _sum_columns(features, slice(0, count)) / count
    near = mean.astype(features.dtype)
    total = np.zeros(width)
    for rows in row_blocks(count, width):
        total += _sum_columns(features, rows, near)
    # The deviations are from the mean rounded to the precision of the features.
    return mean, np.sqrt(np.maximum(total / count - (mean - near) ** 2, 0.0))


def _sum_columns(features: Dense, rows: slice, centre: Dense | None = None) -> FloatArray:
    """Return the sums of each column over rows, or of squared distances from ``centre``."""
    if centre is None:
        return np.asarray(features[rows].sum(axis=0, dtype=np.float64))
    return np.asarray(np.square(features[rows] - centre, dtype=np.float64).sum(axis=0))


def graph_moments(graph: Graph) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column over the nodes that have the column.

    These are all nodes, unless node types have columns of their own (`Graph.type_columns`).

    Examples
    --------
    >>> types = {"node_type": [0, 1, 1], "type_columns": [[0, 1], [1, 2]]}
    >>> g = Graph(features=[[3.0, 0.0], [0.0, 1.0], [0.0, 5.0]], edges=[], **types)
    >>> [values.tolist() for values in graph_moments(g)]
    [[3.0, 3.0], [0.0, 2.0]]
    """
    if graph.type_columns is None or graph.node_type is None:
        if graph not in _moments:
            _moments[graph] = column_moments(graph.features)
        return _moments[graph]
    mean, std = np.zeros(graph.num_features), np.zeros(graph.num_features)
    for first, last in np.unique(graph.type_columns, axis=0):
        types = np.flatnonzero((graph.type_columns == [first, last]).all(axis=1))
        rows = np.flatnonzero(np.isin(graph.node_type, types))
        if rows.size:
            block = graph.features[rows][:, first:last]
            mean[first:last], std[first:last] = column_moments(block)
    return mean, std


def row_blocks(count: int, width: int) -> Iterator[slice]:
    """Yield slices of rows with about `BLOCK_ELEMENTS` entries each."""
    size = max(BLOCK_ELEMENTS // width, 1)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


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
    ones = np.ones(len(links), np.int8)
    upper = sp.csr_matrix((ones, tuple(links.T)), shape=(num_nodes, num_nodes))
    # Adding sorted rows is twice as fast as sorting all entries.
    matrix = upper.T.tocsr() + (upper + sp.identity(num_nodes, np.int8) if loops else upper)
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
    values = np.empty(indices.size, np.float32)

    def fill(rows: slice) -> None:
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
        raise errors.range(
            f"edge_weight[{bad[0]}] is {weight[bad[0]]}; a normalised operator needs weights of 0 "
            "or more, so make them positive or leave them out with replace(edge_weight=None)."
        )
    number = graph.link_of_edge
    inner = number >= 0
    sums = np.bincount(number[inner], weight[inner], minlength=len(graph.links))
    return sums.astype(np.float64)
