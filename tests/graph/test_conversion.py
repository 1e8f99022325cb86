"""Graphs of PyTorch Geometric, networkx and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm
from graphtemper.errors import InputError
from graphtemper.graph.operators import adjacency

nx = pytest.importorskip("networkx")


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiDiGraph])
def test_networkx_nodes_keep_their_order_and_edges_lose_direction(kind):
    graph = kind()
    graph.add_nodes_from([("c", {"x": [3.0, 0.0], "y": 1}), ("a", {"x": [1.0, 2.0]})])
    graph.add_nodes_from([(7, {"x": (5.0, 5.0), "y": 0})])
    graph.add_edges_from([("a", "c"), ("c", "a"), ("c", "c"), (7, "a"), (7, "a")])
    converted = Graph.from_networkx(graph, features="x", labels="y", name="three")
    assert converted.features.tolist() == [[3, 0], [1, 2], [5, 5]]
    assert converted.edges.tolist() == [[0, 1], [1, 2]]
    assert converted.labels.tolist() == [1, -1, 0]
    assert converted.name == "three"


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
    with pytest.raises(InputError, match="node 2 has no attribute 'x'"):
        Graph.from_networkx(graph, features="x")
    graph.nodes[2]["x"] = [1.0, 2.0]
    with pytest.raises(InputError, match="'x' cannot be read as an array"):
        Graph.from_networkx(graph, features="x")
    with pytest.raises(InputError):
        Graph.from_networkx(graph, features=np.ones((2, 1)))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_scipy_formats(form):
    matrix = sp.csr_matrix(np.array([[5, 1, 0], [1, 0, 0], [0, -2, 0]])).asformat(form)
    converted = Graph.from_scipy(matrix, sp.identity(3, format="csr"), labels=[0, 1, 0])
    assert converted.edges.tolist() == [[0, 1], [1, 2]]
    assert sp.issparse(converted.features)


def test_scipy_stored_zeros_and_cancelling_entries_are_no_edges():
    stored = sp.coo_matrix(([0.0, 1.0, -1.0], ([0, 1, 1], [1, 2, 2])), shape=(3, 3))
    assert Graph.from_scipy(stored, np.ones((3, 1))).num_edges == 0


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        (np.eye(3), "SciPy sparse matrix, not ndarray"),
        (sp.csr_matrix((3, 4)), "square, but this one is 3 x 4"),
        (sp.csr_matrix((4, 4)), "4 rows but the features have 3"),
        (sp.csr_matrix(np.diag([1.0, np.nan, 0.0])), "not finite"),
    ],
)
def test_bad_scipy_matrices(matrix, says):
    with pytest.raises(InputError, match=says):
        Graph.from_scipy(matrix, np.ones((3, 1)))


def test_pyg_round_trip():
    pytest.importorskip("torch_geometric")
    masks = np.eye(3, 4, dtype=bool)
    features = np.arange(8.0).reshape(4, 2)
    graph = Graph(features=features, edges=[[0, 1], [1, 2]], labels=[0, 1, -1, 1], val_masks=masks)
    data = graph.to_pyg()
    assert data.is_undirected()
    assert data.num_edges == 2 * graph.num_edges
    back = Graph.from_pyg(data)
    for key in ("features", "edges", "labels", "val_masks"):
        assert np.array_equal(getattr(back, key), getattr(graph, key)), key
    assert back.train_masks is None


def test_from_pyg_merges_directions_loops_and_duplicates_on_request():
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    data = Data(x=torch.zeros(3, 1), edge_index=torch.tensor([[0, 1, 2, 2, 0], [1, 0, 1, 2, 1]]))
    dropped = ("direction", "self_loops", "multi_edges")
    assert Graph.from_pyg(data, drop=dropped).edges.tolist() == [[0, 1], [1, 2]]
    assert Graph.from_pyg(data, drop="all").edges.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(InputError, match="needs both x and edge_index"):
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
    with pytest.raises(InputError, match=r"x of the PyG data must be a torch tensor, not list"):
        Graph.from_pyg(data.clone().update({"x": [[1.0]]}))


def test_other_kinds_of_data(data):
    import torch
    from torch_geometric.data import HeteroData
    from torch_geometric.transforms import ToSparseTensor

    hetero = HeteroData()
    hetero["user"].x = torch.ones(3, 2)
    hetero["user", "knows", "user"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="HeteroData has several types"):
        Graph.from_pyg(hetero)
    with pytest.raises(InputError, match="has edge_type and node_type, which"):
        Graph.from_pyg(hetero.to_homogeneous(add_node_type=True, add_edge_type=True))
    with pytest.raises(InputError, match="edges in adj_t"):
        Graph.from_pyg(ToSparseTensor()(data))
    with pytest.raises(InputError, match="has adj_t, which"):
        Graph.from_pyg(ToSparseTensor(remove_edge_index=False)(data))
