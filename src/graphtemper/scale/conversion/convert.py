"""Conversion to shards, from a `Graph` or from tables larger than memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from graphtemper.errors import OtherTypesError
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency
from graphtemper.scale.conversion.edge_buckets import EdgeBuckets
from graphtemper.scale.conversion.tables import RowReader, read_edges, read_features
from graphtemper.scale.storage.output_directory import atomic_directory
from graphtemper.scale.storage.shard_writer import ROWS_PER_SHARD, ShardWriter
from graphtemper.scale.storage.shards import ShardedGraph

PathLike = str | os.PathLike[str]


def convert_graph(
    graph: Graph, out: PathLike, *, rows_per_shard: int = ROWS_PER_SHARD
) -> ShardedGraph:
    """Write a graph in memory as shards, without its labels and masks.

    Shards hold undirected edges without attributes; a graph with directions, weights, features or
    types is refused.

    ``Graph.load("g.npz")`` and ``Graph.from_pyg(data)`` return such a graph.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(500, degree=6, homophily=0.8, snr=1.0, seed=1)
    >>> folder = Path(tempfile.mkdtemp()) / "csbm"
    >>> sharded = convert_graph(g, folder, rows_per_shard=200)
    >>> sharded.num_nodes, sharded.num_edges == g.num_edges, len(sharded.shards)
    (500, True, 3)
    >>> bool((sharded.to_graph().features == g.features).all())
    True
    """
    if not graph.is_plain:
        raise OtherTypesError(
            "shards do not hold directions, weights, features or types of edges, nor types of "
            "nodes; if your model does not read them, pass Graph(features=graph.features, "
            "edges=graph.links)."
        )
    matrix = adjacency(graph)
    with atomic_directory(out) as folder:
        writer = ShardWriter(folder, graph.num_nodes, graph.num_features, rows_per_shard)
        for first, last in writer.bounds:
            indptr = matrix.indptr[first : last + 1].astype(np.int64)
            indices = matrix.indices[indptr[0] : indptr[-1]]
            writer.add(indptr - indptr[0], indices, graph.features[first:last])
        writer.finish(graph.name)
    return ShardedGraph.open(out)


def convert_tables(
    edges: PathLike, features: PathLike, out: PathLike, *, rows_per_shard: int = ROWS_PER_SHARD
) -> ShardedGraph:
    r"""Write tables of edges and features as shards, with one shard in memory at a time.

    Parameters
    ----------
    edges
        Text or Parquet, see `graphtemper.scale.conversion.tables.read_edges`. Edges may come in
        any order and direction, with duplicates and self-loops. The table is read once; edges are
        sorted on disk next to ``out``, which takes 16 bytes per edge.
    features
        An (N, F) ``.npy`` or Parquet, see `graphtemper.scale.conversion.tables.read_features`.
    out
        The new directory.
    rows_per_shard
        Number of nodes per shard.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.txt").write_text("0 1\n1 2\n2 1\n")
    >>> np.save(folder / "x.npy", np.eye(3))
    >>> g = convert_tables(folder / "edges.txt", folder / "x.npy", folder / "graph")
    >>> g.num_nodes, g.num_edges, g.num_features
    (3, 2, 3)
    """
    table = read_features(Path(features))
    with atomic_directory(out) as folder:
        writer = ShardWriter(folder, table.num_nodes, table.num_features, rows_per_shard)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            buckets = EdgeBuckets(Path(scratch), writer.bounds)
            for pairs in read_edges(Path(edges)):
                buckets.add(pairs)
            rows = RowReader(table.blocks())
            for shard, (first, last) in enumerate(writer.bounds):
                writer.add(*buckets.rows(shard), rows.take(last - first))
        writer.finish(Path(edges).stem)
    return ShardedGraph.open(out)
