"""Shifts of the features. Column means and deviations are those of the graph being shifted.

In a graph with node types they are those of a node's own type, and rows are shuffled and blended
within types.

Sparse features stay sparse under `shuffle`, `blend` and `drop_columns`, and under `mask` and
`smooth` while the result is less than about a tenth full; beyond, products with a dense array are
several times faster. `noise`, `heterogeneous`, `scale` and `offset` change every entry and return a
dense (N, F) float32 array (4 N F bytes). They work on blocks of rows, so that memory is needed for
the result only.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components

from graphtemper import errors
from graphtemper._core.checks import FloatArray, checked_level
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import LONG_ROW, adjacency, multiply, operator, row_blocks
from graphtemper.shifts.base import Shift, moments_by_type, permuted_within_types

Where = Literal["random", "region", "low-degree"]
Generator = np.random.Generator

# Masked and smoothed features stay sparse while a smaller share of their entries is stored.
_SPARSE = 0.1
# Share of entries below which a product with sparse features is faster than one with dense ones.
_FEW = 0.03


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
        raise errors.choice(f"unknown half {where!r}; use one of {', '.join(get_args(Where))}.")
    family = "heterogeneous"
    variant = "" if where == "random" else where
    strength, change = checked_level(family, level, 0.0), _HETEROGENEOUS[where]
    return Shift(family, strength, change, variant)


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


def _noise(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noisy(graph, level, rng, None) if level else graph


def _noise_on_half(graph: Graph, level: float, rng: Generator, where: Where) -> Graph:
    nodes = half_of_nodes(graph, where, rng)
    return _noisy(graph, level, rng, nodes) if level else graph


def _noisy(graph: Graph, level: float, rng: Generator, nodes: NDArray[np.intp] | None) -> Graph:
    """Add noise of ``level`` column deviations to all rows, or to some."""
    _, std, row_type = moments_by_type(graph)
    size, out = level * std, _dense_copy(graph.features)
    count = graph.num_nodes if nodes is None else len(nodes)
    for block in row_blocks(count, max(graph.num_features, 1)):
        chosen = block if nodes is None else nodes[block]  # a slice is not copied
        draw = rng.standard_normal((block.stop - block.start, out.shape[1]), dtype=np.float32)
        draw *= _of_rows(size, row_type, chosen)
        out[chosen] += draw
    return graph.replace(features=out)


def _of_rows(
    values: FloatArray, row_type: NDArray[np.int64], rows: slice | NDArray[np.intp]
) -> NDArray[np.float32]:
    """Return values per type and column, (T, F), for each of some rows."""
    single = values.astype(np.float32)
    return single if len(single) == 1 else single[row_type[rows]]


def _dense_copy(features: Features) -> NDArray[np.float32]:
    return features.copy() if isinstance(features, np.ndarray) else features.toarray()


def _random_half(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on_half(graph, level, rng, "random")


def _region_half(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on_half(graph, level, rng, "region")


def _low_degree_half(graph: Graph, level: float, rng: Generator) -> Graph:
    return _noise_on_half(graph, level, rng, "low-degree")


# Functions of their own, so that shifts can be compared and sent to other processes.
_HETEROGENEOUS = {"random": _random_half, "region": _region_half, "low-degree": _low_degree_half}


def half_of_nodes(graph: Graph, where: Where, rng: Generator) -> NDArray[np.intp]:
    """Return the nodes that `heterogeneous` changes, in increasing order."""
    if where == "region":
        return _region(graph, rng)
    if where == "low-degree":
        order = np.lexsort((rng.random(graph.num_nodes), graph.degrees))
    else:
        order = rng.permutation(graph.num_nodes)
    return np.sort(order[: graph.num_nodes // 2])


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
    mean, _, row_type = moments_by_type(graph)
    filled = 1.0  # the share of entries that are not zero
    if not isinstance(features, np.ndarray):
        filled = level * float((mean != 0).mean())
        filled += (1.0 - level) * features.nnz / (graph.num_nodes * graph.num_features)
    sparse = filled < _SPARSE
    parts: list[Any] = []
    out = np.empty((0 if sparse else graph.num_nodes, graph.num_features), np.float32)
    for rows in row_blocks(graph.num_nodes, graph.num_features):
        some = features[rows]
        block = some.copy() if isinstance(some, np.ndarray) else some.toarray()
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
    chosen = rng.permutation(graph.num_nodes)[: round(level * graph.num_nodes)]
    origin = np.arange(graph.num_nodes)
    origin[chosen] = permuted_within_types(graph, chosen, rng)
    return graph.replace(features=graph.features[origin])


def _scale(graph: Graph, level: float, rng: Generator) -> Graph:
    if level == 1.0:
        return graph
    mean, _, row_type = moments_by_type(graph)
    rest, out = (1.0 - level) * mean, _dense_copy(graph.features)
    for rows in row_blocks(*out.shape):
        out[rows] = np.float32(level) * out[rows] + _of_rows(rest, row_type, rows)
    return graph.replace(features=out)


def _offset(graph: Graph, level: float, rng: Generator) -> Graph:
    directions = level * rng.standard_normal(graph.num_features)
    if not level:
        return graph
    _, std, row_type = moments_by_type(graph)
    out = _dense_copy(graph.features)
    out += _of_rows(directions * std, row_type, slice(None))
    return graph.replace(features=out)


def _drop_columns(graph: Graph, level: float, rng: Generator) -> Graph:
    dropped = np.zeros(graph.num_features, dtype=bool)
    dropped[rng.permutation(dropped.size)[: round(level * dropped.size)]] = True
    features = graph.features
    if isinstance(features, np.ndarray):
        return graph.replace(features=np.where(dropped, np.float32(0), features))
    sparse = features.copy()
    sparse.data = np.where(dropped[sparse.indices], np.float32(0), sparse.data)
    sparse.eliminate_zeros()
    return graph.replace(features=sparse)


def blend(level: float) -> Shift:
    r"""Blend features with those of a random node.

    :math:`x_i \leftarrow (1-l)\,x_i + l\,x_{\sigma(i)}`, where :math:`\sigma` is one random
    permutation of the nodes.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[[0, 1]])
    >>> float(blend(0.5)(g).features.mean())
    2.0
    """
    return Shift("blend", checked_level("blend", level, 0.0, 1.0), _blend)


def smooth(level: float) -> Shift:
    r"""Blend features with the mean of the neighbours.

    :math:`x_i \leftarrow (1-l)\,x_i + l\,\bar x_{N(i)}`; not random. Nodes without neighbours do
    not change. Noise is then shared between neighbours, as after imputation from them.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0], [4.0]], edges=[[0, 1], [1, 2]])
    >>> smooth(0.5)(g).features.ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    return Shift("smooth", checked_level("smooth", level, 0.0, 1.0), _smooth)


