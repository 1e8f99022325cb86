"""Shifts of the features. Column means and deviations are those of the graph being shifted.

In a graph with node types they are those of a node's own type, and rows are shuffled and blended
within types.

Sparse features stay sparse under `shuffle` and `drop_columns`, and under `mask` while the result
is less than a tenth full; beyond, products with a dense array are several times faster. `noise`,
`heterogeneous`, `scale` and `offset` change every entry and return a dense (N, F) float32 array
(4 N F bytes). They work on blocks of rows, so that memory is needed for the result only.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from graphtemper._core.checks import checked_level
from graphtemper.errors import InputError
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency, row_blocks
from graphtemper.shifts.base import Shift, moments_by_type, permuted_within_types

Where = Literal["random", "region", "low-degree"]
Generator = np.random.Generator

# Masked features stay sparse while a smaller share of their entries is not zero.
_SPARSE = 0.1


def noise(level: float) -> Shift:
    r"""Add Gaussian noise: :math:`x_{ij} \leftarrow x_{ij} + l\,s_j\,\varepsilon_{ij}`.

    :math:`s_j` is the standard deviation of column j (divisor N) and :math:`\varepsilon` is
    standard normal. The result is dense.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 5.0], [2.0, 5.0]], edges=[[0, 1]])
    >>> noise(1.0)(g, seed=0).features[:, 1].tolist()    # a constant column has no noise
    [5.0, 5.0]
    """
    return Shift("noise", checked_level("noise", level, 0.0), _noise)


def heterogeneous(level: float, where: Where = "random") -> Shift:
    """Apply ``noise(level)`` to N // 2 of the nodes.

    ``where`` selects them: ``"random"``; ``"region"``, a breadth-first ball around a random node
    (continued in other components if its own is too small); or ``"low-degree"``, the nodes with the
    fewest neighbours, ties in random order. The result is dense.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(100, degree=6, homophily=0.8, snr=1.0)
    >>> changed = (heterogeneous(1.0)(g).features != g.features).any(axis=1)
    >>> int(changed.sum())
    50
    """
    if where not in get_args(Where):
        raise InputError(f"unknown half {where!r}; use one of {', '.join(get_args(Where))}.")
    family = "heterogeneous"
    variant = "" if where == "random" else where
    return Shift(family, checked_level(family, level, 0.0), _HETEROGENEOUS[where], variant)


def mask(level: float) -> Shift:
    """Replace each entry by its column mean with probability ``level``.

    Masked entries are not zero (unless the column mean is), so sparse features fill up; they stay
    CSR while less than a tenth full and become dense beyond.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0]], edges=[[0, 1]])
    >>> mask(1.0)(g).features.ravel().tolist()
    [1.0, 1.0]
    """
    return Shift("mask", checked_level("mask", level, 0.0, 1.0), _mask)


def shuffle(level: float) -> Shift:
    """Permute whole feature rows among a random fraction ``level`` of the nodes; keeps sparsity.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[[0, 1]])
    >>> sorted(shuffle(1.0)(g).features.ravel().tolist())
    [1.0, 2.0, 3.0]
    """
    return Shift("shuffle", checked_level("shuffle", level, 0.0, 1.0), _shuffle)


def scale(level: float) -> Shift:
    r"""Change the contrast: :math:`x_{ij} \leftarrow m_j + l\,(x_{ij} - m_j)`.

    :math:`m_j` is the mean of column j. Not random. Dense unless l = 1, as every zero becomes
    :math:`(1 - l) m_j`.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0]], edges=[[0, 1]])
    >>> scale(3.0)(g).features.ravel().tolist()
    [-2.0, 4.0]
    """
    return Shift("scale", checked_level("scale", level, 0.0), _scale)


def offset(level: float) -> Shift:
    r"""Move the column means: :math:`x_{ij} \leftarrow x_{ij} + l\,s_j\,\varepsilon_j`.

    The change is the same at all nodes, like the drift of a sensor. The result is dense.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0]], edges=[[0, 1]])
    >>> round(float(np.ptp(offset(3.0)(g).features)), 5)
    2.0
    """
    return Shift("offset", checked_level("offset", level, 0.0), _offset)


def drop_columns(level: float) -> Shift:
    """Set a random fraction ``level`` of the columns to zero, like fields that are missing.

    Keeps sparsity.

    Examples
    --------
    >>> g = Graph(features=[[1.0, 2.0, 3.0, 4.0]], edges=[])
    >>> int((drop_columns(0.5)(g).features == 0).sum())
    2
    """
    return Shift("drop_columns", checked_level("drop_columns", level, 0.0, 1.0), _drop_columns)


def _dense(features: Features) -> NDArray[np.float32]:
    """Return a writable dense copy."""
    return features.copy() if isinstance(features, np.ndarray) else features.toarray()


def _noise(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on(graph, level, rng, np.arange(graph.num_nodes))


def _noise_on(graph: Graph, level: float, rng: Generator, nodes: NDArray[np.intp]) -> Graph:
    if level == 0.0:
        return graph
    _, std, row_type = moments_by_type(graph)
    size = (level * std).astype(np.float32)
    out = _dense(graph.features)
    for rows in row_blocks(nodes.size, graph.num_features):
        draw = rng.standard_normal((rows.stop - rows.start, graph.num_features), dtype=np.float32)
        chosen = rows if nodes.size == graph.num_nodes else nodes[rows]  # a slice is not copied
        draw *= _of_rows(size, row_type, chosen)
        out[chosen] += draw
    return graph.replace(features=out)


def _of_rows(
    values: NDArray[Any], row_type: NDArray[np.int64], rows: slice | NDArray[np.intp]
) -> NDArray[Any]:
    """Return the row of ``values`` (T, F) of each node's type; one row serves all nodes."""
    return values if len(values) == 1 else values[row_type[rows]]


