"""Dependence of predictions: kernels against dense matrices, design effects against simulation."""

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper.signals import dependence
from graphtemper.signals.dependence import HOPS, MOST_PARTS


def _walk(graph, both):
    """The mean over a node and what it receives from, as a dense matrix."""
    weights = np.eye(graph.num_nodes)
    given = np.ones(graph.num_edges) if graph.edge_weight is None else np.abs(graph.edge_weight)
    for (sender, receiver), weight in zip(graph.edges, given, strict=True):
        weights[receiver, sender] += weight
        if both:
            weights[sender, receiver] += weight
    return weights / weights.sum(axis=1, keepdims=True)


def _kernels(graph):
    walks = [_walk(graph, False), _walk(graph, True)] if graph.directed else [_walk(graph, True)]
    kernels = [np.eye(graph.num_nodes)]
    for walk in walks:
        for hops in range(1, HOPS + 1):
            power = np.linalg.matrix_power(walk, hops)
            kernels.append(power @ power.T)
    return kernels


def _arcs(num_nodes, count, seed, weighted):
    rng = np.random.default_rng(seed)
    edges = rng.integers(num_nodes, size=(count, 2))
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    weight = rng.normal(size=len(edges)) if weighted else None
    return Graph(features=np.zeros((num_nodes, 1)), edges=edges, directed=True, edge_weight=weight)


@pytest.fixture(params=["undirected", "directed", "weights"])
def graph(request):
    if request.param == "undirected":
        return csbm.sample(400, degree=5, homophily=0.7, snr=1.0, seed=3)
    return _arcs(400, 1600, 5, request.param == "weights")


def test_the_design_effect_is_that_of_dense_kernels(graph):
    kernels = _kernels(graph)
    nodes = np.sort(np.random.default_rng(0).permutation(400)[:250])
    for part in range(len(kernels)):
        parts = np.eye(len(kernels))[part]
        block = kernels[part][np.ix_(nodes, nodes)]
        expected = max(block.sum() / np.trace(block), 1.0)
        # Random signs estimate the trace.
        assert dependence.design_effect(graph, nodes, parts) == pytest.approx(expected, rel=0.05)


def test_noise_is_told_apart_by_how_far_it_was_averaged(graph):
    rng = np.random.default_rng(1)
    walk = _walk(graph, not graph.directed)
    own, averaged = rng.standard_normal((2, 400, 60))
    averaged = np.linalg.matrix_power(walk, 2) @ averaged
    nodes = np.sort(rng.permutation(400)[:300])
    labels = rng.integers(3, size=300)
    # A class offset is no dependence.
    for offset in (0.0, 10.0):
        alone = dependence.measure(graph, nodes, own[nodes] + offset * labels[:, None], labels)
        assert dependence.design_effect(graph, nodes, alone) < 1.25
    common = dependence.measure(graph, nodes, averaged[nodes], labels)
    assert common[2] > 0.7
    assert common[0] < 0.1


def test_the_design_effect_predicts_how_far_means_vary(graph):
    rng = np.random.default_rng(2)
    walk = _walk(graph, not graph.directed)
    values = np.linalg.matrix_power(walk, 2) @ rng.standard_normal((400, 3000))
    truth = 400 * values.mean(axis=0).var() / (values**2).mean()
    nodes = np.arange(400)
    parts = dependence.measure(graph, nodes, values[:, :60], np.zeros(400, dtype=int))
    assert dependence.design_effect(graph, nodes, parts) == pytest.approx(truth, rel=0.3)
    assert truth > 2.0


def test_graphs_without_dependence_have_an_effect_of_one():
    lonely = Graph(features=np.zeros((50, 1)), edges=np.empty((0, 2), dtype=int))
    nodes, labels = np.arange(50), np.arange(50) % 2
    parts = dependence.measure(lonely, nodes, np.random.default_rng(0).random((50, 2)), labels)
    assert dependence.design_effect(lonely, nodes, parts) == pytest.approx(1.0)
    certain = np.eye(2)[labels]
    assert dependence.measure(lonely, nodes, certain, labels).tolist() == [1.0, 0.0, 0.0]


def test_parts_of_a_directed_source_apply_to_undirected_targets():
    target = csbm.sample(300, degree=5, homophily=0.7, snr=1.0, seed=4)
    nodes = np.arange(300)
    both, one = np.eye(MOST_PARTS)[-1], np.eye(1 + HOPS)[-1]
    expected = dependence.design_effect(target, nodes, one)
    assert dependence.design_effect(target, nodes, both) == expected


def test_numbers_of_nodes_do_not_matter():
    graph = csbm.sample(300, degree=5, homophily=0.7, snr=1.0, seed=4)
    order = np.random.default_rng(0).permutation(300)
    turned = graph.subgraph(order)
    nodes, parts = np.arange(200), np.array([0.2, 0.3, 0.5])
    places = np.argsort(order)[nodes]
    first = dependence.design_effect(graph, nodes, parts)
    assert dependence.design_effect(turned, places, parts) == pytest.approx(first, rel=1e-12)
