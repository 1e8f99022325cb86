"""Views of a model against the same measurements in plain forward passes."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper.models import SIGN
from graphtemper.models.passes import Columns, ForwardPasses, Noise
from graphtemper.signals import evidence, views
from graphtemper.signals.covariances import column_halves, ratio_of_sums, split_nodes
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe

NODES = np.arange(100, 300)


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=8, homophily=0.8, snr=1.0, num_features=10, seed=1)


@pytest.fixture(scope="module")
def linear(graph):
    return SIGN(hops=2).fit(graph, range(100))


@pytest.fixture(scope="module")
def probe(graph):
    std = graph.features.std(axis=0).astype(np.float64)
    return Probe(1.3, 0.6, std, 0.8, -0.3, seed=5, splits=3)


class Counting:
    """A predictor without fast passes that counts its passes in rows of 300 nodes."""

    def __init__(self, predictor):
        self.predictor, self.calls = predictor, 0

    def __call__(self, graph):
        self.calls += graph.num_nodes / 300
        return self.predictor(graph)


def seen(predictor, graph):
    return Observation(predictor, graph, NODES, seed=3)


def test_the_halves_of_a_linear_model_are_those_of_two_passes(graph, probe):
    model = Counting(SIGN(hops=2, operator="mean").fit(graph, range(100)))
    found = views.measure(seen(model, graph), probe)
    passes, mean = ForwardPasses(model), graph.features.mean(axis=0)
    for alone, measured in ((False, found.feature), (True, found.own_feature)):
        products = np.zeros(NODES.size)
        for half in column_halves(10, 3, probe.seed):
            pair = [
                passes.run(graph, columns=Columns(read, mean), alone=alone)
                for read in (half, ~half)
            ]
            shown = split_nodes(pair[0], sum(pair), np.zeros(NODES.size, int), None, NODES)
            products += shown.product
        expected = ratio_of_sums(products, np.full(NODES.size, 3 * 1.3**2))
        np.testing.assert_allclose(measured, expected, atol=1e-5)


def test_own_views_are_those_without_edges(graph, linear, probe):
    found = views.measure(seen(linear, graph), probe)
    expected = linear(graph.without_neighbours()) / 1.3
    np.testing.assert_allclose(found.own, expected, atol=1e-5)


def test_noise_of_the_sources_size_is_extended_from_the_graphs_own(graph, linear, probe):
    """A linear model's logits under noise of half the size change by half as much."""
    large = replace(probe, splits=120)
    double = graph.replace(features=2.0 * graph.features)
    found = views.measure(seen(linear, double), large)
    noise = Noise(probe.noise_level * probe.column_std, np.random.default_rng(0))
    clean = linear(double)[NODES].argmax(axis=1)
    runs = (ForwardPasses(linear).run(double, noise=noise)[NODES] for _ in range(60))
    expected = np.mean([(run.argmax(axis=1) == clean).mean() for run in runs])
    assert found.source_noise_agreement == pytest.approx(expected, abs=0.01)
    assert found.noise_agreement < found.source_noise_agreement - 0.02


def test_opposite_noise_makes_agreement_more_precise(graph, linear, probe):
    few = replace(probe, splits=1)
    found = [
        views.measure(Observation(linear, graph, seed=seed), few).noise_agreement
        for seed in range(40)
    ]
    noise = Noise(probe.noise_level * graph.features.std(axis=0), np.random.default_rng(0))
    clean = linear(graph).argmax(axis=1)
    runs = (ForwardPasses(linear).run(graph, noise=noise) for _ in range(200))
    plain = [(run.argmax(axis=1) == clean).mean() for run in runs]
    assert np.mean(found) == pytest.approx(np.mean(plain), abs=0.006)
    assert np.var(found) < 0.6 * np.var(plain)


@pytest.mark.parametrize("splits", [1, 2, 3, 6])
def test_the_passes_are_as_many_as_announced(graph, linear, probe, splits):
    counting = Counting(linear)
    observation = seen(counting, graph)
    evidence.measure(observation, replace(probe, splits=splits))
    assert counting.calls == views.num_passes(splits)
    # Nothing is measured twice, and fewer splits are some of the same ones.
    views.measure(observation, replace(probe, splits=splits))
    few = views.measure(observation, replace(probe, splits=1))
    assert counting.calls == views.num_passes(splits)
    alone = views.measure(seen(linear, graph), replace(probe, splits=1))
    np.testing.assert_allclose(few.feature, alone.feature, atol=1e-5)
    np.testing.assert_allclose(few.held, alone.held, atol=1e-5)


def test_known_own_views_save_passes_and_change_nothing(graph, linear, probe):
    source = seen(Counting(linear), graph)
    views.measure(source, probe)
    shifted = shifts.rewire(0.5)(graph, seed=2)
    assert shifted.features is graph.features
    counting = Counting(linear)
    observation = seen(counting, shifted)
    views.share_own_views(source, observation)
    found = views.measure(observation, probe)
    assert counting.calls == views.num_passes(3, own_known=True)
    expected = views.measure(seen(Counting(linear), shifted), probe)
    for name in ("feature", "own_feature", "edge", "wedge", "held", "own_square", "agree"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-5)


def test_the_same_numbers_of_noise_serve_every_level(graph, linear):
    observation = seen(linear, graph)
    clean = observation.all_logits
    small, large = (views.noisy_logits(observation, level, 0) - clean for level in (0.2, 0.4))
    np.testing.assert_allclose(large, 2.0 * small, atol=1e-4)


def test_a_graph_without_edges_has_no_agreement_across_them(linear, graph, probe):
    found = views.measure(seen(linear, graph.without_neighbours()), probe)
    assert found.edge_agreement == 0.0
    assert found.held == found.edge == (0.0, 0.0)


def test_another_probe_takes_other_passes(graph, linear, probe):
    observation = seen(linear, graph)
    first = views.measure(observation, probe)
    stronger = views.measure(observation, replace(probe, noise_level=3.0))
    other = views.measure(observation, replace(probe, seed=6))
    assert stronger.noise_agreement < first.noise_agreement
    assert stronger.feature == first.feature != other.feature
