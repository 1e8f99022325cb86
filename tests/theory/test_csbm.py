import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import csbm


@given(st.integers(2, 6), st.floats(0, 1), st.floats(0.5, 20), st.integers(300, 5000))
@settings(max_examples=60, deadline=None)
def test_block_probabilities_invert_the_definitions(k, h, d, n):
    p, q = csbm.block_probabilities(n, d, h, k)
    assert p * (n / k - 1) + q * n * (k - 1) / k == pytest.approx(d)
    assert p / (p + q * (k - 1)) == pytest.approx(h)


@given(st.integers(2, 9), st.integers(0, 5), st.floats(0.1, 10))
def test_means_form_a_simplex(k, extra, radius):
    means = csbm.simplex_means(k, k - 1 + extra, radius)
    gram = means @ means.T / radius**2
    expected = np.full((k, k), -1 / (k - 1)) + np.eye(k) * (1 + 1 / (k - 1))
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(means.sum(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize(("k", "h"), [(2, 0.8), (3, 0.2), (5, 0.6)])
def test_degree_homophily_and_snr_match_the_arguments(k, h):
    g = csbm.sample(20_000, degree=12, homophily=h, snr=2.0, num_classes=k, num_features=7, seed=3)
    assert 2 * g.num_edges / g.num_nodes == pytest.approx(12, rel=0.02)
    same = (g.labels[g.edges[:, 0]] == g.labels[g.edges[:, 1]]).mean()
    assert same == pytest.approx(h, abs=0.01)
    means = np.array([g.features[g.labels == c].mean(axis=0) for c in range(k)])
    np.testing.assert_allclose((means**2).sum(axis=1), 2.0, rtol=0.1)
    residual = g.features - means[g.labels]
    assert residual.var() == pytest.approx(1.0, rel=0.03)
    assert np.bincount(g.labels).min() / g.num_nodes == pytest.approx(1 / k, abs=0.02)


def test_degrees_are_poisson():
    g = csbm.sample(20_000, degree=8, homophily=0.7, snr=1.0, seed=5)
    assert g.degrees.var() == pytest.approx(g.degrees.mean(), rel=0.05)


def test_every_pair_is_drawn_independently():
    """Same distribution as tossing N(N-1)/2 coins: per-pair frequency and pairwise independence."""
    labels = np.array([0, 0, 0, 1, 1])
    rng = np.random.default_rng(0)
    draws = 6000
    hits = np.zeros((draws, 5, 5))
    for i in range(draws):
        for u, v in csbm.sample_edges(labels, 0.7, 0.2, rng):
            assert u < v
            hits[i, u, v] = 1
    frequency = hits.mean(axis=0)
    for u in range(5):
        for v in range(u + 1, 5):
            expected = 0.7 if labels[u] == labels[v] else 0.2
            assert frequency[u, v] == pytest.approx(expected, abs=4 * 0.5 / draws**0.5)
    upper = hits[:, *np.triu_indices(5, 1)]
    correlation = np.corrcoef(upper.T) - np.eye(10)
    assert np.abs(correlation).max() < 4.5 / draws**0.5


@pytest.mark.parametrize("p", [0.0, 0.02, 0.6, 1.0])
def test_edges_are_distinct_and_simple(p):
    labels = np.arange(60) % 3
    edges = csbm.sample_edges(labels, p, p, np.random.default_rng(1))
    assert len({tuple(e) for e in edges.tolist()}) == len(edges)
    assert (edges[:, 0] < edges[:, 1]).all()
    assert len(edges) == pytest.approx(p * 60 * 59 / 2, abs=150 * (0 < p < 1))


def test_triangular_numbers_are_inverted_beyond_floating_point():
    second = np.r_[np.arange(1, 2000), 2**31 - 1 - np.arange(2000)].astype(np.int64)
    for first in (np.zeros_like(second), second - 1):
        number = second * (second - 1) // 2 + first
        low, high = csbm._pair_of(number)
        np.testing.assert_array_equal(low, first)
        np.testing.assert_array_equal(high, second)


def test_same_seed_same_bytes():
    first, second = (csbm.sample(500, 6, 0.7, 1.0, 3, seed=9) for _ in range(2))
    other = csbm.sample(500, 6, 0.7, 1.0, 3, seed=10)
    assert first.edges.tobytes() == second.edges.tobytes()
    assert first.features.tobytes() == second.features.tobytes()
    assert first.edges.tobytes() != other.edges.tobytes()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"homophily": 1.2}, "range"),
        ({"degree": -1}, "range"),
        ({"snr": 0}, "range"),
        ({"num_classes": 1}, "range"),
        ({"num_classes": 4, "num_features": 2}, "range"),
        ({"num_nodes": 10**12}, "range"),
        ({"num_classes": 2.5}, "range"),
        ({"degree": np.nan}, "range"),
        ({"homophily": "0.7"}, "wrong-type"),
        ({"snr": 1e300}, "range"),
        ({"noise": 1e300}, "range"),
        ({"seed": -1}, "range"),
    ],
)
def test_bad_arguments(arguments, error):
    good = {"num_nodes": 100, "degree": 5, "homophily": 0.7, "snr": 1.0}
    with raises(error):
        csbm.sample(**(good | arguments))


@pytest.mark.parametrize(("snr", "noise"), [(1e74, 1.0), (1.0, 1e-37), (1.0, 1e37), (1e-300, 1.0)])
def test_features_are_finite_and_noisy_at_the_ends_of_the_domain(snr, noise):
    g = csbm.sample(200, degree=5, homophily=0.7, snr=snr, noise=noise)
    assert np.isfinite(g.features).all()
    assert (g.features != 0).all()


def test_a_class_without_nodes_is_still_a_class():
    graphs = [csbm.sample(6, 1, 0.5, 1.0, num_classes=6, seed=seed) for seed in range(5)]
    assert any(g.labels.max() < 5 for g in graphs)
    assert {g.num_classes for g in graphs} == {6}
    assert graphs[0].class_names == ("0", "1", "2", "3", "4", "5")
