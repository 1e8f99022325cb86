"""WATS: a zero last layer, regular graphs, and the heat kernel."""

import numpy as np
import pytest
from scipy.sparse import csgraph
from scipy.special import iv, ive

from graphtemper import shifts
from graphtemper.graph.graph import Graph
from graphtemper_research.baselines import WATS
from graphtemper_research.baselines.wats import wavelet_features

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def test_wats_with_a_zero_last_layer_is_log_two(scene, with_weights):
    def change(parameters):
        parameters[2][...], parameters[3][...] = 0.0, 0.0

    temperatures = with_weights(WATS(), change)
    np.testing.assert_allclose(temperatures, np.log(2.0) + 1e-6, rtol=1e-6)


def ring(count, step):
    nodes = np.arange(count)
    edges = [np.column_stack([nodes, (nodes + k) % count]) for k in step]
    return Graph.from_edges(np.zeros((count, 8)), np.concatenate(edges))


def test_wats_depends_on_structure_only(scene):
    wats = WATS(epochs=20).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    regular = ring(50, (1, 2))
    for coefficients in ("heat", "exponential"):
        features = wavelet_features(regular, coefficients, 4, 0.4)
        np.testing.assert_allclose(features, features[:1].repeat(50, axis=0), atol=1e-6)
    flat = wats.temperatures(np.random.default_rng(0).normal(size=(50, 3)), graph=regular)
    assert np.ptp(flat) < 1e-5
    noisy = shifts.noise(1.0)(scene.graph)
    before = wats.temperatures(scene.logits, graph=scene.graph)
    after = wats.temperatures(scene.predictor(noisy), graph=noisy)
    assert (before == after).all()


@pytest.mark.parametrize("coefficients", ["heat", "exponential"])
def test_wats_features_equal_a_dense_construction(coefficients):
    """Chebyshev polynomials cos(l arccos x) of the eigenvalues of SciPy's own Laplacian."""
    edges = np.random.default_rng(3).integers(14, size=(18, 2))
    graph = Graph.from_edges(np.zeros((15, 1)), edges)  # node 14 is isolated
    dense = np.zeros((15, 15))
    dense[graph.edges[:, 0], graph.edges[:, 1]] = dense[graph.edges[:, 1], graph.edges[:, 0]] = 1
    shifted = csgraph.laplacian(dense, normed=True) - np.eye(15)
    values, vectors = np.linalg.eigh(shifted)
    signal = np.log1p(2 * (dense.sum(axis=0) + 1))
    terms = [
        vectors @ (np.cos(order * np.arccos(values.clip(-1, 1))) * (vectors.T @ signal))
        for order in range(5)
    ]
    if coefficients == "heat":
        weights = [
            np.exp(-0.4) * iv(order, 0.4) * (-1) ** order * (1 + (order > 0)) for order in range(5)
        ]
    else:
        weights = [np.exp(-0.4 * order) for order in range(5)]
    expected = np.column_stack([w * term for w, term in zip(weights, terms, strict=True)])
    expected /= np.abs(expected).sum(axis=1, keepdims=True)
    found = wavelet_features(graph, coefficients, 4, 0.4)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_wats_features_are_the_heat_kernel():
    """Summed over the order, the terms are exp(-s L) x, up to the rows' own scale."""
    g = Graph.from_edges(np.zeros((12, 1)), np.random.default_rng(0).integers(12, size=(20, 2)))
    features = wavelet_features(g, "heat", 14, 0.7)
    x = np.log1p(2.0 * (g.degrees + 1.0))
    dense = np.zeros((12, 12))
    dense[g.edges[:, 0], g.edges[:, 1]] = dense[g.edges[:, 1], g.edges[:, 0]] = 1.0
    values, vectors = np.linalg.eigh(csgraph.laplacian(dense, normed=True))
    smoothed = vectors @ (np.exp(-0.7 * values) * (vectors.T @ x))
    scale = smoothed / features.sum(axis=1)
    # The first term is a_0 x before rows are scaled, which gives the same scale again.
    np.testing.assert_allclose(features[:, 0] * scale, ive(0, 0.7) * x, rtol=1e-5)
