"""Realised metrics of decisions agree with scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as peers
from tests.helpers import raises

from graphtemper import metrics

LIMIT = 1e-12


def drawn(classes, seed, ties=False):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), 400)
    labels = np.array([rng.choice(classes, p=row) for row in p])
    p = np.round(p, 1) if ties else p
    return p / p.sum(axis=1, keepdims=True), labels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_one_class_against_the_rest(ties, threshold):
    p, y = drawn(3, 1, ties)
    true = y == 2
    flagged = p.argmax(axis=1) == 2 if threshold is None else p[:, 2] >= threshold
    for name, peer in (
        ("precision", peers.precision_score(true, flagged)),
        ("recall", peers.recall_score(true, flagged)),
        ("f1", peers.f1_score(true, flagged)),
        ("specificity", peers.recall_score(~true, ~flagged)),
    ):
        assert abs(getattr(metrics, name)(p, y, 2, threshold=threshold) - peer) < LIMIT
    table = metrics.confusion(p, y, 2, threshold)
    assert np.array_equal(table, peers.confusion_matrix(true, flagged))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_rankings(ties, classes):
    p, y = drawn(classes, 2, ties)
    for k in range(classes):
        assert abs(metrics.auroc(p, y, k) - peers.roc_auc_score(y == k, p[:, k])) < LIMIT
        peer = peers.average_precision_score(y == k, p[:, k])
        assert abs(metrics.average_precision(p, y, k) - peer) < LIMIT


def test_means_over_classes():
    p, y = drawn(4, 3)
    decided = p.argmax(axis=1)
    assert np.array_equal(metrics.confusion(p, y), peers.confusion_matrix(y, decided))
    for name in ("precision", "recall", "f1"):
        peer = getattr(peers, f"{name}_score")(y, decided, average="macro")
        assert abs(getattr(metrics, name)(p, y) - peer) < LIMIT
    one_hot = np.eye(4)[y]
    assert abs(metrics.auroc(p, y) - peers.roc_auc_score(one_hot, p, average="macro")) < LIMIT
    peer = peers.average_precision_score(one_hot, p, average="macro")
    assert abs(metrics.average_precision(p, y) - peer) < LIMIT


def test_the_first_k():
    p, y = drawn(2, 4)
    first = np.argsort(-p[:, 1])[:50]
    assert metrics.precision_at_k(p, y, 1, k=50) == pytest.approx(y[first].mean(), abs=LIMIT)
    share = y[first].sum() / y.sum()
    assert metrics.recall_at_k(p, y, 1, k=50) == pytest.approx(share, abs=LIMIT)


def test_ties_at_the_limit_count_in_proportion():
    p = np.array([[0.1, 0.9], [0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    assert metrics.precision_at_k(p, np.array([1, 1, 0, 0]), 1, k=2) == 0.75


def test_undefined_is_none():
    p = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert metrics.precision(p, [0, 1], positive=1) is None
    assert metrics.recall(p, [0, 0], positive=1) is None
    assert metrics.auroc(p, [0, 0], positive=1) is None
    assert metrics.recall_at_k(p, [0, 0], 1, k=1) is None


def test_cost_is_that_of_the_table():
    p, y = drawn(3, 5)
    costs = np.array([[0, 1, 2], [3, 0, 1], [9, 4, 0]])
    expected = sum(costs[a, b] for a, b in zip(y, p.argmax(axis=1), strict=True))
    assert metrics.cost(p, y, costs=costs) == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda p, y: metrics.precision(p, y, 1, threshold=1.5), "range", "between 0 and 1"),
        (lambda p, y: metrics.precision(p, y, threshold=0.5), "missing", "positive="),
        (lambda p, y: metrics.precision_at_k(p, y, 1, k=999), "range", "k must be"),
        (lambda p, y: metrics.cost(p, y, costs=[[1, 2]]), "shape", "2 x 2"),
        (lambda p, y: metrics.cost(p, y, costs=[["a", 2], [1, 0]]), "shape", "2 x 2"),
        (lambda p, y: metrics.cost(p, y, costs=[[np.inf, 2], [1, 0]]), "range", "finite"),
    ],
)
def test_bad_input_is_one_sentence(call, error, text):
    with raises(error, match=text):
        call(*drawn(2, 6))
