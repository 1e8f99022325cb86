"""Shifts of the edges. Self-loops and duplicates among drawn edges are dropped.

Attributes stay with their edge (`Links`). In a directed graph all edges between two nodes are
changed together and keep their directions: a fraction l of the links (pairs of nodes that an edge
joins). An added link is a copy of a random one, with its attributes and types, between random
nodes; in a graph with node types the new ends have the types of the old ones. Self-loops that the
graph has are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import checked_level
from graphtemper.graph.attributes import EDGE_FIELDS, link_numbers, merged_edges
from graphtemper.graph.checks import tidy_edges
from graphtemper.graph.graph import Graph
from graphtemper.shifts.base import Shift

Generator = np.random.Generator


def rewire(level: float) -> Shift:
    """Give a fraction ``level`` of the edges a uniformly random second end.

    A fair coin toss chooses the end to replace: always replacing the larger index would depend on
    how nodes are numbered.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.9, snr=1.0)
    >>> r = rewire(1.0)(g)
    >>> print(f"{(r.labels[r.edges[:, 0]] == r.labels[r.edges[:, 1]]).mean():.2f}")
    0.50
    """
    return Shift("rewire", checked_level("rewire", level, 0.0, 1.0), _rewire)


def drop(level: float) -> Shift:
    """Remove a random fraction ``level`` of the edges.

    Examples
    --------
    >>> g = Graph(features=np.ones((5, 1)), edges=[[0, 1], [1, 2], [2, 3], [3, 4]])
    >>> drop(0.5)(g).num_edges
    2
    """
    return Shift("drop", checked_level("drop", level, 0.0, 1.0), _drop)


def add(level: float) -> Shift:
    """Add ``level`` x E uniformly random edges; drawn edges that already exist are dropped.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=4, homophily=0.9, snr=1.0)
    >>> print(f"{add(0.5)(g).num_edges / g.num_edges:.2f}")
    1.50
    """
    return Shift("add", checked_level("add", level, 0.0), _add)


def drop_hubs(level: float) -> Shift:
    """Remove a fraction ``level`` of the edges, with odds proportional to max(degree of the ends).

    Hubs lose most, as when stored neighbour lists are truncated.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.9, snr=1.0)
    >>> int(drop_hubs(0.5)(g).degrees.max()), int(drop(0.5)(g).degrees.max())
    (12, 14)
    """
    return Shift("drop_hubs", checked_level("drop_hubs", level, 0.0, 1.0), _drop_hubs)


def homophily(level: float) -> Shift:
    """Redraw a fraction abs(level) of the edges within classes (> 0) or between classes (< 0).

    One end of the edge, chosen by a coin toss, stays; the other becomes a uniformly random other
    node of the same class, or a uniformly random node of another class. Uses labels, so it is for
    the source graph only. Edges whose fixed end is unlabelled or has no such partner do not change.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(1000, degree=10, homophily=0.5, snr=1.0)
    >>> more = homophily(1.0)(g)
    >>> print((more.labels[more.edges[:, 0]] == more.labels[more.edges[:, 1]]).mean())
    1.0
    """
    return Shift("homophily", checked_level("homophily", level, -1.0, 1.0), _homophily)


def _chosen(links: Links, level: float, rng: Generator) -> NDArray[np.intp]:
    return rng.permutation(len(links.pairs))[: round(level * len(links.pairs))]


def _without(graph: Graph, links: Links, removed: NDArray[np.intp]) -> Graph:
    keep = np.ones(len(links.pairs) + 1, dtype=bool)  # self-loops have the number -1
    keep[removed] = False
    return graph.keep_edges(keep[links.number])


def _rewire(graph: Graph, level: float, rng: Generator) -> Graph:
    links = Links.of(graph)
    pairs = links.pairs.copy()
    chosen = _chosen(links, level, rng)
    second = rng.integers(2, size=chosen.size)
    pairs[chosen, second] = _random_ends(graph, pairs[chosen, second], rng)
    return links.moved(graph, pairs)


def _random_ends(graph: Graph, nodes: NDArray[np.integer], rng: Generator) -> NDArray[np.int64]:
    """Return a uniformly random node of the same type for each node."""
    if graph.node_type is None:
        return rng.integers(graph.num_nodes, size=nodes.shape)
    order = np.argsort(graph.node_type, kind="stable")
    counts = np.bincount(graph.node_type)
    kinds = graph.node_type[nodes]
    first = np.cumsum(counts) - counts
    return np.asarray(order[first[kinds] + rng.integers(counts[kinds])])


def _drop(graph: Graph, level: float, rng: Generator) -> Graph:
    links = Links.of(graph)
    return _without(graph, links, _chosen(links, level, rng))


def _add(graph: Graph, level: float, rng: Generator) -> Graph:
    links = Links.of(graph)
    count = round(level * len(links.pairs))
    if graph.is_plain:
        new = rng.integers(graph.num_nodes, size=(count, 2))
        return graph.replace(edges=tidy_edges(np.concatenate([graph.edges, new]), graph.num_nodes))
    originals = rng.integers(len(links.pairs), size=count)
    return links.with_copies(graph, originals, _random_ends(graph, links.pairs[originals], rng))


def _drop_hubs(graph: Graph, level: float, rng: Generator) -> Graph:
    links = Links.of(graph)
    degrees = np.bincount(links.pairs.ravel(), minlength=graph.num_nodes)
    weight = degrees[links.pairs].max(axis=1, initial=1)
    # The smallest exponential waiting times with rates w: weighted sampling without replacement.
    waiting = rng.standard_exponential(len(weight)) / weight
    count = round(level * len(weight))
    return _without(graph, links, np.argsort(waiting, kind="stable")[:count])


def _homophily(graph: Graph, level: float, rng: Generator) -> Graph:
    if graph.labels is None:
        raise errors.no_labels(
            "the homophily shift needs labels; apply it to the labelled source graph."
        )
    links = Links.of(graph)
    pairs = links.pairs.copy()
    chosen = _chosen(links, abs(level), rng)
    moving = rng.integers(2, size=chosen.size)
    draw = rng.random(chosen.size)
    fixed = pairs[chosen, 1 - moving]
    partner = _partner(graph.labels, fixed, draw, same=level > 0)
    exists = partner >= 0
    if graph.node_type is not None:  # a node of another type has no class to redraw from
        exists &= graph.node_type[partner] == graph.node_type[pairs[chosen, moving]]
    pairs[chosen[exists], moving[exists]] = partner[exists]
    return links.moved(graph, pairs)


def _partner(
    labels: NDArray[np.int64], nodes: NDArray[np.int32], draw: NDArray[np.float64], *, same: bool
) -> NDArray[np.int64]:
    """Return the partner of each node that ``draw`` in [0, 1) selects, or -1 if there is none."""
    labelled = np.flatnonzero(labels >= 0)
    order = labelled[np.argsort(labels[labelled], kind="stable")]
    sizes = np.bincount(labels[labelled], minlength=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    position = np.zeros(labels.size, dtype=np.int64)
    position[order] = np.arange(order.size)
    own = np.maximum(labels[nodes], 0)
    # The part of `order` to exclude: the node itself, or its whole class.
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


Pairs = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Links:
    """All pairs of nodes that an edge joins, each once, and the number of each edge's pair.

    `Graph.links` are those between classified nodes; here are the pairs of all nodes.

    Examples
    --------
    >>> arcs = [[2, 0], [0, 2], [1, 1]]
    >>> g = Graph(features=np.ones((4, 1)), edges=arcs, directed=True, edge_weight=[5.0, 6.0, 7.0])
    >>> links = Links.of(g)
    >>> links.pairs.tolist(), links.number.tolist()
    ([[0, 2]], [0, 0, -1])
    >>> moved = links.moved(g, np.array([[0, 3]]))
    >>> moved.edges.tolist(), moved.edge_weight.tolist()
    ([[3, 0], [0, 3], [1, 1]], [5.0, 6.0, 7.0])
    """

    pairs: NDArray[np.int32]
    number: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Links:
        """Return the links of a graph; those of an undirected one are its edges, in their order."""
        if not graph.directed:
            return cls(graph.edges, np.arange(graph.num_edges))
        return cls(*link_numbers(graph.edges, graph.num_nodes))

    def moved(self, graph: Graph, pairs: Pairs) -> Graph:
        """Return the graph with each link's edges between the nodes of ``pairs`` instead.

        Row i of ``pairs`` replaces link i. Links that became self-loops are dropped, and of links
        that came to join the same nodes, those that moved there.
        """
        if graph.is_plain:
            return graph.replace(edges=tidy_edges(pairs, graph.num_nodes))
        stays = (pairs == self.pairs).all(axis=1)
        kept = _distinct(pairs, graph.num_nodes, first=stays)
        rows = np.flatnonzero(np.append(kept, True)[self.number])
        return _rebuilt(graph, self._ends(graph, rows, pairs), rows)

    def with_copies(self, graph: Graph, originals: NDArray[np.int64], pairs: Pairs) -> Graph:
        """Return the graph with copies of the links ``originals`` between the nodes of ``pairs``.

        Copies that join a node to itself, or nodes that are linked already, are left out.
        """
        old = np.arange(len(self.pairs) + len(pairs)) < len(self.pairs)
        keep = _distinct(np.concatenate([self.pairs, pairs]), graph.num_nodes, first=old)[~old]
        originals, pairs = originals[keep], pairs[keep]
        order = np.argsort(self.number, kind="stable")
        first, last = (
            np.searchsorted(self.number[order], originals, side=side) for side in ("left", "right")
        )
        sizes = last - first
        copy = np.repeat(np.arange(originals.size), sizes)
        inside = np.arange(copy.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = order[first[copy] + inside]
        flipped = graph.edges[rows, 0] > graph.edges[rows, 1]
        ends = np.where(flipped[:, None], pairs[copy][:, ::-1], pairs[copy])
        everything = np.concatenate([np.arange(graph.num_edges), rows])
        return _rebuilt(graph, np.concatenate([graph.edges, ends]), everything)

    def _ends(self, graph: Graph, rows: NDArray[np.int64], pairs: Pairs) -> Pairs:
        """Return the new ends of some edges, in the direction that each had."""
        ends, number = graph.edges[rows], self.number[rows]
        linked = number >= 0  # self-loops have the number -1, and stay
        flipped, new = ends[linked, 0] > ends[linked, 1], pairs[number[linked]]
        ends[linked] = np.where(flipped[:, None], new[:, ::-1], new)
        return ends


def _distinct(pairs: Pairs, num_nodes: int, first: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which pairs to keep: no self-loops, and of equal pairs one, in ``first`` if any is."""
    low, high = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1)
    keys = low * num_nodes + high
    order = np.lexsort((np.arange(keys.size), ~first, keys))
    keep = np.zeros(keys.size, dtype=bool)
    keep[order[np.append(True, keys[order][1:] != keys[order][:-1])[: keys.size]]] = True
    return np.asarray(keep & (low != high))


def _rebuilt(graph: Graph, ends: Pairs, rows: NDArray[np.int64]) -> Graph:
    """Return the graph with these edges, which have the attributes of the given rows."""
    attributes = {
        key: getattr(graph, key)[rows] for key in EDGE_FIELDS if getattr(graph, key) is not None
    }
    if graph.directed:
        return graph.replace(edges=ends, **attributes)
    return graph.replace(**merged_edges(ends, attributes, graph.num_nodes))
