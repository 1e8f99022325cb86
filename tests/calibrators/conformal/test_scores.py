"""Scores against a calculation by hand, loops over classes, and dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import Graph, conformal, csbm


def test_aps_by_hand():
    p = [[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]]
    np.testing.assert_allclose(conformal.aps(p), [[0.5, 1.0, 0.8], [1.0, 0.6, 0.9]])
    # u = 0.25: the classes above, and a quarter of the class itself.
    expected = [[0.125, 0.85, 0.575], [0.925, 0.15, 0.675]]
    np.testing.assert_allclose(conformal.aps(p, [0.25, 0.25]), expected)


def test_ties_are_ranked_by_class():
    np.testing.assert_allclose(conformal.aps([[0.25, 0.5, 0.25]]), [[0.75, 0.5, 1.0]])


def slow_scores(p, u, lam, k_reg):
    scores = np.zeros(p.shape)
    for i, row in enumerate(p):
        for k, own in enumerate(row):
            above = [j for j in range(row.size) if row[j] > own or (row[j] == own and j < k)]
            late = max(0, len(above) + 1 - k_reg)
            scores[i, k] = sum(row[j] for j in above) + u[i] * own + lam * late
    return scores


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0, 2), st.integers(0, 6))
def test_raps_against_loops(seed, num_classes, lam, k_reg):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(num_classes, 0.5), size=7)
    u = rng.random(7)
    scores = conformal.raps(p, u, lam=lam, k_reg=k_reg)
    np.testing.assert_allclose(scores, slow_scores(p, u, lam, k_reg), atol=1e-12)
    if lam == 0 or k_reg >= num_classes:
        np.testing.assert_array_equal(scores, conformal.aps(p, u))


def test_the_true_class_scores_uniformly_where_probabilities_are_true():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.3] * 5, size=20_000)
    labels = (p.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1)
    scores = conformal.aps(p, rng.random(20_000))[np.arange(20_000), labels]
    deciles = np.histogram(scores, bins=10, range=(0, 1))[0] / 20_000
    assert np.abs(deciles - 0.1).max() < 4 * np.sqrt(0.09 / 20_000)


@pytest.mark.parametrize("delta", [0.0, 0.3, 1.0])
def test_diffusion_against_dense_matrices(delta):
    g = csbm.sample(120, degree=2, homophily=0.8, snr=1.0, num_classes=3, num_features=4, seed=1)
    assert (g.degrees == 0).any()
    a = np.zeros((120, 120))
    a[g.edges[:, 0], g.edges[:, 1]] = a[g.edges[:, 1], g.edges[:, 0]] = 1
    around = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    around[a.sum(axis=1) == 0] = np.eye(120)[a.sum(axis=1) == 0]
    s = np.random.default_rng(0).random((120, 3))
    expected = (1 - delta) * s + delta * around @ s
    np.testing.assert_allclose(conformal.diffuse(s, g, delta), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: conformal.aps([[0.5, np.nan]]), "not-finite"),
        (lambda: conformal.aps([[2.0, -1.0]]), "range"),
        (lambda: conformal.aps(np.empty((0, 3))), "empty"),
        (lambda: conformal.aps([[0.5, 0.5]], [0.1, 0.2]), "shape"),
        (lambda: conformal.aps([[0.5, 0.5]], [np.nan]), "not-finite"),
        (lambda: conformal.raps([[0.5, 0.5]], lam=-1.0), "range"),
    ],
)
def test_bad_input_is_refused(call, error):
    with raises(error):
        call()


def test_diffusion_needs_every_node_and_a_share():
    g = Graph(features=[[1.0], [0.0]], edges=[[0, 1]])
    with raises("too-few"):
        conformal.diffuse([[0.5, 0.5]], g)
    with raises("range"):
        conformal.diffuse([[0.5, 0.5]] * 2, g, 1.5)
