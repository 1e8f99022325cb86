"""Graphs: the container, its file format, conversions, operators and data sets."""

from __future__ import annotations

from graphtemper.graph.graph import Graph, Nodes, select_labelled, select_nodes

__all__ = ["Graph", "Nodes", "select_labelled", "select_nodes"]
