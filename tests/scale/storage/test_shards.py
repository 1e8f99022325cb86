"""The format: what goes in comes out, and what is damaged is refused by the name of its shard."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm
from graphtemper.errors import FileError, InputError
from graphtemper.scale import ShardedGraph, convert_graph, convert_tables
from graphtemper.scale.conversion.edge_buckets import EdgeBuckets
from graphtemper.scale.storage import shards as rooms


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
    made = convert_graph(graph, tmp_path / "g", rows_per_shard=rows)
    assert len(made.shards) == -(-53 // min(rows, 53))
    assert same(made.to_graph(), graph)
    assert (made.num_edges, made.name) == (graph.num_edges, "small")
    made.verify()


def test_sparse_features_stay_sparse(tmp_path):
    features = sp.random(40, 30, 0.05, format="csr", rng=np.random.default_rng(1))
    graph = Graph(features=features, edges=[[0, 1], [1, 39]])
    made = convert_graph(graph, tmp_path / "g", rows_per_shard=16)
    assert made.sparse
    assert same(made.to_graph(), graph)
    assert not list(made.path.glob("*/features.npy"))


def test_blocks_are_bounded_and_cover_all(folder, graph, monkeypatch):
    monkeypatch.setattr(rooms, "ENTRIES_AT_ONCE", 12)
    sharded = ShardedGraph.open(folder)
    seen = []
    for shard in range(len(sharded.shards)):
        for rows in sharded.blocks(shard):
            assert rows.indices.size <= 12 or rows.last - rows.first == 1
            seen.extend(range(rows.first, rows.last))
    assert seen == list(range(53))


@pytest.mark.parametrize("kind", ["csv", "txt", "parquet"])
def test_tables_give_the_same_shards(graph, tmp_path, kind):
    """Both directions, duplicates, self-loops, any order."""
    rng = np.random.default_rng(2)
    untidy = np.concatenate([graph.edges, graph.edges[:, ::-1], [[3, 3], [0, 0]]])
    untidy = untidy[rng.permutation(len(untidy))]
    path = tmp_path / f"edges.{kind}"
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"source": untidy[:, 0], "target": untidy[:, 1]}), path)
        features = tmp_path / "features"
        features.mkdir()
        for part, rows in enumerate(np.split(graph.features, [11, 30])):
            columns = {f"x{k}": column for k, column in enumerate(rows.T)}
            pq.write_table(pa.table(columns), features / f"{part}.parquet")
    else:
        mark = {"csv": ",", "txt": "\t"}[kind]
        head = {"csv": "source,target\n", "txt": "# nodes: 53\n# edges\n"}[kind]
        path.write_text(head + "".join(f"{u}{mark}{v}\n" for u, v in untidy))
        features = tmp_path / "x.npy"
        np.save(features, graph.features.astype(np.float64))
    made = convert_tables(path, features, tmp_path / "tables", rows_per_shard=20)
    plain = convert_graph(graph, tmp_path / "graph", rows_per_shard=20)
    assert same(made.to_graph(), graph)
    for name in ("indptr.npy", "indices.npy", "features.npy"):
        for shard in range(3):
            one, other = (g.folder(shard) / name for g in (made, plain))
            assert one.read_bytes() == other.read_bytes()


def test_pyg(tmp_path):
    pytest.importorskip("torch_geometric")
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, seed=1)
    made = convert_graph(Graph.from_pyg(graph.to_pyg()), tmp_path / "g", rows_per_shard=25)
    assert same(made.to_graph(), graph)


def test_buckets_are_read_one_at_a_time(tmp_path):
    """A shard's bucket is all that is ever loaded, and it is gone afterwards."""
    buckets = EdgeBuckets(tmp_path, [(0, 3), (3, 6)])
    for _ in range(3):
        buckets.add(np.array([[0, 5], [4, 3], [2, 2]]))
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {"bucket-00000": 3 * 8, "bucket-00001": 9 * 8}
    assert [a.tolist() for a in buckets.rows(0)] == [[0, 1, 1, 1], [5]]
    assert [a.tolist() for a in buckets.rows(1)] == [[0, 1, 2, 3], [4, 3, 0]]
    assert not list(tmp_path.iterdir())


def damage(path, change):
    return path.write_bytes(change(path.read_bytes()))


