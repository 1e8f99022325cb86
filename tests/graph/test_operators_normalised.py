import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.graph.operators import normalised_matrix

KINDS = ("mean", "symmetric", "self-loop")


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(60, degree=4, homophily=0.7, snr=1.0, seed=1)
    edges = g.edges[(g.edges != 7).all(axis=1)]  # node 7 has no neighbour
    return g.replace(edges=edges)


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_is_its_definition(graph, kind):
    dense = np.zeros((60, 60))
    dense[tuple(graph.edges.T)] = dense[tuple(graph.edges.T[::-1])] = 1.0
    dense += np.eye(60) * (kind == "self-loop")
    degree = dense.sum(axis=1)
    left = np.divide(1.0, degree, out=np.zeros(60), where=degree > 0)
    root = np.sqrt(left)
    expected = left[:, None] * dense if kind == "mean" else root[:, None] * dense * root
    np.testing.assert_allclose(normalised_matrix(graph, kind).toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_loses_all_its_edges_is_isolated(graph, kind):
    keep = (graph.edges != 5).all(axis=1)
    row = normalised_matrix(graph.keep_links(keep), kind).toarray()[5]
    own = 1.0 if kind == "self-loop" else 0.0
    assert row[5] == own
    assert np.delete(row, 5).tolist() == [0.0] * (graph.num_nodes - 1)
