"""Graphs of networkx and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph
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
