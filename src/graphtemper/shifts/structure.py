"""Shifts of the edges. Self-loops and duplicates that a draw creates are dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import InputError
from graphtemper.graph.checks import tidy_edges
from graphtemper.graph.graph import Graph
from graphtemper.shifts.base import Shift, checked_level

Generator = np.random.Generator


def rewire(level: float) -> Shift:
    """Give a share ``level`` of the edges a uniformly random second end.

    Which of the two ends is replaced is a fair coin toss: an undirected edge has no second end of
    its own, and replacing always the larger index would favour nodes by their number.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.9, snr=1.0)
    >>> r = rewire(1.0)(g)
    >>> bool(abs((r.labels[r.edges[:, 0]] == r.labels[r.edges[:, 1]]).mean() - 0.5) < 0.03)
    True
    """
    return Shift("rewire", checked_level("rewire", level, 0.0, 1.0), _rewire)


def drop(level: float) -> Shift:
    """Remove a random share ``level`` of the edges.

    Examples
    --------
    >>> g = Graph(features=np.ones((5, 1)), edges=[[0, 1], [1, 2], [2, 3], [3, 4]])
    >>> drop(0.5)(g).num_edges
    2
    """
    return Shift("drop", checked_level("drop", level, 0.0, 1.0), _drop)


def add(level: float) -> Shift:
    """Add ``level`` x E uniformly random edges; those that exist already add nothing.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=4, homophily=0.9, snr=1.0)
    >>> bool(abs(add(0.5)(g).num_edges / g.num_edges - 1.5) < 0.01)
    True
    """
    return Shift("add", checked_level("add", level, 0.0), _add)


def drop_hubs(level: float) -> Shift:
    """Remove a share ``level`` of the edges, each next one with odds max(degree of its ends).

    Hubs lose most, as when stored neighbour lists are capped.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.9, snr=1.0)
    >>> int(drop_hubs(0.5)(g).degrees.max()) < int(drop(0.5)(g).degrees.max())
    True
    """
    return Shift("drop_hubs", checked_level("drop_hubs", level, 0.0, 1.0), _drop_hubs)


def homophily(level: float) -> Shift:
    """Re-draw a share abs(level) of the edges within classes (> 0) or between classes (< 0).

    One end of the edge (a coin toss) stays; the other becomes a uniformly random other node of the
    same class, or a uniformly random node of another class. Uses labels, so it is for the source
    graph only. Edges whose staying end is unlabelled, or has no such partner, are left alone.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.5, snr=1.0)
    >>> more = homophily(1.0)(g)
    >>> bool((more.labels[more.edges[:, 0]] == more.labels[more.edges[:, 1]]).all())
    True
    """
    return Shift("homophily", checked_level("homophily", level, -1.0, 1.0), _homophily)


def _chosen(graph: Graph, level: float, rng: Generator) -> NDArray[np.intp]:
    return rng.permutation(graph.num_edges)[: round(level * graph.num_edges)]


def _keep(graph: Graph, gone: NDArray[np.intp]) -> Graph:
    stays = np.ones(graph.num_edges, dtype=bool)
    stays[gone] = False
    return graph.keep_edges(stays)


def _rewire(graph: Graph, level: float, rng: Generator) -> Graph:
    edges = graph.edges.copy()
    chosen = _chosen(graph, level, rng)
    second = rng.integers(2, size=chosen.size)
    edges[chosen, second] = rng.integers(graph.num_nodes, size=chosen.size)
    return graph.replace(edges=tidy_edges(edges, graph.num_nodes))


def _drop(graph: Graph, level: float, rng: Generator) -> Graph:
    return _keep(graph, _chosen(graph, level, rng))


def _add(graph: Graph, level: float, rng: Generator) -> Graph:
    new = rng.integers(graph.num_nodes, size=(round(level * graph.num_edges), 2))
    return graph.replace(edges=tidy_edges(np.concatenate([graph.edges, new]), graph.num_nodes))


def _drop_hubs(graph: Graph, level: float, rng: Generator) -> Graph:
    weight = graph.degrees[graph.edges].max(axis=1, initial=1)
    # The smallest of exponential waiting times with rate w: weighted sampling without replacement.
    waiting = rng.standard_exponential(graph.num_edges) / weight
    return _keep(graph, np.argsort(waiting, kind="stable")[: round(level * graph.num_edges)])


def _homophily(graph: Graph, level: float, rng: Generator) -> Graph:
    if graph.labels is None:
        raise InputError("the homophily shift needs labels; apply it to the labelled source graph.")
    edges = graph.edges.copy()
    chosen = _chosen(graph, abs(level), rng)
    moving = rng.integers(2, size=chosen.size)
    draw = rng.random(chosen.size)
    kept = edges[chosen, 1 - moving]
    partner = _partner(graph.labels, kept, draw, same=level > 0)
    found = partner >= 0
    edges[chosen[found], moving[found]] = partner[found]
    return graph.replace(edges=tidy_edges(edges, graph.num_nodes))


def _partner(
    labels: NDArray[np.int64], nodes: NDArray[np.int32], draw: NDArray[np.float64], *, same: bool
) -> NDArray[np.int64]:
    """Return for each node the partner that ``draw`` in [0, 1) picks, or -1 where there is none."""
    labelled = np.flatnonzero(labels >= 0)
    order = labelled[np.argsort(labels[labelled], kind="stable")]
    sizes = np.bincount(labels[labelled], minlength=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    position = np.zeros(labels.size, dtype=np.int64)
    position[order] = np.arange(order.size)
    own = np.maximum(labels[nodes], 0)
    # The excluded stretch of `order`: the node itself, or its whole class.
    first = position[nodes] if same else starts[own]
    length = np.ones_like(own) if same else sizes[own]
    available = (sizes[own] if same else order.size) - length
    pick = np.minimum((draw * available).astype(np.int64), available - 1)
    pick += starts[own] if same else 0
    pick += np.where(pick >= first, length, 0)
    usable = (labels[nodes] >= 0) & (available > 0)
    result = np.full(nodes.size, -1, dtype=np.int64)
    result[usable] = order[pick[usable]]
    return result
