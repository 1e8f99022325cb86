"""Graphs: the container, its file format, conversions, operators and data sets."""

from __future__ import annotations

from graphtemper.graph.digest import content_digest
from graphtemper.graph.graph import Graph, Nodes, select_labelled, select_nodes
from graphtemper.graph.operators import Operator, adjacency, operator

__all__ = [
    "Graph",
    "Nodes",
    "Operator",
    "adjacency",
    "content_digest",
    "operator",
    "select_labelled",
    "select_nodes",
]
