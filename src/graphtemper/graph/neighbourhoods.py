"""Neighbourhoods: the nodes within some edges of others, and large graphs read in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.reproducible import Keys, mixed

if TYPE_CHECKING:
    from graphtemper.graph.graph import Graph

Rows = NDArray[np.int64]


def ball(adjacency: sp.csr_matrix, centre: Rows, radius: int) -> Rows:
    """Return all nodes within ``radius`` edges of the centre, sorted.

    Examples
    --------
    >>> path = sp.diags([1.0, 1.0], [-1, 1], shape=(6, 6), format="csr")
    >>> ball(path, np.array([0, 5]), 1).tolist()
    [0, 1, 4, 5]
    """
    inside = np.zeros(adjacency.shape[0], dtype=bool)
    inside[centre] = True
    boundary = centre
    for _ in range(radius):
        reached = np.zeros_like(inside)
        reached[adjacency[boundary].indices] = True
        boundary = np.flatnonzero(reached & ~inside)
        inside[boundary] = True
    return np.flatnonzero(inside)


class Whole(ABC):
    """A large graph of which parts are read.

    Attributes
    ----------
    num_nodes, num_edges, num_links : int
        Numbers of nodes, of edges, and of pairs of neighbours.
    is_plain : bool
        Whether edges have neither directions nor attributes, nor nodes types.
    on_disk : bool
        Whether the graph is in files, which are never read whole.
    """

    num_nodes: int
    num_edges: int
    num_links: int
    is_plain: bool
    on_disk = False

    def fresh(self) -> Whole:
        """Return the same graph without what was kept of earlier reads."""
        return self

    def keys(self, nodes: NDArray[Any]) -> Keys:
        """Return the numbers by which nodes are drawn, see `graphtemper.signals.sampling`."""
        return mixed(nodes.astype(np.uint64))

    @abstractmethod
    def near(self, nodes: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the neighbours of nodes, and where those of each node start."""

    @abstractmethod
    def ball(self, centre: Rows, radius: int) -> Rows | None:
        """Return all nodes within ``radius`` edges, sorted; None if they are too many to read."""

    @abstractmethod
    def degrees(self, nodes: Rows) -> Rows:
        """Return the number of neighbours of nodes."""

    @abstractmethod
    def part(self, nodes: Rows, inner: Rows) -> Graph:
        """Return the graph of some nodes, sorted, with the links that have an end in ``inner``."""

    @abstractmethod
    def readable(self, rows: int, links: int) -> bool:
        """Return whether a part of this size may be read at once."""
