"""Graphs of PyTorch Geometric, networkx and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import Graph, csbm
from graphtemper.errors import InputError
from graphtemper.graph.operators import adjacency

nx = pytest.importorskip("networkx")


EDGES = [("a", "c"), ("c", "a"), ("c", "c"), (7, "a"), (7, "a")]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiDiGraph, nx.MultiGraph])
def test_networkx_nodes_keep_their_order_and_edges_their_kind(kind):
    graph = kind()
    graph.add_nodes_from([("c", {"x": [3.0, 0.0], "y": 1}), ("a", {"x": [1.0, 2.0]})])
    graph.add_nodes_from([(7, {"x": (5.0, 5.0), "y": 0})])
    graph.add_edges_from(EDGES)
    converted = Graph.from_networkx(graph, features="x", labels="y", name="three")
    assert converted.features.tolist() == [[3, 0], [1, 2], [5, 5]]
    assert converted.labels.tolist() == [1, -1, 0]
    assert converted.name == "three"
    assert converted.directed  # a self-loop
    expected = sp.csr_matrix(nx.to_scipy_sparse_array(graph))
    ones = np.ones(converted.num_edges)
    assert (sp.csr_matrix((ones, converted.edges.T), shape=(3, 3)) != expected).nnz == 0
    plain = Graph.from_networkx(graph, features="x", drop="all")
    assert (plain.edges.tolist(), plain.directed) == ([[0, 1], [1, 2]], False)


def test_networkx_edge_attributes_are_named_or_refused():
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=2.0, kind=1, a=0.5, b=1.5)
    graph.add_edge(1, 2, weight=3.0, kind=0, a=0.25, b=1.25)
    names = {"edge_weight": "weight", "edge_features": ["a", "b"], "edge_type": "kind"}
    converted = Graph.from_networkx(graph, np.ones((3, 1)), **names)
    assert not converted.directed
    assert converted.edge_weight.tolist() == [2.0, 3.0]
    assert converted.edge_features.tolist() == [[0.5, 1.5], [0.25, 1.25]]
    assert converted.edge_type.tolist() == [1, 0]
    with raises("other-types"):
        Graph.from_networkx(graph, np.ones((3, 1)), edge_weight="weight")
    dropped = Graph.from_networkx(graph, np.ones((3, 1)), drop=("weight", "kind", "a", "b"))
    assert dropped.is_plain
    graph.add_edge(0, 2, weight=1.0)
    with raises("missing"):
        Graph.from_networkx(graph, np.ones((3, 1)), **names)


def test_networkx_against_its_own_matrix():
    graph = nx.gnp_random_graph(60, 0.1, seed=0)
    converted = Graph.from_networkx(graph, features=np.ones((60, 1)))
    assert (adjacency(converted) != nx.to_scipy_sparse_array(graph)).nnz == 0
    assert converted.labels is None
    assert Graph.from_scipy(nx.to_scipy_sparse_array(graph), np.ones((60, 1))).num_edges == (
        graph.number_of_edges()
    )


def test_networkx_attributes_that_are_not_there():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: [1.0], 1: [2.0]}, "x")
    with raises("missing"):
        Graph.from_networkx(graph, features="x")
    graph.nodes[2]["x"] = [1.0, 2.0]
    with raises("shape"):
        Graph.from_networkx(graph, features="x")
    with pytest.raises(InputError):
        Graph.from_networkx(graph, features=np.ones((2, 1)))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_scipy_formats(form):
    matrix = sp.csr_matrix(np.array([[5, 1, 0], [1, 0, 0], [0, -2, 0]])).asformat(form)
    features = sp.identity(3, format="csr")
    converted = Graph.from_scipy(matrix, features, labels=[0, 1, 0])
    assert sp.issparse(converted.features)
    assert converted.directed
    back = sp.csr_matrix((converted.edge_weight, converted.edges.T), shape=(3, 3))
    assert (back != matrix.tocsr()).nnz == 0
    plain = Graph.from_scipy(matrix, features, drop="all")
    assert (plain.edges.tolist(), plain.is_plain) == ([[0, 1], [1, 2]], True)
    symmetric = Graph.from_scipy(sp.csr_matrix(matrix + matrix.T), features, drop=("self_loops",))
    assert (symmetric.directed, symmetric.edge_weight.tolist()) == (False, [2.0, -2.0])


def test_scipy_stored_zeros_and_cancelling_entries_are_no_edges():
    stored = sp.coo_matrix(([0.0, 1.0, -1.0], ([0, 1, 1], [1, 2, 2])), shape=(3, 3))
    assert Graph.from_scipy(stored, np.ones((3, 1))).num_edges == 0


@pytest.mark.parametrize(
    ("matrix", "error"),
    [
        (np.eye(3), "wrong-type"),
        (sp.csr_matrix((3, 4)), "shape"),
        (sp.csr_matrix((4, 4)), "shape"),
        (sp.csr_matrix(np.diag([1.0, np.nan, 0.0])), "not-finite"),
    ],
)
def test_bad_scipy_matrices(matrix, error):
    with raises(error):
        Graph.from_scipy(matrix, np.ones((3, 1)))


def test_pyg_round_trip():
    pytest.importorskip("torch_geometric")
    masks = np.eye(3, 4, dtype=bool)
    features = np.arange(8.0).reshape(4, 2)
    graph = Graph(features=features, edges=[[0, 1], [1, 2]], labels=[0, 1, -1, 1], val_masks=masks)
    graph = graph.replace(environment=[2, -1, 0, 2])
    data = graph.to_pyg()
    assert data.is_undirected()
    assert data.num_edges == 2 * graph.num_edges
    back = Graph.from_pyg(data)
    for key in ("features", "edges", "labels", "val_masks", "environment"):
        assert np.array_equal(getattr(back, key), getattr(graph, key)), key
    assert back.train_masks is None


def test_columns_of_pyg_data_are_named():
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data
    given = {"x": torch.eye(2), "edge_index": torch.tensor([[0, 1], [1, 0]])}
    assert Graph.from_pyg(data(**given, feature_names=["a", "b"])).feature_names == ("a", "b")
    assert Graph.from_pyg(data(**given, feature_names=["a"])).feature_names is None


def test_from_pyg_merges_directions_loops_and_duplicates_on_request():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1, 2, 2, 0], [1, 0, 1, 2, 1]]))
    dropped = ("direction", "self_loops", "multi_edges")
    assert Graph.from_pyg(data, drop=dropped).edges.tolist() == [[0, 1], [1, 2]]
    assert Graph.from_pyg(data, drop="all").edges.tolist() == [[0, 1], [1, 2]]
    with raises("missing"):
        Graph.from_pyg(Data(edge_index=data.edge_index))


@pytest.fixture
def data():
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=0).to_pyg()


def test_a_graph_shares_no_memory_with_the_data(data):
    graph = Graph.from_pyg(data)
    before = graph.features.copy()
    data.x.relu_()
    assert np.array_equal(graph.features, before)


def test_fields_that_cost_nothing_to_lose(data):
    import torch

    data.name, data.num_classes, data.extra_mask = "cora", 3, torch.ones(200, dtype=torch.bool)
    data.edge_weight = torch.ones(data.num_edges)
    assert Graph.from_pyg(data).num_nodes == 200
    with raises("wrong-type"):
        Graph.from_pyg(data.clone().update({"x": [[1.0]]}))


def test_fields_that_a_graph_does_not_hold_are_refused(data):
    import torch
    from torch_geometric.transforms import ToSparseTensor

    data.pos, data.other = torch.ones(200, 2), torch.ones(data.num_edges)
    with raises("other-types"):
        Graph.from_pyg(data)
    assert Graph.from_pyg(data, drop=("other", "pos")).is_plain
    data.adj_t = ToSparseTensor()(data.clone()).adj_t
    data.edge_index = data.edge_index[:, 1:]
    with raises("conflict"):
        Graph.from_pyg(data, drop="all")
    data.edge_weight = torch.ones(3)
    del data.adj_t
    with raises("shape"):
        Graph.from_pyg(data, drop=("other", "pos"))


def hetero():
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["user"].x, data["item"].x = torch.arange(6.0).reshape(3, 2), torch.ones(4, 1)
    data["item"].y = torch.tensor([0, 1, 1, 0])
    data["item"].train_mask = torch.tensor([True, False, True, False])
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [3, 0, 0]])
    data["item", "like", "item"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def test_hetero_data_are_kept(data):
    import torch

    one = hetero()
    graph = Graph.from_pyg(one)
    assert graph.target_type == 0  # types are sorted by name
    assert graph.classified.tolist() == [0, 1, 2, 3]
    assert graph.labels.tolist() == [0, 1, 1, 0, -1, -1, -1]
    assert graph.type_columns.tolist() == [[0, 1], [1, 3]]
    assert graph.links.tolist() == [[0, 1], [1, 2]]  # those of items only
    back = graph.to_pyg()
    assert sorted(back.node_types) == sorted(one.node_types)
    assert back.edge_types == one.edge_types  # HGTConv depends on their order
    for kind in (*one.node_types, *one.edge_types):
        assert set(back[kind].keys()) == set(one[kind].keys())
        assert all(torch.equal(value, back[kind][key]) for key, value in one[kind].items())
    one["item"].y = torch.ones(4, 2)
    with raises("shape"):
        Graph.from_pyg(one)
    del one["item"].y
    with raises("missing"):
        Graph.from_pyg(one)
    assert Graph.from_pyg(one, target="user").target_type == 1
    one["user", "buys", "item"].edge_attr = torch.ones(3, 2)
    with raises("other-types"):
        Graph.from_pyg(one, target="item")
    assert Graph.from_pyg(one, target="item", drop=("edge_attr",)).edge_features is None
    del one["user"].x
    with raises("missing"):
        Graph.from_pyg(one, target="item")