def _noise_on_random_half(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on(graph, level, rng, half_of_nodes(graph, "random", rng))


def _noise_on_region(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on(graph, level, rng, half_of_nodes(graph, "region", rng))


def _noise_on_low_degree(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on(graph, level, rng, half_of_nodes(graph, "low-degree", rng))


def half_of_nodes(graph: Graph, where: Where, rng: Generator) -> NDArray[np.intp]:
    """Return the nodes that `heterogeneous` changes, in increasing order."""
    if where == "region":
        return _region(graph, rng)
    if where == "low-degree":
        order = np.lexsort((rng.random(graph.num_nodes), graph.degrees))
    else:
        order = rng.permutation(graph.num_nodes)
    return np.sort(order[: graph.num_nodes // 2])


_HETEROGENEOUS = {
    "random": _noise_on_random_half,
    "region": _noise_on_region,
    "low-degree": _noise_on_low_degree,
}


def _region(graph: Graph, rng: Generator) -> NDArray[np.intp]:
    """Return N // 2 nodes, connected as far as the components allow, in increasing order."""
    size = graph.num_nodes // 2
    matrix = adjacency(graph)
    count, component = connected_components(matrix, directed=False)
    centre = int(rng.integers(graph.num_nodes))
    # Whole components in random order, that of the centre first; of the first component that does
    # not fit, a breadth-first ball.
    rank = rng.permutation(count) + 1
    rank[component[centre]] = 0
    order = np.argsort(rank[component], kind="stable")
    ends = np.cumsum(np.bincount(rank[component], minlength=count + 1))
    last = int(np.searchsorted(ends, size))
    before = int(ends[last - 1]) if last else 0
    members = order[before : int(ends[last])]
    start = centre if last == 0 else int(rng.choice(members))
    ball = breadth_first_order(matrix, start, directed=False, return_predecessors=False)
    return np.sort(np.concatenate([order[:before], ball[: size - before]]))


def _mask(graph: Graph, level: float, rng: Generator) -> Graph:
    if level == 0.0:
        return graph
    features = graph.features
    means, _, row_type = moments_by_type(graph)
    mean = means.astype(np.float32)
    filled = 1.0  # the share of entries that are not zero
    if not isinstance(features, np.ndarray):
        filled = level * float((mean != 0).mean())
        filled += (1.0 - level) * features.nnz / (graph.num_nodes * graph.num_features)
    sparse = filled < _SPARSE
    parts: list[Any] = []
    out = np.empty((0 if sparse else graph.num_nodes, graph.num_features), np.float32)
    for rows in row_blocks(graph.num_nodes, graph.num_features):
        block = _dense(features[rows])
        average = _of_rows(mean, row_type, rows)
        masked = rng.random(block.shape, dtype=np.float32) < level
        # Products with 0 and 1 are exact, and several times faster than a copy under a mask.
        block *= ~masked
        block += average * masked
        if sparse:
            parts.append(sp.csr_matrix(block))
        else:
            out[rows] = block
    return graph.replace(features=sp.vstack(parts) if sparse else out)


def _shuffle(graph: Graph, level: float, rng: Generator) -> Graph:
    return graph.replace(features=graph.features[shuffled_nodes(graph, level, rng)])


def shuffled_nodes(graph: Graph, level: float, rng: Generator) -> NDArray[np.intp]:
    """Return the node whose features each node has after `shuffle`, (N,)."""
    chosen = rng.permutation(graph.num_nodes)[: round(level * graph.num_nodes)]
    origin = np.arange(graph.num_nodes)
    origin[chosen] = permuted_within_types(graph, chosen, rng)
    return origin


def _scale(graph: Graph, level: float, rng: Generator) -> Graph:
    if level == 1.0:
        return graph
    means, _, row_type = moments_by_type(graph)
    out = _dense(graph.features)
    for rows in row_blocks(*out.shape):
        mean = _of_rows(means, row_type, rows)
        out[rows] = mean + level * (out[rows] - mean)
    return graph.replace(features=out)


def _offset(graph: Graph, level: float, rng: Generator) -> Graph:
    if level == 0.0:
        return graph
    _, std, row_type = moments_by_type(graph)
    out = _dense(graph.features)
    moved = (level * std * rng.standard_normal(graph.num_features)).astype(np.float32)
    out += _of_rows(moved, row_type, slice(None))
    return graph.replace(features=out)


def columns_to_drop(width: int, level: float, rng: Generator) -> NDArray[np.bool_]:
    """Return which of ``width`` columns `drop_columns` sets to zero."""
    dropped = np.zeros(width, dtype=bool)
    dropped[rng.permutation(width)[: round(level * width)]] = True
    return dropped


def _drop_columns(graph: Graph, level: float, rng: Generator) -> Graph:
    dropped = columns_to_drop(graph.num_features, level, rng)
    features = graph.features
    if not isinstance(features, np.ndarray):
        sparse = features.copy()
        sparse.data = np.where(dropped[sparse.indices], np.float32(0), sparse.data)
        sparse.eliminate_zeros()
        return graph.replace(features=sparse)
    return graph.replace(features=np.where(dropped, np.float32(0), features))
