"""Draws that belong to what a node is: keys, ordered normal numbers, links by their ends."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm
from graphtemper.models import SIGN
from graphtemper.signals.passes import (
    OrderedDraws,
    edge_dropout,
    feature_noise,
    kept_links,
    link_keys,
    mixed,
    node_keys,
    places,
)


def turned(graph, seed):
    """The same graph with other numbers, and where each node went."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    edges = np.argsort(order)[graph.edges]
    edges = edges[rng.permutation(len(edges))]
    flipped = rng.random(len(edges)) < 0.5
    edges[flipped] = edges[flipped][:, ::-1]
    return Graph(features=graph.features[order], edges=edges), order


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4).replace(labels=None)


def test_keys_follow_their_nodes(graph):
    other, order = turned(graph, 1)
    assert (node_keys(other) == node_keys(graph)[order]).all()
    assert np.unique(node_keys(graph)).size == 200


def test_keys_of_sparse_and_dense_features_are_equal():
    values = np.random.default_rng(0).poisson(0.2, (60, 9)).astype(np.float32)
    dense = Graph(features=values, edges=[[0, 1], [1, 2], [5, 9]])
    stored = sp.csr_matrix(np.where(values == 0.0, 7.0, values))
    stored.data[stored.data == 7.0] = -0.0  # zeros may be stored, with either sign
    for features in (sp.csr_matrix(values), stored):
        assert (node_keys(dense.replace(features=features)) == node_keys(dense)).all()


def test_nodes_with_equal_features_are_told_apart_by_their_neighbours():
    rng = np.random.default_rng(2)
    edges = np.unique(np.sort(rng.integers(0, 150, (450, 2)), axis=1), axis=0)
    graph = Graph(features=np.ones((150, 3)), edges=edges[edges[:, 0] != edges[:, 1]])
    keys = node_keys(graph)
    assert np.unique(keys).size == 150
    other, order = turned(graph, 3)
    same = node_keys(other) == keys[order]
    assert same[graph.degrees[order] > 2].mean() > 0.95


def test_nodes_that_are_alike_have_different_draws():
    ring = np.column_stack([np.arange(100), (np.arange(100) + 1) % 100])
    graph = Graph(features=np.ones((100, 2)), edges=ring)
    keys = node_keys(graph)
    assert np.unique(keys).size == 100
    keep = kept_links(link_keys(graph, keys), 0.3, np.random.default_rng(0))
    assert 15 < (~keep).sum() < 45
    other, _ = turned(graph, 4)  # the same set of keys, on other nodes
    assert set(node_keys(other)) == set(keys)


def test_draws_follow_their_nodes_through_every_kind_of_pass(graph):
    model = SIGN(hops=1).fit(csbm.sample(200, 6, 0.8, 1.0, num_features=4))
    other, order = turned(graph, 5)
    for predictor in (model, lambda g: model(g)):
        for run in (feature_noise, edge_dropout):
            one, two = (list(run(predictor, item, 0.5, 2, 7)) for item in (graph, other))
            for first, second in zip(one, two, strict=True):
                np.testing.assert_allclose(second, first[order], atol=1e-4)
            assert not np.allclose(one[0], one[1])


def test_ordered_draws_are_normal_and_only_reorder_rows_of_nodes():
    keys = mixed(np.arange(1000, dtype=np.uint64))
    draws = OrderedDraws(np.random.default_rng(0), places(keys)).standard_normal(
        (1000, 3), dtype=np.float32
    )
    plain = np.random.default_rng(0).standard_normal((1000, 3), dtype=np.float32)
    assert draws.dtype == np.float32
    np.testing.assert_array_equal(draws[np.argsort(keys)], plain)
    other = OrderedDraws(np.random.default_rng(0), places(keys)).standard_normal((7, 3))
    np.testing.assert_array_equal(other, np.random.default_rng(0).standard_normal((7, 3)))


def test_links_are_held_out_with_the_stated_probability(graph):
    keys, rng = link_keys(graph, node_keys(graph)), np.random.default_rng(1)
    shares = np.mean([~kept_links(keys, 0.3, rng) for _ in range(400)], axis=0)
    assert abs(shares.mean() - 0.3) < 0.01
    assert np.abs(shares - 0.3).max() < 0.12  # five standard errors: every link alike
    assert (~kept_links(keys, 0.0, rng)).sum() == 1
    assert not kept_links(keys, 1.0, rng).any()
