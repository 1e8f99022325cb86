"""The format of sharded graphs: round trips, and errors that name the damaged shard."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph
from graphtemper.errors import FileError
from graphtemper.scale import ShardedGraph, convert_graph
from graphtemper.scale.storage import shards


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (200, 2))
    return Graph.from_edges(rng.standard_normal((53, 4)), edges, name="small")


@pytest.fixture
def folder(graph, tmp_path):
    convert_graph(graph, tmp_path / "g", rows_per_shard=20)
    return tmp_path / "g"


def same(one, other):
    dense = [
        g.features if isinstance(g.features, np.ndarray) else g.features.toarray()
        for g in (one, other)
    ]
    return np.array_equal(*dense) and np.array_equal(
        np.unique(one.edges, axis=0), np.unique(other.edges, axis=0)
    )


@pytest.mark.parametrize("rows", [1, 7, 53, 1000])
def test_round_trip(graph, tmp_path, rows):
    sharded = convert_graph(graph, tmp_path / "g", rows_per_shard=rows)
    assert len(sharded.shards) == -(-53 // min(rows, 53))
    assert same(sharded.to_graph(), graph)
    assert (sharded.num_edges, sharded.name) == (graph.num_edges, "small")
    sharded.verify()


def test_sparse_features_stay_sparse(tmp_path):
    features = sp.random(40, 30, 0.05, format="csr", rng=np.random.default_rng(1))
    graph = Graph(features=features, edges=[[0, 1], [1, 39]])
    sharded = convert_graph(graph, tmp_path / "g", rows_per_shard=16)
    assert sharded.sparse
    assert same(sharded.to_graph(), graph)
    assert not list(sharded.path.glob("*/features.npy"))


def test_blocks_are_bounded_and_cover_all(folder, graph, monkeypatch):
    monkeypatch.setattr(shards, "ENTRIES_AT_ONCE", 12)
    sharded = ShardedGraph.open(folder)
    nodes = []
    for shard in range(len(sharded.shards)):
        for rows in sharded.blocks(shard):
            assert rows.indices.size <= 12 or np.unique(rows.ends).size == 1
            nodes.extend(rows.ends)
    assert np.array_equal(np.bincount(nodes, minlength=53), graph.degrees)


def damage(path, change):
    return path.write_bytes(change(path.read_bytes()))


def test_a_truncated_and_a_missing_file_are_refused(folder):
    damage(folder / "shard-00001" / "features.npy", lambda data: data[:-5])
    with pytest.raises(FileError):
        ShardedGraph.open(folder)
    (folder / "shard-00001" / "features.npy").unlink()
    with pytest.raises(FileError):
        ShardedGraph.open(folder)


def test_a_header_that_claims_too_much_is_not_believed(folder):
    path = folder / "shard-00000" / "features.npy"
    damage(path, lambda data: data.replace(b"(20, 4)", b"(20, 9)"))
    with pytest.raises(FileError):
        ShardedGraph.open(folder).features(0)


def test_features_of_another_shape_are_refused(folder):
    path = folder / "shard-00000" / "features.npy"
    damage(path, lambda data: data.replace(b"(20, 4)", b"(4, 20)"))
    with pytest.raises(FileError):
        ShardedGraph.open(folder).features(0)


def test_objects_are_never_unpickled(folder):
    path = folder / "shard-00000" / "features.npy"
    damage(path, lambda data: data.replace(b"'<f4'", b"'|O' "))
    with pytest.raises(FileError):
        ShardedGraph.open(folder).features(0)


def test_a_directory_without_its_manifest_is_no_graph(folder):
    (folder / "graph.json").unlink()
    with pytest.raises(FileError):
        ShardedGraph.open(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "other/1"),
        ("num_nodes", 54),
        ("num_nodes", "many"),
        ("shards", [{"first": float("inf"), "last": 1, "files": {}}]),
        ("shards", []),
        ("shards", 3),
    ],
)
def test_a_manifest_that_does_not_fit(folder, key, value):
    path = folder / "graph.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {key: value}))
    with pytest.raises(FileError):
        ShardedGraph.open(folder)


def test_a_file_is_not_a_directory_of_shards(graph, tmp_path):
    graph.save(tmp_path / "target.npz")
    with pytest.raises(FileError):
        ShardedGraph.open(tmp_path / "target.npz")


def test_neighbours_outside_the_graph_are_refused_before_any_product(folder):
    path = folder / "shard-00000" / "indices.npy"
    indices = np.load(path)
    indices[0] = 53
    np.save(path, indices)
    sharded = ShardedGraph.open(folder)
    with pytest.raises(FileError):
        list(sharded.blocks(0))
    with pytest.raises(FileError):
        sharded.verify()