def test_a_truncated_shard_is_named(folder):
    damage(folder / "shard-00001" / "features.npy", lambda data: data[:-5])
    with pytest.raises(FileError, match=r"shard-00001: .*features\.npy is .* truncated"):
        ShardedGraph.open(folder)


def test_a_missing_shard_is_named(folder):
    (folder / "shard-00002" / "indptr.npy").unlink()
    with pytest.raises(FileError, match=r"shard-00002: .*indptr\.npy is missing"):
        ShardedGraph.open(folder)


def test_a_header_that_claims_too_much_is_not_believed(folder):
    path = folder / "shard-00000" / "features.npy"
    damage(path, lambda data: data.replace(b"(20, 4)", b"(20, 9)"))
    with pytest.raises(FileError, match="its header claims"):
        ShardedGraph.open(folder)


def test_objects_are_never_unpickled(folder):
    np.save(folder / "shard-00000" / "indices.npy", np.array([{}], dtype=object))
    with pytest.raises(FileError, match="damaged or not an"):
        ShardedGraph.open(folder)


def test_mixed_schema(folder, graph, tmp_path):
    wide = graph.replace(features=np.ones((53, 5)), feature_names=None)
    other = convert_graph(wide, tmp_path / "wide", rows_per_shard=20)
    path = "shard-00001/features.npy"
    (folder / path).write_bytes((other.path / path).read_bytes())
    with pytest.raises(FileError, match=r"shard-00001: features\.npy holds .* do not mix shards"):
        ShardedGraph.open(folder)


def test_a_directory_without_its_manifest_is_no_graph(folder):
    (folder / "graph.json").unlink()
    with pytest.raises(FileError, match="not a whole one"):
        ShardedGraph.open(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "other/1"),
        ("num_nodes", 54),
        ("num_nodes", "many"),
        ("num_edges", 3),
        ("shards", [{"first": float("inf"), "last": 1, "files": {}}]),
        ("shards", []),
        ("shards", 3),
    ],
)
def test_a_manifest_that_does_not_fit(folder, key, value):
    path = folder / "graph.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {key: value}))
    with pytest.raises(FileError, match=r"graph\.json"):
        ShardedGraph.open(folder)


def test_a_file_is_not_a_directory_of_shards(graph, tmp_path):
    graph.save(tmp_path / "target.npz")
    with pytest.raises(FileError, match=r"target\.npz is a file and not .* scale convert"):
        ShardedGraph.open(tmp_path / "target.npz")


def test_neighbours_outside_the_graph_are_refused_before_any_product(folder):
    path = folder / "shard-00000" / "indices.npy"
    indices = np.load(path)
    indices[0] = 53
    np.save(path, indices)
    sharded = ShardedGraph.open(folder)
    with pytest.raises(FileError, match=r"shard-00000: .* outside 0\.\.52"):
        list(sharded.blocks(0))
    with pytest.raises(FileError, match=r"shard-00000: indices\.npy does not have the contents"):
        sharded.verify()


def test_nothing_is_left_where_a_conversion_fails(graph, tmp_path):
    (tmp_path / "edges.txt").write_text("0 1\n1 99\n")
    np.save(tmp_path / "x.npy", np.ones((5, 2)))
    with pytest.raises(InputError, match=r"edge 1 joins 1 and 99, but the nodes are 0\.\.4"):
        convert_tables(tmp_path / "edges.txt", tmp_path / "x.npy", tmp_path / "out")
    (tmp_path / "bad.txt").write_text("0 1\n1 x\n")
    with pytest.raises(FileError, match=r"bad\.txt"):
        convert_tables(tmp_path / "bad.txt", tmp_path / "x.npy", tmp_path / "out")
    np.save(tmp_path / "nan.npy", np.array([[1.0], [np.nan]]))
    (tmp_path / "one.txt").write_text("0 1\n")
    with pytest.raises(InputError, match=r"features\[1, 0\] is nan"):
        convert_tables(tmp_path / "one.txt", tmp_path / "nan.npy", tmp_path / "out")
    assert {path.suffix for path in tmp_path.iterdir()} == {".txt", ".npy"}


def test_what_is_there_is_not_replaced(graph, folder):
    with pytest.raises(FileError, match="already there"):
        convert_graph(graph, folder)
