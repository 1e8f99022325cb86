"""Environments within one graph: the places or periods that its nodes belong to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import InputError
from graphtemper.graph.checks import select_nodes
from graphtemper.graph.graph import Graph, Nodes


def environment_nodes(graph: Graph, nodes: Nodes = None) -> dict[int, NDArray[np.int64]]:
    """Return the nodes of each environment by its number; nodes of unknown ones are left out.

    Parameters
    ----------
    graph
        A graph with `Graph.environment`.
    nodes
        A boolean mask or indices to choose from (default: all nodes).

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 4, edges=[[0, 1]], environment=[1, 0, 1, -1])
    >>> {key: nodes.tolist() for key, nodes in environment_nodes(g).items()}
    {0: [1], 1: [0, 2]}
    """
    if graph.environment is None:
        raise InputError(
            "the graph has no environments; set Graph.environment to one number per node."
        )
    chosen = select_nodes(nodes, graph.num_nodes)
    numbers = graph.environment[chosen]
    return {int(key): chosen[numbers == key] for key in np.unique(numbers[numbers >= 0])}
