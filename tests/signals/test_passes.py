from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import csbm
from graphtemper.errors import InputError
from graphtemper.graph.moments import column_moments
from graphtemper.graph.operators import operator
from graphtemper.models import SGC, SIGN
from graphtemper.signals import passes as perturb

DRAWS = 3000


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(12, degree=4, homophily=0.7, snr=1.0, num_classes=3, num_features=5, seed=3)
    return g.replace(features=g.features * [0.5, 1, 2, 3, 0])


def with_weights(model, graph, num_classes=3):
    # Weights that hang together across hops, so that the cross-hop covariance is large.
    rng = np.random.default_rng(0)
    terms = len(model.hops_used)
    shared = rng.normal(size=(1, graph.num_features, num_classes))
    model.weights_ = shared + 0.5 * rng.normal(size=(terms, graph.num_features, num_classes))
    model.intercept_ = rng.normal(size=num_classes)
    return model


def true_covariance(model, graph, level, *, cross_hop=True):
    """Cov of vec(logits) under noise: sum over hops k, l of (S^k S^l^T) x (W_k^T V W_l)."""
    matrix = operator(graph, model.operator).toarray().astype(float)
    power = [np.linalg.matrix_power(matrix, k) for k in model.hops_used]
    variance = np.diag((level * column_moments(graph.features)[1]) ** 2)
    weights = model.weights_
    return sum(
        np.kron(power[k] @ power[m].T, weights[k].T @ variance @ weights[m])
        for k in range(len(power))
        for m in range(len(power))
        if cross_hop or k == m
    )


def deviation(sample, mean, covariance):
    """Largest error of the sample mean and covariance, in standard errors."""
    spread = np.diag(covariance)
    centred = sample - mean
    estimate = centred.T @ centred / len(sample)
    error = np.sqrt((np.outer(spread, spread) + covariance**2) / len(sample))
    in_mean = np.abs(centred.mean(axis=0)) / np.sqrt(spread / len(sample))
    return in_mean.max(), (np.abs(estimate - covariance) / error).max()


def sample_of(predictor, graph, level):
    passes = perturb.feature_noise(predictor, graph, level, DRAWS, seed=1)
    return np.stack([z.ravel() for z in passes])


@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2, operator="mean"), SIGN(hops=0)])
def test_projected_noise_has_the_mean_and_covariance_of_the_naive_path(graph, model):
    with_weights(model, graph)
    mean = model(graph).ravel().astype(float)
    covariance = true_covariance(model, graph, 0.6)
    # 666 distinct entries: 5 standard errors are exceeded with probability 4e-4.
    for predictor in (model, lambda g: model(g)):
        in_mean, in_covariance = deviation(sample_of(predictor, graph, 0.6), mean, covariance)
        assert in_mean < 5
        assert in_covariance < 5


def test_the_comparison_would_notice_missing_cross_hop_covariance(graph):
    model = with_weights(SIGN(hops=2), graph)
    mean = model(graph).ravel().astype(float)
    wrong = true_covariance(model, graph, 0.6, cross_hop=False)
    assert deviation(sample_of(model, graph, 0.6), mean, wrong)[1] > 10


def test_projected_dropout_equals_the_naive_passes(graph):
    model = with_weights(SIGN(hops=2), graph)
    fast = perturb.edge_dropout(model, graph, 0.4, 5, seed=2)
    naive = perturb.edge_dropout(lambda g: model(g), graph, 0.4, 5, seed=2)
    for one, other in zip(fast, naive, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_binary_model_draws_half_the_numbers():
    g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    model = SIGN(hops=2).fit(g)
    assert perturb.noise_factor(model, column_moments(g.features)[1]).shape == (3, 6)
    assert all((z[:, 0] == 0).all() for z in perturb.feature_noise(model, g, 0.3, 2))


def test_sparse_features_are_never_densified_by_linear_models():
    g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    model = SIGN().fit(g)
    sparse = g.replace(features=sp.csr_matrix(g.features))
    for one, other in zip(
        perturb.feature_noise(model, g, 0.3, 2),
        perturb.feature_noise(model, sparse, 0.3, 2),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_model_that_predicts_in_its_own_way_gets_real_passes(graph):
    class Clipped(SIGN):
        def __call__(self, graph):
            return np.clip(super().__call__(graph), -0.1, 0.1)

    model = with_weights(Clipped(hops=1), graph)
    assert all(np.abs(z).max() <= 0.11 for z in perturb.feature_noise(model, graph, 1.0, 3))


def test_passes_differ_and_repeat_with_the_seed(graph):
    model = with_weights(SIGN(), graph)
    for kind in ("feature", "edge", "both"):
        first = list(perturb.passes(model, graph, kind, 4, seed=5))
        again = list(perturb.passes(model, graph, kind, 4, seed=5))
        np.testing.assert_array_equal(first, again)
        assert all((one != other).any() for one, other in pairwise(first))
    half = list(perturb.passes(model, graph, "both", 5, level=0.2, share=0.5, seed=5))
    np.testing.assert_array_equal(
        half[:3], list(perturb.feature_noise(model, graph, 0.2, 3, seed=5))
    )
    np.testing.assert_array_equal(
        half[3:], list(perturb.edge_dropout(model, graph, 0.5, 2, seed=5))
    )


@pytest.mark.parametrize(
    ("kind", "count"), [("feature", 0), ("both", 1), ("nodes", 2), ("edge", 1.5)]
)
def test_bad_passes(graph, kind, count):
    with pytest.raises(InputError):
        perturb.passes(with_weights(SIGN(), graph), graph, kind, count)
