"""The part of a graph that some of its nodes span."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper.graph.graph import Graph


def induced(graph: Graph, nodes: NDArray[np.int64]) -> Graph:
    """Return the subgraph of some nodes and the edges between them; stored splits are dropped.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[[0, 1], [1, 2]], labels=[0, 1, 1])
    >>> part = induced(g, np.array([1, 2]))
    >>> part.features.ravel().tolist(), part.edges.tolist(), part.labels.tolist()
    ([2.0, 3.0], [[0, 1]], [1, 1])
    """
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[nodes] = np.arange(nodes.size)
    edges = place[graph.edges]
    return Graph.from_edges(
        graph.features[nodes],
        edges[(edges >= 0).all(axis=1)],
        labels=None if graph.labels is None else graph.labels[nodes],
        time=None if graph.time is None else graph.time[nodes],
        name=graph.name,
        class_names=graph.class_names,
        feature_names=graph.feature_names,
    )
