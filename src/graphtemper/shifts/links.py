"""The links of a graph, moved and copied together with the attributes of their edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper.graph.attributes import EDGE_FIELDS, link_numbers, merged_edges
from graphtemper.graph.checks import tidy_edges
from graphtemper.graph.graph import Graph

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
