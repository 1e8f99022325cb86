"""Inference in parts, for graphs that do not fit into one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import check_whole

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batches:
    """Run a module on the neighbourhoods of a few nodes at a time.

    Every batch is the induced subgraph of all nodes within ``hops + 1`` edges of ``size`` nodes.
    No neighbour is sampled away, and one hop more than the module reads keeps the degrees of all
    nodes it reads whole, so the answers are those of one pass: for layers whose messages depend
    on their two ends and the degrees of these, in evaluation mode. That holds for GCN, GAT,
    GraphSAGE, GIN, SGC, APPNP and their like; not for layers that average over the whole graph
    (PairNorm, GraphNorm, virtual nodes), nor for modules that know a fixed set of nodes (LINKX).

    Parameters
    ----------
    hops : int
        How many edges away the module reads: its layers, or K of SGConv and APPNP.
    size : int
        Nodes in a batch. Around hubs a neighbourhood may be most of the graph whatever the size.

    Examples
    --------
    >>> Batches(hops=2, size=512)
    Batches(hops=2, size=512)
    """

    hops: int
    size: int = 1024

    def __post_init__(self) -> None:
        check_whole(self.hops, "hops", 0)
        check_whole(self.size, "size", 1)

    def parts(self, adjacency: sp.csr_matrix) -> Iterator[tuple[Rows, Rows]]:
        """Yield the nodes to run on, sorted, and which of them are the batch's own.

        Examples
        --------
        >>> path = sp.diags([1.0, 1.0], [-1, 1], shape=(6, 6), format="csr")
        >>> for nodes, own in Batches(hops=0, size=3).parts(path):
        ...     print(nodes.tolist(), own.tolist())
        [0, 1, 2, 3] [0, 1, 2]
        [2, 3, 4, 5] [1, 2, 3]
        """
        num_nodes = int(adjacency.shape[0])
        for start in range(0, num_nodes, self.size):
            batch = np.arange(start, min(start + self.size, num_nodes))
            nodes = _ball(adjacency, batch, self.hops + 1)
            yield nodes, np.searchsorted(nodes, batch)


def _ball(adjacency: sp.csr_matrix, centre: Rows, radius: int) -> Rows:
    """Return all nodes within so many edges of the centre, sorted."""
    inside = np.zeros(adjacency.shape[0], dtype=bool)
    inside[centre] = True
    rim = centre
    for _ in range(radius):
        touched = np.unique(adjacency[rim].indices).astype(np.int64)
        rim = touched[~inside[touched]]
        inside[rim] = True
    return np.flatnonzero(inside)
