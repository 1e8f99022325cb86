r"""How far predictions depend on each other, beyond what their classes explain.

A model that averages over neighbours gives nodes with common neighbours similar errors. The shares
of the predictions then vary more between graphs of one kind than those of as many independent
nodes: by the design effect

.. math:: d = \frac{1^\top C 1}{\operatorname{tr} C}, \qquad
          C = \sum_h c_h K_h, \qquad K_0 = I, \quad K_h = P^h (P^h)^\top,

with the covariance C of the predictions given the classes. The kernels K are those of independent
noise at every node that is averaged over h hops by P, the mean over a node and what it receives
from. One and two hops count; in a directed graph both along its edges and, as some models read
them, in both directions.

The weights c are the least squares fit of C to the products of residuals at labelled nodes,
:math:`\min_{c \ge 0} |r r^\top - M C M|^2`, where M removes the mean of each class. Products along
edges are positive also where neighbours are wrong because they have the same neighbours of other
classes; this counts as dependence, so the estimate is rather too large than too small where classes
cluster. Traces are estimated with random signs.

References
----------
Haseman & Elston, Behavior Genetics 1972 (regression of products on kernels); Hutchinson,
Communications in Statistics 1990 (traces); Kish, "Survey Sampling", 1965 (design effects).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import multiply
from graphtemper.signals.passes import Keys, mixed, node_keys

HOPS = 2
MOST_PARTS = 1 + 2 * HOPS
"""Number of kernels in a directed graph; an undirected one has 1 + HOPS."""
_PROBES = 16
_COLUMNS = 16
_RIDGE = 1e-9


def measure(
    graph: Graph,
    nodes: NDArray[np.int64],
    values: FloatArray,
    labels: NDArray[np.int64],
    keys: Keys | None = None,
) -> FloatArray:
    """Return the weights c of the kernels, which sum to 1.

    Parameters
    ----------
    graph
        The graph that the model has read.
    nodes : (m,) array
        Labelled nodes.
    values : (m, K) array
        Their probabilities.
    labels : (m,) array
    keys : (N,) array, optional
        `signals.passes.node_keys` of the graph, if they are known.

    Examples
    --------
    Independent errors, and errors that are means over pairs:

    >>> rng = np.random.default_rng(0)
    >>> pairs = np.arange(4000).reshape(-1, 2)
    >>> g = Graph(features=np.arange(4000.0)[:, None], edges=pairs)
    >>> own = rng.standard_normal((4000, 1))
    >>> common = np.repeat(own[::2] + own[1::2], 2, axis=0)
    >>> y, nodes = np.zeros(4000, dtype=int), np.arange(4000)
    >>> [round(design_effect(g, nodes, measure(g, nodes, x, y)), 1) for x in (own, common)]
    [1.0, 2.0]
    """
    means = _ClassMeans(labels)
    residuals = means.removed(values)
    scale = np.sqrt(np.maximum(np.abs(values).mean(axis=0), 1e-12))
    residuals = residuals / scale
    walks = _walks(graph)
    products = np.concatenate(
        [[float((residuals**2).sum())], *(walk.squares(nodes, residuals) for walk in walks)]
    )
    signs = means.removed(_signs(graph, nodes, keys))
    smooth = [signs]
    for walk in walks:
        smooth += [means.removed(item) for item in walk.kernels(nodes, signs)]
    gram = np.array([[float((a * b).sum()) / _PROBES for b in smooth] for a in smooth])
    return _non_negative_fit(gram, products)


def design_effect(
    graph: Graph, nodes: NDArray[np.int64], parts: FloatArray, keys: Keys | None = None
) -> float:
    """Return the variance of a sum over nodes, over that of as many independent ones; at least 1.

    ``parts`` are the weights of the kernels, measured at the source.
    """
    ones, signs = np.ones((nodes.size, 1)), _signs(graph, nodes, keys)
    sums, traces = [float(nodes.size)], [float(nodes.size)]
    for walk in _walks(graph)[: (len(parts) - 1) // HOPS]:
        sums += walk.squares(nodes, ones).tolist()
        traces += (walk.squares(nodes, signs) / _PROBES).tolist()
    if len(sums) < len(parts):  # both walks of a directed source are the same here
        sums, traces = sums + sums[1:], traces + traces[1:]
    variance = float(parts @ traces)
    return max(float(parts @ sums) / variance, 1.0) if variance > 0.0 else 1.0


class _Walk:
    """The mean P over a node and what it receives from, as a matrix of weights and their sums."""

    def __init__(self, weights: sp.csr_matrix) -> None:
        self._weights = weights
        self._transposed = sp.csr_matrix(weights.T)
        self._sums = 1.0 + np.asarray(weights.sum(axis=1), dtype=np.float64)

    def squares(self, nodes: NDArray[np.int64], columns: FloatArray) -> FloatArray:
        """Return the sum over columns x at the nodes of x'Kx, for each number of hops."""
        total = np.zeros(HOPS)
        for start in range(0, columns.shape[1], _COLUMNS):
            block = columns[:, start : start + _COLUMNS]
            total += [float((item**2).sum()) for item in self._back(nodes, block)]
        return total

    def kernels(self, nodes: NDArray[np.int64], columns: FloatArray) -> Iterator[FloatArray]:
        """Yield Kx at the nodes, for each number of hops."""
        for hops, product in enumerate(self._back(nodes, columns), start=1):
            forward = product
            for _ in range(hops):
                forward = (multiply(self._weights, forward) + forward) / self._sums
            yield forward[nodes]

    def _back(self, nodes: NDArray[np.int64], columns: FloatArray) -> Iterator[FloatArray]:
        product = np.zeros((self._weights.shape[0], columns.shape[1]))
        product[nodes] = columns
        for _ in range(HOPS):
            scaled = product / self._sums
            product = multiply(self._transposed, scaled) + scaled
            yield product


