"""Normalised operators of edge subsets, without building a matrix for each subset.

Edge dropout and neighbour views need many subsets of one graph. The CSR structure is built once,
with the index of the edge at each entry; a subset changes the weights only, and edges outside it
have weight zero.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import Operator, normalised_weights


class EdgeSubsets:
    """The normalised operators of all edge subsets of a graph.

    Examples
    --------
    >>> from graphtemper.graph.operators import operator
    >>> g = Graph(features=[[1.0], [0.0], [2.0]], edges=[[0, 1], [1, 2]])
    >>> subsets = EdgeSubsets(g, "self-loop")
    >>> one = subsets.operator(np.array([True, False]))
    >>> expected = operator(g.replace(edges=[[0, 1]]))
    >>> bool(np.allclose(one.toarray(), expected.toarray()))
    True
    """

    def __init__(self, graph: Graph, kind: Operator = "self-loop") -> None:
        self._graph, self._kind = graph, kind
        low, high = graph.edges[:, 0], graph.edges[:, 1]
        own = np.arange(graph.num_nodes) if kind == "self-loop" else np.empty(0, np.int64)
        # Edges are numbered from 1, as SciPy may drop stored zeros; self-loops come last.
        dtype = np.int32 if graph.num_edges < np.iinfo(np.int32).max else np.int64
        edge = np.arange(1, graph.num_edges + 1, dtype=dtype)
        number = np.concatenate([edge, edge, np.full(own.size, graph.num_edges + 1, dtype)])
        rows, columns = np.concatenate([low, high, own]), np.concatenate([high, low, own])
        shape = (graph.num_nodes, graph.num_nodes)
        matrix = sp.csr_matrix((number, (rows, columns)), shape=shape)
        self._number = matrix.data - 1
        self._structure = (matrix.indices, matrix.indptr)

    def operator(self, keep: NDArray[np.bool_]) -> sp.csr_matrix:
        """Return the operator of the edges with ``keep`` true, (E,) bool."""
        graph = self._graph
        degrees = np.bincount(graph.edges[keep].ravel(), minlength=graph.num_nodes)
        indices, indptr = self._structure
        weights = normalised_weights(degrees, indices, indptr, self._kind)
        weights *= np.append(keep, True)[self._number]
        shape = (graph.num_nodes, graph.num_nodes)
        return sp.csr_matrix((weights.astype(np.float32), indices, indptr), shape=shape)
