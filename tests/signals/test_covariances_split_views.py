"""Covariances of split views against theory.

In a binary CSBM, a one-hop mean model aggregates (2h-1) r of signal. Two feature halves read the
same neighbours, so chance in their classes counts as signal: (2h-1)^2 + 4h(1-h) E[1/d] replaces
(2h-1)^2. Neighbour covariances do not have this term; see `test_covariances_neighbours`.
"""

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper import shifts
from graphtemper.graph.operators import column_moments
from graphtemper.models import SGC
from graphtemper.models.passes import Columns, passes_of
from graphtemper.signals.covariances import column_halves, leads, split_nodes


def cross_covariance(first, second):
    """The trace of the covariance between two views."""
    predicted = np.zeros(len(first), dtype=int)
    return split_nodes(first, first + second, predicted).product.mean()


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_what_a_split_shows_is_that_of_centred_views(classes):
    rng = np.random.default_rng(classes)
    u, v = rng.integers(-3, 4, size=(2, 500, classes)).astype(float)  # with ties
    predicted, nodes, centre = rng.integers(classes, size=200), np.arange(100, 300), np.arange(450)
    found = split_nodes(u, u + v, predicted, centre, nodes)
    views = [view - view.mean(axis=1, keepdims=True) for view in (u, v)]
    one, other = (view[nodes] - view[centre].mean(axis=0) for view in views)
    np.testing.assert_allclose(found.product, (one * other).sum(axis=1), atol=1e-12)
    one, other = (view[nodes] for view in views)
    np.testing.assert_allclose(found.square, ((one - other) ** 2).sum(axis=1), atol=1e-12)
    least = np.minimum(*(leads(view, predicted) for view in (one, other)))
    np.testing.assert_allclose(found.lead, least, atol=1e-12)
    right = [view[nodes].argmax(axis=1) == predicted for view in (u, v)]
    np.testing.assert_allclose(found.agree, np.mean(right, axis=0))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("count", [1, 5])
def test_views_are_left_as_they_are(count, order):
    views = [np.asarray(np.random.default_rng(s).random((count, 3)), order=order) for s in (0, 1)]
    before = [view.copy() for view in views]
    split_nodes(*views, np.zeros(count, dtype=int))
    leads(views[0], np.zeros(count, dtype=int))
    for view, known in zip(views, before, strict=True):
        np.testing.assert_array_equal(view, known)


@pytest.mark.parametrize("num_features", [1, 2, 7, 10])
def test_halves_are_halves_and_belong_to_their_seed(num_features):
    halves = column_halves(num_features, 5, seed=3)
    assert (halves.sum(axis=1) == num_features // 2).all()
    assert (halves == column_halves(num_features, 5, seed=3)).all()
    assert (halves[:2] == column_halves(num_features, 2, seed=3)).all()
    if num_features == 10:
        assert (halves != column_halves(num_features, 5, seed=4)).any()


def test_cross_covariance_does_not_depend_on_noise_in_one_half_or_on_order():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((20_000, 3))
    v = u + rng.standard_normal(u.shape)
    clean = cross_covariance(u, v)
    assert clean == pytest.approx(2.0, abs=0.06)  # three unit variances less the node's own mean
    noisy = [cross_covariance(u, v + 2.0 * rng.standard_normal(u.shape)) for _ in range(20)]
    # The standard error of one is sqrt(2) * 2 / sqrt(20,000) = 0.02.
    assert abs(np.mean(noisy) - clean) < 0.02
    order = rng.permutation(len(u))
    assert cross_covariance(u[order], v[order]) == pytest.approx(clean, rel=1e-12)
    assert cross_covariance(v, u) == pytest.approx(clean, rel=1e-12)
    shift = rng.standard_normal((len(u), 1))
    assert cross_covariance(u + shift + [1.0, 2.0, 3.0], v - shift) == pytest.approx(clean)


DEGREE, SNR, H_SOURCE, H_TARGET = 15.0, 1.0, 0.8, 0.65


def _rotated(homophily, seed, degree=DEGREE):
    """A binary CSBM with its signal spread over 16 columns, so that both halves carry it."""
    settings = {"degree": degree, "snr": SNR, "num_classes": 2, "num_features": 16}
    return block_model(seed, homophily, 6000, **settings)


@pytest.fixture(scope="module")
def source():
    return _rotated(H_SOURCE, 1)


@pytest.fixture(scope="module")
def model(source):
    return SGC(hops=1, operator="mean").fit(source)


def _feature_covariance(model, graph):
    mean = column_moments(graph.features)[0]
    halves = column_halves(graph.num_features, 6, seed=0)
    passes = passes_of(model)
    pairs = (
        [passes.run(graph, columns=Columns(read, mean)) for read in (half, ~half)]
        for half in halves
    )
    return np.mean([cross_covariance(*pair) for pair in pairs])


def test_noise_does_not_change_the_gain(source, model):
    noisy = shifts.noise(1.5)(source, 7)
    assert np.var(model(noisy)[:, 1]) > 1.3 * np.var(model(source)[:, 1])
    ratio = _feature_covariance(model, noisy) / _feature_covariance(model, source)
    assert np.sqrt(ratio) == pytest.approx(1.0, abs=0.05)


def test_the_feature_gain_counts_chance_in_the_neighbourhood_as_signal(source, model):
    degrees = source.degrees[source.degrees > 0]
    chance = float((1.0 / degrees).mean())

    def signal(h):
        return (2 * h - 1) ** 2 + 4 * h * (1 - h) * chance

    base = _feature_covariance(model, source)
    targets = [_feature_covariance(model, _rotated(H_TARGET, s)) for s in range(2, 5)]
    gains = np.sqrt(np.array(targets) / base)
    assert np.mean(gains) == pytest.approx(np.sqrt(signal(H_TARGET) / signal(H_SOURCE)), abs=0.04)
    assert np.mean(gains) > (2 * H_TARGET - 1) / (2 * H_SOURCE - 1) + 0.02
