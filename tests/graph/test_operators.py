import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import Graph, csbm
from graphtemper.graph import operators


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(300, degree=6, homophily=0.7, snr=1.0, num_features=5, seed=1)
    isolated = np.setdiff1d(np.arange(300), [7])
    return g.replace(edges=g.edges[np.isin(g.edges, isolated).all(axis=1)])


def dense_operator(graph, kind):
    """The textbook definition, N x N, for the test only."""
    a = np.zeros((graph.num_nodes, graph.num_nodes))
    for u, v in graph.edges:
        a[u, v] = a[v, u] = 1
    if kind == "self-loop":
        a += np.eye(graph.num_nodes)
    d = a.sum(axis=1)
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d > 0)
    if kind == "mean":
        return inverse[:, None] * a
    return np.sqrt(inverse)[:, None] * a * np.sqrt(inverse)


@pytest.mark.parametrize("kind", ["mean", "symmetric", "self-loop"])
def test_operators_match_their_definition(graph, kind):
    assert graph.degrees[7] == 0
    matrix = operators.operator(graph, kind)
    np.testing.assert_allclose(matrix.toarray(), dense_operator(graph, kind), atol=1e-7)
    assert np.isfinite(matrix.data).all()


def test_isolated_nodes_are_defined(graph):
    x = graph.features
    assert not operators.multiply(operators.operator(graph, "mean"), x)[7].any()
    np.testing.assert_array_equal(
        operators.multiply(operators.operator(graph, "self-loop"), x)[7], x[7]
    )


def test_self_loop_operator_equals_gcn_norm(graph):
    torch = pytest.importorskip("torch")
    from torch_geometric.nn import SGConv

    conv = SGConv(graph.num_features, 2, K=2, bias=False)
    with torch.no_grad():
        conv.lin.weight.copy_(torch.eye(2, graph.num_features))
        data = graph.to_pyg()
        theirs = conv(data.x, data.edge_index).numpy()
    matrix = operators.operator(graph)
    ours = operators.multiply(matrix, operators.multiply(matrix, graph.features))[:, :2]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_products_of_dense_and_sparse_features_are_equal(graph):
    matrix = operators.operator(graph)
    dense, sparse = graph.features, sp.csr_matrix(graph.features)
    for _ in range(3):
        dense, sparse = operators.multiply(matrix, dense), operators.multiply(matrix, sparse)
        assert sp.issparse(sparse)
        np.testing.assert_allclose(dense, sparse.toarray(), atol=1e-6)


def test_threads_do_not_change_a_byte(graph, monkeypatch):
    monkeypatch.setattr(operators, "_WORTH_THREADS", 0)
    matrix = operators.operator(graph)
    results = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(operators, "num_cores", lambda threads=threads: threads)
        results.append(operators.multiply(matrix, graph.features).tobytes())
    assert results[0] == results[1] == results[2]


@given(st.integers(0, 3), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_horner_equals_the_sum_of_powers(hops, seed):
    rng = np.random.default_rng(seed)
    g = csbm.sample(40, degree=4, homophily=0.6, snr=1.0, seed=seed)
    matrix = operators.operator(g, "symmetric")
    terms = [rng.standard_normal((40, 2)) for _ in range(hops + 1)]
    dense = matrix.toarray().astype(np.float64)
    expected = sum(np.linalg.matrix_power(dense, k) @ term for k, term in enumerate(terms))
    np.testing.assert_allclose(operators.horner(matrix, terms), expected, atol=1e-10)


def test_bad_arguments(graph):
    with raises("choice"):
        operators.operator(graph, "max")


def test_a_graph_without_edges_propagates():
    g = Graph(features=[[1.0], [2.0]], edges=[])
    for kind, expected in (("mean", [0, 0]), ("symmetric", [0, 0]), ("self-loop", [1, 2])):
        product = operators.multiply(operators.operator(g, kind), g.features)
        assert product.ravel().tolist() == expected
