"""Neighbour covariances against brute force, and their gains against theory.

In a binary CSBM own views carry a signal of r, and the labels of neighbours have correlation 2h-1
at every degree: the edge covariance is r^2 (2h-1), the wedge covariance r^2 (2h-1)^2.
"""

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper import csbm, shifts, temperature, theory
from graphtemper.card.card import SourceCard
from graphtemper.models import SGC, SIGN
from graphtemper.signals import evidence
from graphtemper.signals.covariances import (
    HeldOutProducts,
    centred,
    edges_and_wedges,
    ratio_of_sums,
)
from graphtemper.signals.gains import ClassMoments, transfer
from graphtemper.signals.observation import Observation

DEGREE, SNR, H_SOURCE, H_TARGET = 15.0, 1.0, 0.8, 0.65


def _small():
    return csbm.sample(150, degree=5, homophily=0.7, snr=1.0, num_classes=3, num_features=9, seed=2)


@pytest.mark.parametrize("unit", [1e-70, 1e-30, 1e30, 1e70])
def test_covariances_scale_with_the_views_at_any_size(unit):
    """Views are stored in float32, in a unit of their own."""
    g = _small()
    own = np.random.default_rng(0).standard_normal((g.num_nodes, 3))
    nodes = np.arange(g.num_nodes)

    def measure(scale):
        held = HeldOutProducts(scale * own, g, nodes)
        held.add(scale * own, g.edges[::3])
        return np.array([*edges_and_wedges(scale * own, g, nodes), held.covariance])

    np.testing.assert_allclose(measure(unit) / unit / unit, measure(1.0), atol=1e-6)


def test_edges_and_wedges_equal_sums_over_pairs():
    g = _small()
    own = np.random.default_rng(0).standard_normal((g.num_nodes, 3))
    nodes = np.arange(10, 60)
    views = own - own.mean(axis=1, keepdims=True)
    around = views - g.degrees @ views / g.degrees.sum()
    neighbours = [[] for _ in range(g.num_nodes)]
    for i, j in g.edges:
        neighbours[i].append(j)
        neighbours[j].append(i)
    edge = [around[i] @ around[j] for i in nodes for j in neighbours[i]]
    pairs, weight = 0.0, 0.0
    for i in nodes:
        near = neighbours[i]
        products = sum(around[j] @ around[k] for j in near for k in near if j != k)
        pairs += products / max(len(near), 1)
        weight += max(len(near) - 1, 0)
    edges, wedges = edges_and_wedges(own, g, nodes)
    assert edges.value == pytest.approx(np.mean(edge), rel=1e-4)
    assert wedges.value == pytest.approx(pairs / weight, rel=1e-4)


def test_held_out_products_equal_sums_over_edges():
    g = _small()
    rng = np.random.default_rng(1)
    own, nodes = rng.standard_normal((g.num_nodes, 3)), np.arange(40)
    products = HeldOutProducts(own, g, nodes)
    total, count = 0.0, 0
    views = own - own.mean(axis=1, keepdims=True)
    around = views - g.degrees @ views / g.degrees.sum()
    for _ in range(2):
        logits = rng.standard_normal((g.num_nodes, 3))
        dropped = g.edges[rng.random(len(g.edges)) < 0.4]
        z = centred(logits)
        z = z - g.degrees @ z / g.degrees.sum()
        for i, j in dropped:
            for a, b in ((i, j), (j, i)):
                if a < 40:
                    total, count = total + z[a] @ around[b], count + 1
        products.add(logits, dropped)
    assert products.covariance.value == pytest.approx(total / count)


def test_without_edges_covariances_and_errors_are_zero():
    g = _small().replace(edges=np.empty((0, 2), int))
    own = np.ones((g.num_nodes, 3))
    assert edges_and_wedges(own, g, np.arange(5)) == ((0.0, 0.0), (0.0, 0.0))
    assert HeldOutProducts(own, g, np.arange(5)).covariance == (0.0, 0.0)
    assert ratio_of_sums(np.zeros(0), np.zeros(0)) == (0.0, 0.0)


def _binary(homophily, seed):
    """A binary CSBM with its signal spread over 16 columns, so that both halves carry it."""
    settings = {"degree": DEGREE, "snr": SNR, "num_classes": 2, "num_features": 16}
    return block_model(seed, homophily, 6000, **settings)


@pytest.fixture(scope="module")
def source():
    return _binary(H_SOURCE, 1)


@pytest.fixture(scope="module")
def model(source):
    return SGC(hops=1, operator="mean").fit(source, range(3000))


@pytest.fixture(scope="module")
def card(source, model):
    return SourceCard.build(model, source, range(3000, 6000), compositions=0)


