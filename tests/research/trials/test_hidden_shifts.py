"""What shifts that no unlabelled number shows do to a graph."""

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper.graph.operators import column_moments
from graphtemper_research.trials import hidden_shifts


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(240, degree=6, homophily=0.8, snr=1.5, num_features=300, seed=1)


def test_a_rotation_keeps_lengths_and_angles(graph):
    turned = hidden_shifts.rotate(graph, 3)
    before, after = (g.features.astype(np.float64) for g in (graph, turned))
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=2e-2)
    assert np.abs(after - before).mean() > 0.1
    assert (hidden_shifts.rotate(graph, 3).features == turned.features).all()


def test_regional_noise_is_shared_by_neighbours_and_as_strong_as_noise(graph):
    change = hidden_shifts.regional_noise(graph, 1.0, 3).features - graph.features
    _, std = column_moments(graph.features)
    region = hidden_shifts.regions(graph, np.random.default_rng(1))
    assert region.max() + 1 >= graph.num_nodes // hidden_shifts.REGION_NODES
    assert (change / std).std() == pytest.approx(1.0, abs=0.1)
    one, two = (change / std)[graph.edges.T]
    shared = (one * two).mean()
    assert shared > 0.3  # independent noise has 0 here


def test_regions_of_a_graph_without_edges_are_its_nodes():
    lonely = Graph(features=np.ones((30, 1)), edges=np.empty((0, 2), int))
    region = hidden_shifts.regions(lonely, np.random.default_rng(1))
    assert sorted(region.tolist()) == list(range(30))


def test_row_and_class_noise(graph):
    _, std = column_moments(graph.features)
    change = (hidden_shifts.row_noise(graph, 1.0, 3).features - graph.features) / std
    np.testing.assert_allclose(change, change[:, :1].repeat(300, axis=1), atol=1e-4)
    assert change[:, 0].std() == pytest.approx(1.0, abs=0.15)
    change = (hidden_shifts.class_noise(graph, 1.5, 3).features - graph.features) / std
    often = np.bincount(graph.labels).argmax()
    assert (change[graph.labels != often] == 0).all()
    assert change[graph.labels == often].std() == pytest.approx(1.5, abs=0.02)
