"""Shared passes against the same measurements in passes of their own."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper.card.budget import observing
from graphtemper.models import GCN, SIGN
from graphtemper.models.predictor import ForwardPasses
from graphtemper.signals import covariances, evidence, shared_passes
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe, feature_noise

NODES = np.arange(100, 300)


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=8, homophily=0.8, snr=1.0, num_features=10, seed=1)


@pytest.fixture(scope="module")
def linear(graph):
    return SIGN(hops=2, operator="mean").fit(graph, range(100))


@pytest.fixture(scope="module")
def probe(graph):
    std = graph.features.std(axis=0).astype(np.float64)
    return Probe(1.3, 0.6, std, 0.8, -0.3, seed=5, splits=3, shared_splits=3)


class Counting:
    """A predictor without fast passes that counts them; copies of 300 nodes count half a pass."""

    def __init__(self, predictor):
        self.predictor, self.calls = predictor, 0

    def __call__(self, graph):
        self.calls += 1.5 if graph.num_nodes > 300 else 1
        return self.predictor(graph)


def seen(predictor, graph):
    return Observation(predictor, graph, NODES, seed=3).at(1.3)


def test_the_halves_of_a_linear_model_are_those_of_two_passes(graph, linear, probe):
    shared = shared_passes.measure(seen(linear, graph), probe)
    feature, own_feature = covariances.halves(seen(Counting(linear), graph), probe)
    np.testing.assert_allclose(shared.feature, feature, atol=1e-5)
    np.testing.assert_allclose(shared.own_feature, own_feature, atol=1e-5)


def test_own_views_are_those_without_edges(graph, probe):
    model = GCN(hidden=8, epochs=20).fit(graph, range(100))
    shared = shared_passes.measure(seen(model, graph), probe)
    np.testing.assert_allclose(shared.own.whole, ForwardPasses(model).own_view(graph), atol=1e-5)
    thorough = evidence.measure(seen(model, graph), replace(probe, shared_splits=0))
    np.testing.assert_allclose(shared.edge, thorough.edge, rtol=1e-4)
    np.testing.assert_allclose(shared.wedge, thorough.wedge, rtol=1e-4)


def test_held_out_edges_agree_as_in_passes_of_their_own(graph, linear, probe):
    many = replace(probe, shared_splits=40, passes=40)
    slow = Counting(linear)  # on a graph without edges, as own views are measured here
    shared = evidence.measure(seen(slow, graph), many)
    thorough = evidence.measure(seen(slow, graph), replace(many, shared_splits=0))
    assert shared.edge_agreement == pytest.approx(thorough.edge_agreement, abs=0.03)
    assert shared.held.value == pytest.approx(thorough.held.value, rel=0.1)


def test_noise_of_the_sources_size_is_extended_from_the_graphs_own(graph, linear, probe):
    """A linear model's logits under noise of half the size change by half as much."""
    large = replace(probe, shared_splits=60)
    double = graph.replace(features=2.0 * graph.features)
    found = shared_passes.measure(seen(linear, double), large)
    size = probe.noise_level * probe.column_std
    runs = ForwardPasses(linear).noisy(double, size, 60, np.random.default_rng(0))
    clean = linear(double)[NODES].argmax(axis=1)
    expected = np.mean([(run[NODES].argmax(axis=1) == clean).mean() for run in runs])
    assert found.source_noise_agreement == pytest.approx(expected, abs=0.01)
    assert found.noise_agreement < found.source_noise_agreement - 0.02


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("splits", [1, 3])
def test_the_passes_are_as_many_as_announced(graph, linear, probe, copies, splits):
    counting = Counting(linear)
    settings = replace(probe, shared_splits=splits, copies=copies)
    observation = seen(counting, graph)
    evidence.measure(observation, settings)
    shared_passes.measure(observation, settings)  # nothing is measured twice
    assert counting.calls == observing(splits, copies)


def test_copies_of_the_nodes_save_passes_and_change_nothing(graph, linear, probe):
    shifted = shifts.noise(0.5)(graph, seed=2)
    joined, apart = (
        shared_passes.measure(seen(Counting(linear), shifted), replace(probe, copies=copies))
        for copies in (True, False)
    )
    for name in ("feature", "own_feature", "edge", "wedge", "held", "square", "agree"):
        np.testing.assert_allclose(getattr(joined, name), getattr(apart, name), atol=1e-5)
    np.testing.assert_allclose(joined.own.whole, apart.own.whole, atol=1e-5)


@pytest.mark.parametrize("copies", [True, False])
def test_known_own_views_save_passes_and_change_nothing(graph, linear, probe, copies):
    settings = replace(probe, copies=copies)
    source = shared_passes.measure(seen(Counting(linear), graph), settings)
    shifted = shifts.rewire(0.5)(graph, seed=2)
    assert shifted.features is graph.features
    counting = Counting(linear)
    observation = seen(counting, shifted)
    observation.memo[shared_passes.OWN_VIEWS] = source.own
    found = shared_passes.measure(observation, settings)
    assert counting.calls == observing(3, copies, own=False)
    expected = shared_passes.measure(seen(Counting(linear), shifted), settings)
    for name in ("feature", "own_feature", "edge", "wedge", "held", "own_square", "agree"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-5)


class StopsBeingLinear:
    """A model with first matrices whose passes through them end after the first one."""

    def __init__(self, predictor, after):
        self.predictor, self.after, self.calls = predictor, after, 0

    def __call__(self, graph):
        self.calls += 1
        return self.predictor(graph)

    def deferred(self, graph, mean, half):
        return self

    def logits(self, *, noise):
        assert noise is not None
        self.after -= 1
        return np.full((300, 2), 7.0) if self.after >= 0 else None


@pytest.mark.parametrize("after", [0, 1, 3])
def test_noisy_passes_go_on_when_a_module_stops_being_linear(graph, linear, after):
    model = StopsBeingLinear(linear, after)
    observation = Observation(model, graph, NODES, seed=3, logits=linear(graph))
    runs = list(shared_passes.noisy_passes(observation, 0.5, 3))
    assert [bool((run == 7.0).all()) for run in runs] == [place < after for place in range(3)]
    assert model.calls == 3 - after
    expected = feature_noise(linear, graph, 0.5, 60, 4)
    for run in runs[after:]:
        assert run.shape == (200, 2)
        spread = np.mean([(one[NODES] - linear(graph)[NODES]).std() for one in expected])
        assert (run - linear(graph)[NODES]).std() == pytest.approx(spread, rel=0.2)
        break


def test_opposite_noise_makes_agreement_more_precise(graph, linear, probe):
    few = replace(probe, shared_splits=1)
    found = [
        shared_passes.measure(Observation(linear, graph, seed=seed).at(1.3), few).noise_agreement
        for seed in range(40)
    ]
    size = probe.noise_level * graph.features.std(axis=0)
    clean = linear(graph).argmax(axis=1)
    runs = ForwardPasses(linear).noisy(graph, size, 200, np.random.default_rng(0))
    plain = [(run.argmax(axis=1) == clean).mean() for run in runs]
    assert np.mean(found) == pytest.approx(np.mean(plain), abs=0.006)
    assert np.var(found) < 0.6 * np.var(plain)
