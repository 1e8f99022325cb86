from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import csbm, signals
from graphtemper.errors import InputError


@pytest.fixture(scope="module")
def probabilities():
    return np.random.default_rng(0).dirichlet(np.ones(4), 500)


def test_disagreement_equals_the_loop_over_pairs():
    rng = np.random.default_rng(1)
    for classes, passes in ((2, 2), (3, 7), (5, 10)):
        predicted = rng.integers(classes, size=(passes, 60))
        votes = np.stack([(predicted == k).sum(axis=0) for k in range(classes)], axis=1)
        pairs = [one != other for one, other in combinations(predicted, 2)]
        np.testing.assert_allclose(signals.instability(votes), np.mean(pairs, axis=0))
        assert signals.pairwise_disagreement(votes) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("votes", [[[1, 0]], [[2, 0], [1, 0]], [[0.5, 1.5]], [3, 1], [[-1, 3]]])
def test_bad_votes(votes):
    with pytest.raises(InputError):
        signals.instability(votes)


def test_entropy_margin_confidence(probabilities):
    expected = [-sum(x * np.log(x) for x in row) for row in probabilities]
    np.testing.assert_allclose(signals.entropy(probabilities), expected)
    np.testing.assert_allclose(
        signals.entropy(probabilities, normalised=True), np.array(expected) / np.log(4)
    )
    ordered = np.sort(probabilities, axis=1)
    np.testing.assert_allclose(signals.margin(probabilities), ordered[:, -1] - ordered[:, -2])
    np.testing.assert_array_equal(signals.confidence(probabilities), ordered[:, -1])


def test_mean_margin_of_two_classes_is_that_of_the_difference():
    z = np.random.default_rng(2).normal(size=(100, 2))
    assert signals.mean_margin(z) == pytest.approx(np.abs(z[:, 1] - z[:, 0]).mean())
    assert signals.mean_margin([[3.0, -1.0, 2.5]]) == pytest.approx(0.5)


@pytest.mark.parametrize("wrong", [0, 1, 37, 199, 200])
def test_the_threshold_reproduces_the_accuracy(wrong):
    scores = np.random.default_rng(3).random(200)
    accuracy = 1 - wrong / 200
    assert signals.atc_share(scores, signals.atc_threshold(scores, accuracy)) == pytest.approx(
        accuracy
    )


def test_the_threshold_is_the_quantile():
    scores = np.random.default_rng(3).random(200)
    assert signals.atc_threshold(scores, 0.7) == pytest.approx(np.quantile(scores, 0.3))


def test_tied_scores_take_the_closer_side():
    scores = np.array([0.5] * 6 + [0.9] * 4)
    # Possible shares: 1.0 (at 0.5), 0.4 (above 0.5), 0 (above 0.9).
    for accuracy, share in ((0.9, 1.0), (0.5, 0.4), (0.4, 0.4), (0.1, 0.0)):
        assert signals.atc_share(scores, signals.atc_threshold(scores, accuracy)) == share


def test_agreement_and_homophily_count_edges():
    g = csbm.sample(500, degree=4, homophily=0.3, snr=1.0, num_classes=3, seed=4)
    predicted, p = g.labels, np.random.default_rng(0).dirichlet(np.ones(3), 500)
    neighbours = [[] for _ in range(500)]
    for u, v in g.edges:
        neighbours[u].append(v)
        neighbours[v].append(u)
    expected = [
        np.mean(predicted[n] == predicted[i]) if n else 0.5 for i, n in enumerate(neighbours)
    ]
    np.testing.assert_allclose(signals.neighbour_agreement(predicted, g.edges), expected)
    hard = np.mean([predicted[u] == predicted[v] for u, v in g.edges])
    assert signals.predicted_homophily(predicted, g.edges) == pytest.approx(hard)
    soft = np.mean([p[u] @ p[v] for u, v in g.edges])
    assert signals.predicted_homophily(p, g.edges) == pytest.approx(soft)
    assert hard < 0.5


def test_a_graph_without_edges():
    none = np.empty((0, 2), int)
    assert signals.neighbour_agreement([0, 1], none).tolist() == [0.5, 0.5]
    with raises("empty"):
        signals.predicted_homophily([0, 1], none)


@pytest.mark.parametrize(("snr", "classes"), [(0.0, 2), (0.3, 2), (2.0, 4)])
def test_snr_of_true_labels_is_unbiased(snr, classes):
    # Few nodes and many columns: without the correction the mean would be snr + (K-1) F / n.
    rng = np.random.default_rng(5)
    estimates = []
    for _ in range(200):
        labels = np.arange(120) % classes
        means = csbm.simplex_means(classes, 20, np.sqrt(snr))
        x = 7.0 + means[labels] + rng.normal(size=(120, 20))
        estimates.append(signals.snr_estimate(x, labels))
        assert signals.snr_estimate(sp.csr_matrix(x), labels) == pytest.approx(estimates[-1])
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(snr, abs=4 * error + 0.03 * snr)


@pytest.mark.parametrize(("columns", "bias"), [(1, 1.752), (400, 0.637)])
def test_snr_of_predictions_from_the_same_features_is_biased_as_stated(columns, bias):
    x = np.random.default_rng(6).normal(size=(5000, columns))
    assert signals.snr_estimate(x, x[:, 0] > 0) == pytest.approx(bias, rel=0.04)


@pytest.mark.parametrize("classes", [[0, 0, 0], [0, 1], [0, 1, 2]])
def test_snr_needs_classes(classes):
    with pytest.raises(InputError):
        signals.snr_estimate(np.ones((3, 2)), classes)
