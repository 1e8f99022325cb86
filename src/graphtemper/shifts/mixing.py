"""Shifts that mix the features of nodes.

A mixed row holds the entries of all rows it was mixed from. Sparse features stay sparse under
`blend`, and under `smooth` while the result is less than about a tenth full.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import checked_level
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import LONG_ROW, multiply, operator
from graphtemper.shifts.base import Shift, permuted_within_types
from graphtemper.shifts.seen import Step

Generator = np.random.Generator

# Smoothed features stay sparse while a smaller share of their entries is likely to be stored.
_SPARSE = 0.1
# Share of entries below which a product with sparse features is faster than one with dense ones.
_FEW = 0.03


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
    return Shift("blend", checked_level("blend", level, 0.0, 1.0), _blend, reads_features=False)


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


def _blend(graph: Graph, level: float, rng: Generator) -> Step:
    origin = permuted_within_types(graph, np.arange(graph.num_nodes), rng)
    return Step(lambda seen: seen.mixed(1.0 - level, level, origin))


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
