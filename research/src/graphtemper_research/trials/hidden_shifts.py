"""Shifts that no unlabelled number shows, or that break an assumption of the split views.

They make the targets of the negative controls. `class_noise` reads labels; the methods get its
result without them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from graphtemper import Graph
from graphtemper.graph import adjacency
from graphtemper_research.harness.numeric import column_moments, stream

# Columns are rotated in blocks of this size: a rotation of F columns costs F^3.
BLOCK = 256
REGION_NODES = 20


def rotate(graph: Graph, seed: int = 0) -> Graph:
    """Rotate the feature columns at random, within blocks of 256 random columns.

    Distances between nodes stay the same, but columns lose their meaning. The result is dense.

    Examples
    --------
    >>> g = Graph(features=[[3.0, 4.0], [0.0, 1.0]], edges=[[0, 1]])
    >>> np.linalg.norm(rotate(g).features, axis=1).round(5).tolist()
    [5.0, 1.0]
    """
    rng = stream(seed, "rotate")
    out = _dense(graph)
    order = rng.permutation(graph.num_features)
    for start in range(0, order.size, BLOCK):
        block = order[start : start + BLOCK]
        square, corner = np.linalg.qr(rng.standard_normal((block.size, block.size)))
        # With the signs of the corner's diagonal every rotation or reflection is equally likely.
        out[:, block] = out[:, block] @ (square * np.sign(np.diag(corner))).astype(np.float32)
    return graph.replace(features=out)


def swap_classes(labels: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """Return the labels with every class renamed to the next one; -1 stays.

    Examples
    --------
    >>> swap_classes(np.array([0, 1, 2, -1]), 3).tolist()
    [1, 2, 0, -1]
    """
    return np.where(labels < 0, labels, (labels + 1) % num_classes)


def regional_noise(graph: Graph, level: float = 1.0, seed: int = 0) -> Graph:
    """Add noise that is one vector per connected region: l x column std x N(0, 1).

    A region is the set of nodes nearest to one of N / 20 random centres; a node that no centre
    reaches is a region. Averaging over neighbours does not reduce this noise. The result is dense.

    Examples
    --------
    >>> g = Graph(features=np.arange(40.0)[:, None], edges=[[i, i + 1] for i in range(39)])
    >>> change = regional_noise(g).features - g.features
    >>> np.unique(change.round(3)).size    # 40 nodes around 2 centres
    2
    """
    rng = stream(seed, "regional noise")
    region = regions(graph, rng)
    draw = rng.standard_normal((int(region.max()) + 1, graph.num_features))
    return _add(graph, level * draw[region])


def regions(graph: Graph, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the region of every node, 0, 1, ...: that of the nearest random centre."""
    count = max(graph.num_nodes // REGION_NODES, 1)
    centres = np.sort(rng.choice(graph.num_nodes, count, replace=False))
    _, _, nearest = dijkstra(
        adjacency(graph),
        directed=False,
        indices=centres,
        unweighted=True,
        min_only=True,
        return_predecessors=True,
    )
    alone = np.arange(graph.num_nodes)
    return np.unique(np.where(nearest >= 0, nearest, alone), return_inverse=True)[1]


def row_noise(graph: Graph, level: float = 1.0, seed: int = 0) -> Graph:
    """Add one noise value per node, scaled by every column's std: l x std x N(0, 1).

    Both halves of a node's columns carry it, so comparing them does not show it. The result is
    dense.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 0.0], [2.0, 4.0]], edges=[[0, 1]])
    >>> change = row_noise(g).features - g.features
    >>> (change[:, 1] / change[:, 0]).round(3).tolist()
    [2.0, 2.0]
    """
    draw = stream(seed, "row noise").standard_normal((graph.num_nodes, 1))
    return _add(graph, level * draw)


def class_noise(graph: Graph, level: float = 1.5, seed: int = 0) -> Graph:
    """Add ``noise(level)`` to the nodes of the most frequent class only. The result is dense.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0], [4.0]], edges=[[0, 1]], labels=[1, 1, 0])
    >>> (class_noise(g).features != g.features).ravel().tolist()
    [True, True, False]
    """
    assert graph.labels is not None
    often = np.bincount(graph.labels[graph.labelled]).argmax()
    draw = stream(seed, "class noise").standard_normal(graph.features.shape)
    return _add(graph, level * draw * (graph.labels == often)[:, None])


def _add(graph: Graph, draw: NDArray[np.float64]) -> Graph:
    _, std = column_moments(graph.features)
    return graph.replace(features=_dense(graph) + (draw * std).astype(np.float32))


def _dense(graph: Graph) -> NDArray[np.float32]:
    """Return a fresh, writable dense copy of the features."""
    features = graph.features
    return features.copy() if isinstance(features, np.ndarray) else features.toarray()
