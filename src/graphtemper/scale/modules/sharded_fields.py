"""Receptive fields in a sharded graph: neighbours and features of some nodes, read from files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.scale.storage.shards import ShardedGraph, check_numbers
from graphtemper.signals.passes import Keys, mixed
from graphtemper.signals.receptive_field import MOST_LINKS, MOST_ROWS

MOST_VALUES = 100_000_000
"""Features of a part that is read at once, as dense float32 400 MB."""


class ShardedWhole:
    """A sharded graph as a `graphtemper.signals.graph_parts.Whole`.

    Parts beyond `MOST_ROWS`, `MOST_LINKS` or `MOST_VALUES` are not read. Nodes are drawn by their
    numbers, not by their content.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper.scale.conversion.convert import convert_graph
    >>> g = Graph(features=np.eye(5), edges=[[0, 1], [1, 2], [2, 3], [3, 4]])
    >>> whole = ShardedWhole(convert_graph(g, tempfile.mkdtemp() + "/g", rows_per_shard=2))
    >>> whole.ball(np.array([0]), 2).tolist()
    [0, 1, 2]
    >>> whole.part(np.array([0, 1, 2]), np.array([0, 1])).edges.tolist()
    [[0, 1], [1, 2]]
    """

    is_plain = True

    def __init__(self, graph: ShardedGraph) -> None:
        self.graph = graph
        self._lasts = np.array([shard.last for shard in graph.shards])
        self._open: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        self._features: dict[int, Features] = {}

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.graph.num_edges

    @property
    def num_links(self) -> int:
        """Number of pairs of neighbours."""
        return self.graph.num_edges

    def readable(self, rows: int, links: int) -> bool:
        """See `graphtemper.signals.graph_parts.Whole`."""
        # Many layers hold the features of a neighbour for both directions of every link.
        values = max(rows, links // 4) * self.graph.num_features
        return rows <= MOST_ROWS and links <= MOST_LINKS and values <= MOST_VALUES

    def near(self, nodes: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `graphtemper.signals.graph_parts.Whole`."""
        counts = self.degrees(nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        near = np.empty(indptr[-1], np.int64)
        for shard, at, local in self._by_shard(nodes):
            starts, indices = self._neighbours(shard)
            here = counts[at]
            step = np.arange(here.sum()) - np.repeat(np.cumsum(here) - here, here)
            near[np.repeat(indptr[at], here) + step] = indices[
                np.repeat(starts[local], here) + step
            ]
        check_numbers(near, self.num_nodes, f"{self.graph.path}: its neighbours")
        return near, indptr

    def degrees(self, nodes: Rows) -> Rows:
        """See `graphtemper.signals.graph_parts.Whole`."""
        counts = np.empty(nodes.size, np.int64)
        for shard, at, local in self._by_shard(nodes):
            starts, _ = self._neighbours(shard)
            counts[at] = starts[local + 1] - starts[local]
        return counts

    def ball(self, centre: Rows, radius: int) -> Rows | None:
        """See `graphtemper.signals.graph_parts.Whole`."""
        inside = boundary = np.unique(centre)
        for _ in range(radius):
            if not self.readable(inside.size, int(self.degrees(boundary).sum())):
                return None
            reached = np.unique(self.near(boundary)[0])
            boundary = np.setdiff1d(reached, inside, assume_unique=True)
            inside = np.union1d(inside, boundary)
        return inside if self.readable(inside.size, 0) else None

    def part(self, nodes: Rows, inner: Rows) -> Graph:
        """See `graphtemper.signals.graph_parts.Whole`."""
        near, indptr = self.near(inner)
        ends = np.repeat(inner, np.diff(indptr))
        place = np.minimum(np.searchsorted(inner, near), max(inner.size - 1, 0))
        once = (inner[place] != near) | (ends < near)
        pairs = np.sort(np.column_stack([ends[once], near[once]]), axis=1)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        edges = np.searchsorted(nodes, pairs).astype(np.int32)
        return Graph(features=self._rows(nodes), edges=edges, name=self.graph.name)

    def keys(self, nodes: NDArray[Any]) -> Keys:
        """See `graphtemper.signals.graph_parts.Whole`."""
        return mixed(nodes.astype(np.uint64))

    def _rows(self, nodes: Rows) -> Features:
        """Return the features of sorted nodes."""
        parts: list[Any] = [
            self._shard_features(shard)[local] for shard, _, local in self._by_shard(nodes)
        ]
        return sp.vstack(parts, format="csr") if self.graph.sparse else np.concatenate(parts)

    def _by_shard(self, nodes: Rows) -> Iterator[tuple[int, Rows, Rows]]:
        """Yield shards with the positions of their nodes among ``nodes``, and their rows."""
        shards = np.searchsorted(self._lasts, nodes, "right")
        order = np.argsort(shards, kind="stable")
        for at in np.split(order, np.flatnonzero(np.diff(shards[order])) + 1):
            if at.size:
                shard = int(shards[at[0]])
                yield shard, at, nodes[at] - self.graph.shards[shard].first

    def _neighbours(self, shard: int) -> tuple[NDArray[Any], NDArray[Any]]:
        if shard not in self._open:
            self._open[shard] = self.graph.neighbours(shard)
        return self._open[shard]

    def _shard_features(self, shard: int) -> Features:
        if shard not in self._features:
            self._features[shard] = self.graph.features(shard)
        return self._features[shard]