def _blend(graph: Graph, level: float, rng: Generator) -> Graph:
    origin = permuted_within_types(graph, np.arange(graph.num_nodes), rng)
    own, other = np.float32(1.0 - level), graph.features[origin] * np.float32(level)
    return graph.replace(features=graph.features * own + other if own else other)


def _smooth(graph: Graph, level: float, rng: Generator) -> Graph:
    weight = np.where(graph.degrees > 0, level, 0.0).astype(np.float32)
    links = graph if graph.edge_weight is None else graph.replace(edge_weight=None)
    features, mean = graph.features, operator(links, "mean")
    if not isinstance(features, np.ndarray):
        stored = features.nnz * (1.0 + mean.nnz / graph.num_nodes)
        if stored < _SPARSE * graph.num_nodes * graph.num_features:
            own, other = (sp.diags(part, format="csr") for part in (1.0 - weight, weight))
            return graph.replace(features=multiply(sp.csr_matrix(own + other @ mean), features))
    mixed = _neighbour_mean(mean, features)
    if not isinstance(features, np.ndarray):
        features = features.toarray()
    mixed *= weight[:, None]
    mixed += features * (1.0 - weight)[:, None]
    return graph.replace(features=mixed)


def _neighbour_mean(mean: sp.csr_matrix, features: Features) -> NDArray[np.float32]:
    """Return the product as a dense array, the same bytes for sparse features as for dense ones."""
    if isinstance(features, np.ndarray):
        return multiply(mean, features)
    count, width = features.shape
    # Sums of few entries skip the zeros; those of hubs are in double precision if dense.
    if features.nnz < _FEW * count * width and np.diff(mean.indptr).max() <= LONG_ROW:
        return np.asarray(multiply(mean, features).toarray())
    return multiply(mean, features.toarray())
