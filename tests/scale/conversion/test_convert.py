"""Conversion of graphs and tables to shards."""

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper.errors import FileError, InputError
from graphtemper.scale import convert_graph, convert_tables


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (200, 2))
    return Graph.from_edges(rng.standard_normal((53, 4)), edges, name="small")


def equal(one, other):
    edges = (np.unique(graph.edges, axis=0) for graph in (one, other))
    return np.array_equal(one.features, other.features) and np.array_equal(*edges)


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
    sharded = convert_tables(path, features, tmp_path / "tables", rows_per_shard=20)
    plain = convert_graph(graph, tmp_path / "graph", rows_per_shard=20)
    assert equal(sharded.to_graph(), graph)
    for name in ("indptr.npy", "indices.npy", "features.npy"):
        for shard in range(3):
            one, other = (g.folder(shard) / name for g in (sharded, plain))
            assert one.read_bytes() == other.read_bytes()


@pytest.mark.nightly
def test_pyg(tmp_path):
    pytest.importorskip("torch_geometric")
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, seed=1)
    sharded = convert_graph(Graph.from_pyg(graph.to_pyg()), tmp_path / "g", rows_per_shard=25)
    assert equal(sharded.to_graph(), graph)


def test_a_failed_conversion_leaves_nothing(graph, tmp_path):
    (tmp_path / "edges.txt").write_text("0 1\n1 99\n")
    np.save(tmp_path / "x.npy", np.ones((5, 2)))
    with pytest.raises(InputError):
        convert_tables(tmp_path / "edges.txt", tmp_path / "x.npy", tmp_path / "out")
    (tmp_path / "negative.txt").write_text("0 1\n-1 2\n")
    with pytest.raises(InputError):
        convert_tables(tmp_path / "negative.txt", tmp_path / "x.npy", tmp_path / "out")
    (tmp_path / "bad.txt").write_text("0 1\n1 x\n")
    with pytest.raises(FileError):
        convert_tables(tmp_path / "bad.txt", tmp_path / "x.npy", tmp_path / "out")
    np.save(tmp_path / "nan.npy", np.array([[1.0], [np.nan]]))
    (tmp_path / "one.txt").write_text("0 1\n")
    with pytest.raises(InputError):
        convert_tables(tmp_path / "one.txt", tmp_path / "nan.npy", tmp_path / "out")
    assert {path.suffix for path in tmp_path.iterdir()} == {".txt", ".npy"}


def test_an_existing_directory_is_not_replaced(graph, tmp_path):
    convert_graph(graph, tmp_path / "g")
    with pytest.raises(FileError):
        convert_graph(graph, tmp_path / "g")


@pytest.mark.parametrize(
    "fields", [{"directed": True}, {"edge_weight": np.ones(2)}, {"node_type": [0, 1, 1]}]
)
def test_shards_refuse_what_they_do_not_hold(tmp_path, fields):
    graph = Graph(features=np.ones((3, 1)), edges=[[0, 1], [1, 2]], **fields)
    with pytest.raises(InputError):
        convert_graph(graph, tmp_path / "shards")
    assert not (tmp_path / "shards").exists()
