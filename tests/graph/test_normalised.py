import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper.graph.normalised import EdgeSubsets
from graphtemper.graph.operators import operator

KINDS = ("mean", "symmetric", "self-loop")


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(60, degree=4, homophily=0.7, snr=1.0, seed=1)
    edges = g.edges[(g.edges != 7).all(axis=1)]  # node 7 has no neighbour
    return g.replace(edges=edges)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_a_subset_has_the_operator_of_the_graph_with_those_edges(graph, kind, share):
    subsets = EdgeSubsets(graph, kind)
    rng = np.random.default_rng(3)
    for _ in range(3):
        keep = rng.random(graph.num_edges) < share
        expected = operator(graph.keep_edges(keep), kind).toarray()
        np.testing.assert_allclose(subsets.operator(keep).toarray(), expected, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_loses_all_its_edges_is_isolated(graph, kind):
    keep = (graph.edges != 5).all(axis=1)
    row = EdgeSubsets(graph, kind).operator(keep).toarray()[5]
    own = 1.0 if kind == "self-loop" else 0.0
    assert row[5] == own
    assert np.delete(row, 5).tolist() == [0.0] * (graph.num_nodes - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_subsets_share_no_memory(graph, kind):
    subsets = EdgeSubsets(graph, kind)
    everything = np.ones(graph.num_edges, bool)
    first = subsets.operator(everything)
    before = first.toarray()
    subsets.operator(~everything)
    assert (first.toarray() == before).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_without_edges_has_one_subset(kind):
    g = Graph(features=[[1.0], [2.0]], edges=np.empty((0, 2), int))
    matrix = EdgeSubsets(g, kind).operator(np.empty(0, bool)).toarray()
    assert (matrix == operator(g, kind).toarray()).all()
