"""Inference in batches, for graphs that do not fit into one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphtemper._core.checks import check_integer
from graphtemper.graph.neighbourhoods import Rows, ball


@dataclass(frozen=True)
class Batches:
    """Run a module on the neighbourhoods of a few nodes at a time.

    Every batch is the induced subgraph of all nodes within ``hops + 1`` edges of ``size`` nodes.
    Neighbours are not sampled, and the extra hop keeps the degrees of all nodes that the module
    reads, so the logits are those of one pass if messages depend only on their two ends and the
    degrees of these. That holds for GCN, GAT, GraphSAGE, GIN, SGC and APPNP in evaluation mode; not
    for layers that average over the whole graph (PairNorm, GraphNorm, virtual nodes), nor for
    modules with weights per node (LINKX).

    Parameters
    ----------
    hops : int
        Number of edges over which the module reads: its layers, or K of SGConv and APPNP.
    size : int
        Nodes per batch. Around hubs a neighbourhood may be most of the graph at any size.

    Examples
    --------
    >>> Batches(hops=2, size=512)
    Batches(hops=2, size=512)
    """

    hops: int
    size: int = 1024

    def __post_init__(self) -> None:
        check_integer(self.hops, "hops", 0)
        check_integer(self.size, "size", 1)

    def parts(self, adjacency: sp.csr_matrix) -> Iterator[tuple[Rows, Rows]]:
        """Yield the nodes of each part, sorted, and the positions of the batch among them.

        Examples
        --------
        >>> path = sp.diags([1.0, 1.0], [-1, 1], shape=(6, 6), format="csr")
        >>> for nodes, positions in Batches(hops=0, size=3).parts(path):
        ...     print(nodes.tolist(), positions.tolist())
        [0, 1, 2, 3] [0, 1, 2]
        [2, 3, 4, 5] [1, 2, 3]
        """
        num_nodes = int(adjacency.shape[0])
        for start in range(0, num_nodes, self.size):
            batch = np.arange(start, min(start + self.size, num_nodes))
            nodes = ball(adjacency, batch, self.hops + 1)
            yield nodes, np.searchsorted(nodes, batch)