def _gains(card, model, graph):
    observation = Observation(model, graph, range(3000, 6000), temperature=card.probe.temperature)
    return evidence.gains(evidence.measure(observation, card.probe), card.reference.evidence)


def _close(values, expected, within):
    """Compare a mean over targets; the error of their common source is about that of a target."""
    error = np.std(values, ddof=1)
    assert error < within
    assert abs(np.mean(values) - expected) < 3.0 * error * np.sqrt(1 + 1 / len(values))


def test_the_gains_are_the_ratios_of_signal_and_of_homophily(card, model):
    """The one-hop model aggregates (2h-1) r and its own view r, at every degree."""
    gains = [_gains(card, model, _binary(H_TARGET, s)) for s in range(2, 7)]
    ratio = (2 * H_TARGET - 1) / (2 * H_SOURCE - 1)
    _close([np.exp(item.homophily) for item in gains], ratio, 0.1)
    _close([np.exp(item.model) for item in gains], ratio, 0.1)
    _close([np.exp(item.own) for item in gains], 1.0, 0.1)


@pytest.mark.parametrize(
    ("shift", "own", "homophily"),
    [
        (shifts.noise(1.5), 1.0, 1.0),
        (shifts.scale(0.5), 0.5, 1.0),
        (shifts.shuffle(0.5), 0.5, 1.0),
        (shifts.rewire(0.5), 1.0, 0.5),
        (shifts.drop(0.5), 1.0, 1.0),
    ],
)
def test_each_kind_of_shift_changes_its_own_gain(card, model, source, shift, own, homophily):
    gains = _gains(card, model, shift(source, 11))
    assert np.exp(gains.own) == pytest.approx(own, rel=0.15)
    assert np.exp(gains.homophily) == pytest.approx(homophily, rel=0.2)


@pytest.mark.nightly
def test_the_signal_gain_notices_swapped_nodes_though_halves_do_not(source):
    model = SIGN(hops=1).fit(source, range(3000))
    card = SourceCard.build(model, source, range(3000, 6000), compositions=0)
    gains = _gains(card, model, shifts.shuffle(0.6)(source, 3))
    # The gain by halves falls only because neighbours are averaged; the true gain is 0.4.
    assert np.exp(gains.halves) > 0.5
    assert np.exp(gains.signal) < 0.4
    assert np.exp(_gains(card, model, shifts.noise(1.5)(source, 3)).signal) > 0.85


def _best(sample):
    """Return the NLL-optimal temperature of logits drawn with their classes."""
    return temperature.solve(sample.logits, sample.labels).temperature


def test_the_class_model_has_the_temperature_of_the_finite_degree_theory(source, model, card):
    """Within 10 %: the class model is Gaussian, the theory an exact mixture."""
    moments = ClassMoments.measure(model(source), source.labels)
    same = centred(model(source))
    base = _best(transfer(moments, 1.0, same.mean(axis=0), np.cov(same.T, bias=True)))
    ratios = []
    for seed in range(2, 7):
        target = _binary(H_TARGET, seed)
        logits = centred(model(target))
        gain = float(np.exp(_gains(card, model, target).model))
        predicted = transfer(moments, gain, logits.mean(axis=0), np.cov(logits.T, bias=True))
        ratios.append(_best(predicted) / base)
    expected = theory.finite_degree_temperature(H_TARGET, H_SOURCE, SNR, DEGREE)
    assert np.mean(ratios) == pytest.approx(expected, rel=0.10)


@pytest.mark.nightly
def test_heterophilous_edges_give_the_same_gains():
    """If neighbours are unlike, the edge covariance is negative and the gains are the same."""
    g, t = (_binary(h, s) for h, s in ((0.2, 1), (0.35, 2)))
    model = SIGN(hops=1).fit(g, range(3000))
    card = SourceCard.build(model, g, range(3000, 6000), compositions=0)
    assert card.reference.evidence.edge.value < 0.0
    assert np.exp(_gains(card, model, t).homophily) == pytest.approx(0.5, rel=0.2)


def test_the_choice_of_observed_nodes_does_not_change_the_gains(source, model, card):
    """Nine in ten observed nodes are of one class; nothing else has changed."""
    rng = np.random.default_rng(3)
    first, second = (rng.permutation(np.flatnonzero(source.labels == k)) for k in (0, 1))
    nodes = np.sort(np.concatenate([first[:1800], second[:200]]))
    observation = Observation(model, source, nodes, temperature=card.probe.temperature)
    gains = evidence.gains(evidence.measure(observation, card.probe), card.reference.evidence)
    assert np.exp(gains.own) == pytest.approx(1.0, abs=0.1)
    assert np.exp(gains.model) == pytest.approx(1.0, abs=0.1)
    assert np.exp(gains.homophily) == pytest.approx(1.0, abs=0.1)