class _ClassMeans:
    """Means over the nodes of each class."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        _, self._labels = np.unique(labels, return_inverse=True)
        self._counts = np.bincount(self._labels)[:, None]

    def removed(self, values: FloatArray) -> FloatArray:
        """Return the values minus the mean of their class."""
        sums = [np.bincount(self._labels, column) for column in values.T]
        return np.asarray(values - (np.array(sums).T / self._counts)[self._labels])


def _walks(graph: Graph) -> list[_Walk]:
    """Return the walk along received edges and, in a directed graph, that in both directions."""
    size = graph.num_nodes
    senders, receivers = graph.edges.T
    weights = np.ones(graph.num_edges)
    if graph.edge_weight is not None:
        weights = np.abs(np.asarray(graph.edge_weight, dtype=np.float64))
    received = sp.csr_matrix((weights, (receivers, senders)), (size, size))
    both = _Walk(sp.csr_matrix(received + received.T))
    return [_Walk(received), both] if graph.directed else [both]


def _signs(graph: Graph, nodes: NDArray[np.int64], keys: Keys | None) -> FloatArray:
    """Return random signs, (m, probes), that do not depend on the numbers of the nodes."""
    bits = mixed((node_keys(graph) if keys is None else keys)[nodes])
    chosen = (bits[:, None] >> np.arange(_PROBES, dtype=np.uint64)) & np.uint64(1)
    return np.asarray(2.0 * chosen - 1.0)


def _non_negative_fit(gram: FloatArray, products: FloatArray) -> FloatArray:
    """Return the shares of the weights c >= 0 that minimise c'Gc - 2 c'b."""
    from scipy.optimize import nnls

    independent: FloatArray = np.eye(len(products))[0]
    size = float(np.trace(gram))
    if not (size > 0.0 and products[0] > 0.0):
        return independent
    root = np.linalg.cholesky(gram + _RIDGE * size * np.eye(len(gram)))
    weights = nnls(root.T, np.linalg.solve(root, products))[0]
    return np.asarray(weights / weights.sum()) if weights.any() else independent
