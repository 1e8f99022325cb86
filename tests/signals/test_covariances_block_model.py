"""The propositions of docs/method.md: covariances of views on the block model, in closed form.

With eta = (K h - 1) / (K - 1), the covariance M of the class means, features whose class means are
scaled by gamma, and a one-hop model that averages neighbours and applies W:

    split views   gamma^2 (eta^2 + (1 - eta^2) E[1/d]) tr(W' P_A M P_B W)
    edges         gamma^2 eta   tr(U' M U)
    wedges        gamma^2 eta^2 tr(U' M U)
    held-out      gamma^2 eta^2 tr(W' M U)
"""

import numpy as np
import pytest
from scipy.special import ndtr
from tests.helpers import block_model

from graphtemper import shifts, temperature, theory
from graphtemper.graph.operators import adjacency
from graphtemper.signals.covariances import (
    Covariance,
    HeldOutProducts,
    column_halves,
    edges_and_wedges,
    ratio_of_sums,
    split_nodes,
)
from graphtemper.signals.gains import ClassMoments, transfer

CLASSES, COLUMNS, NODES = 3, 12, 20_000


def class_means():
    """The class means of `block_model` with snr 1, exactly: of norm 1, and zero in sum."""
    noiseless = block_model(1, 0.8, 300, snr=1e12, num_classes=CLASSES, num_features=COLUMNS)
    rows = np.array([noiseless.features[noiseless.labels == k][0] for k in range(CLASSES)])
    return rows / np.linalg.norm(rows[0])


MEANS = class_means()
M = MEANS.T @ MEANS / CLASSES
# Weights of the model and of its own view: different ones, which both use the signal.
W, U = MEANS.T + 0.15 * np.random.default_rng(3).standard_normal((2, COLUMNS, CLASSES))
# Constants that are added to all logits of a node have no effect.
W, U = (weights - weights.mean(axis=1, keepdims=True) for weights in (W, U))


def graph(homophily, seed, degree=6.0):
    settings = {"degree": degree, "num_classes": CLASSES, "num_features": COLUMNS}
    return block_model(seed, homophily, NODES, **settings)


def correlation(homophily):
    return theory.signal_coefficient(homophily, CLASSES)


def neighbours_mean(g):
    return adjacency(g) @ g.features / np.maximum(g.degrees, 1)[:, None]


def close(measured: Covariance, exact, errors=4.0):
    assert abs(measured.value - exact) < errors * measured.error + 0.02 * abs(exact)
    assert measured.error < 0.1 * abs(exact)


CASES = {
    "as it is": (0.8, None, 1.0),
    "noise": (0.8, shifts.noise(1.5), 1.0),
    "mask": (0.8, shifts.mask(0.4), 0.6),
    "scale": (0.8, shifts.scale(0.5), 0.5),
    "homophily": (0.55, None, 1.0),
}


@pytest.mark.parametrize(("homophily", "shift", "gamma"), CASES.values(), ids=CASES)
def test_split_views_isolate_the_signal(homophily, shift, gamma):
    g = graph(homophily, 2)
    g = g if shift is None else shift(g, 5)
    half = column_halves(COLUMNS, 1, seed=4)[0]
    average, present = neighbours_mean(g), g.degrees > 0
    u, v = average[:, half] @ W[half], average[:, ~half] @ W[~half]
    nodes = np.flatnonzero(present)
    products = split_nodes(u, u + v, u[nodes].argmax(axis=1), nodes, nodes).product
    measured = ratio_of_sums(products, np.ones(products.size))
    eta = correlation(homophily)
    neighbours = eta**2 + (1 - eta**2) * (1.0 / g.degrees[present]).mean()
    exact = gamma**2 * neighbours * np.trace(W[half].T @ M[np.ix_(half, ~half)] @ W[~half])
    close(measured, exact)


@pytest.mark.parametrize(("homophily", "shift", "gamma"), CASES.values(), ids=CASES)
def test_edges_and_wedges_separate_signal_and_homophily(homophily, shift, gamma):
    g = graph(homophily, 3)
    g = g if shift is None else shift(g, 5)
    edge, wedge = edges_and_wedges(g.features @ U, g, np.arange(NODES))
    eta, strength = correlation(homophily), gamma**2 * np.trace(U.T @ M @ U)
    close(edge, eta * strength)
    close(wedge, eta**2 * strength)


def test_held_out_edges_give_the_gain_of_the_model():
    g = graph(0.8, 6, degree=20.0)
    rng = np.random.default_rng(0)
    held = rng.random(g.num_edges) < 0.3
    products = HeldOutProducts(g.features @ U, g, np.arange(NODES))
    rest = g.replace(edges=g.edges[~held])
    products.add(neighbours_mean(rest) @ W, g.edges[held])
    close(products.covariance, correlation(0.8) ** 2 * np.trace(W.T @ M @ U))


def test_shuffled_rows_deceive_the_halves_of_a_node_but_not_its_neighbours():
    g = shifts.shuffle(0.5)(graph(0.8, 7), 5)
    half = column_halves(COLUMNS, 1, seed=4)[0]
    own = g.features[:, half] @ U[half], g.features[:, ~half] @ U[~half]
    products = split_nodes(own[0], sum(own), own[0].argmax(axis=1)).product
    exact = np.trace(U[half].T @ M[np.ix_(half, ~half)] @ U[~half])
    close(ratio_of_sums(products, np.ones(NODES)), exact)  # as if nothing had happened
    edge, wedge = edges_and_wedges(g.features @ U, g, np.arange(NODES))
    strength = np.trace(U.T @ M @ U)
    close(edge, 0.25 * correlation(0.8) * strength)
    close(wedge, 0.25 * correlation(0.8) ** 2 * strength)


@pytest.mark.parametrize(("gain", "spread"), [(1.0, 1.0), (0.6, 1.0), (0.5, 2.0)])
def test_gain_and_variance_give_accuracy_and_temperature(gain, spread):
    """Binary logits N(+-m, s^2): s^2 = V - (g m)^2, accuracy Phi(g m / s), T = s^2 / (2 g m)."""
    m, s = 1.5 * gain, 1.2 * spread
    moments = ClassMoments(np.full(2, 0.5), np.array([[0.75, -0.75], [-0.75, 0.75]]))
    variance = (m**2 + s**2) / 4 * np.array([[1.0, -1.0], [-1.0, 1.0]])  # of the centred logits
    model = transfer(moments, gain, np.zeros(2), variance)
    assert model.accuracy == pytest.approx(ndtr(m / s), abs=0.012)
    assert temperature.solve(model.logits, model.labels).temperature == pytest.approx(
        s**2 / (2 * m), rel=0.06
    )
