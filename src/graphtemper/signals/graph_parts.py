"""Receptive fields: the parts of a large graph that a model reads around some of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows, Whole, ball
from graphtemper.graph.operators import adjacency
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals.covariances import centred
from graphtemper.signals.observation import Observation

MOST_ROWS, MOST_LINKS, MOST_SHARE = 400_000, 4_000_000, 0.5
"""Largest parts of a graph in memory: nodes, links, and the share of the graph."""


class InMemory(Whole):
    """The graph of an observation as a `Whole`."""

    def __init__(self, observation: Observation) -> None:
        self.graph = graph = observation.graph
        self.num_nodes, self.num_edges = graph.num_nodes, graph.num_edges
        self.num_links, self.is_plain = len(graph.links), graph.is_plain

    def near(self, nodes: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `Whole`."""
        rows = adjacency(self.graph)[nodes]
        return rows.indices, rows.indptr

    def ball(self, centre: Rows, radius: int) -> Rows:
        """See `Whole`."""
        return ball(adjacency(self.graph), centre, radius)

    def degrees(self, nodes: Rows) -> Rows:
        """See `Whole`."""
        return np.asarray(self.graph.degrees[nodes])

    def part(self, nodes: Rows, inner: Rows) -> Graph:
        """See `Whole`."""
        part = self.graph.subgraph(nodes)
        read = np.zeros(nodes.size, dtype=bool)
        read[np.searchsorted(nodes, inner)] = True
        return part.keep_links(np.asarray(read[part.links].any(axis=1)))

    def readable(self, rows: int, links: int) -> bool:
        """See `Whole`."""
        few = rows <= min(MOST_ROWS, MOST_SHARE * self.num_nodes)
        return few and links <= min(MOST_LINKS, MOST_SHARE * self.num_links)


class Reach(NamedTuple):
    """How far a model reads: over how many edges, and whether it also needs the outer degrees."""

    depth: int
    padded: bool


@dataclass(frozen=True, eq=False)
class Field:
    """The nodes that a model reads around a centre, and the links that messages to it take."""

    graph: Graph
    nodes: Rows

    @classmethod
    def of(cls, whole: Whole, centre: Rows, reach: Reach) -> Field | None:
        """Return the field of the nodes ``centre``; None if it is too large to read."""
        inner = whole.ball(centre, reach.depth - 1)
        nodes = None if inner is None else whole.ball(inner, 1)
        if inner is None or nodes is None:
            return None
        degrees = whole.degrees(nodes) if reach.padded else None
        if degrees is not None and not whole.readable(nodes.size, int(degrees.sum())):
            return None
        part = whole.part(nodes, inner)
        if degrees is not None:
            missing = degrees - part.degrees
            if not whole.readable(nodes.size + int(missing.max(initial=0)), part.num_edges):
                return None  # too many empty nodes
            part = _with_degrees(part, missing)
        return cls(part, nodes)

    def rows(self, nodes: Rows) -> Rows:
        """Return the rows of some nodes of the whole graph."""
        return np.searchsorted(self.nodes, nodes)


def _with_degrees(graph: Graph, missing: Rows) -> Graph:
    """Return the graph with edges to empty nodes, as many per node as it is missing."""
    count, empty = graph.num_nodes, int(missing.max(initial=0))
    owners = np.repeat(np.arange(count), missing)
    ends = count + np.arange(owners.size) - np.repeat(np.cumsum(missing) - missing, missing)
    features = graph.features
    if isinstance(features, np.ndarray):
        features = np.vstack([features, np.zeros((empty, graph.num_features), features.dtype)])
    else:
        blank = sp.csr_matrix((empty, graph.num_features), dtype=features.dtype)
        features = sp.vstack([features, blank], format="csr")
    edges = np.vstack([graph.edges, np.column_stack([owners, ends]).astype(np.int32)])
    return Graph(features=features, edges=edges)


def relative_work(part: Graph, whole: Whole) -> float:
    """Return the work of a pass over a part, relative to one over the whole graph.

    It is the mean of the shares of nodes and of edges.
    """
    edges = part.num_edges / whole.num_edges if whole.num_edges else 1.0
    return 0.5 * (part.num_nodes / whole.num_nodes + edges)


def logits_on(predictor: Predictor, graph: Graph) -> FloatArray | None:
    """Return centred logits, or None if the model does not run on a part of the graph."""
    try:
        return centred(predict(predictor, graph))
    except Exception:  # the user's code, which may need the whole graph for any reason
        return None
