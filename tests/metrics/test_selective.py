"""Selective prediction against scikit-learn and brute force over orders of ties."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from graphtemper import metrics
from graphtemper.errors import NotIdentifiableError, RangeError, WrongTypeError


def coarse(sample, seed, n=300):
    """Confidences rounded to 0.05 so that many tie."""
    p, labels = sample(seed, n=n, num_classes=2)
    p = np.round(p[:, 1] * 20) / 20
    return np.stack([1 - p, p], axis=1), labels


@pytest.mark.parametrize("tied", [False, True])
def test_error_auroc_against_scikit_learn(sample, tied):
    p, labels = coarse(sample, 0) if tied else sample(0)
    correct = p.argmax(axis=1) == labels
    peer = roc_auc_score(correct, p.max(axis=1))
    assert metrics.error_auroc(p, labels) == pytest.approx(peer, rel=1e-12)


def test_aurc_without_ties_is_the_mean_running_error_rate(sample):
    p, labels = sample(1, n=50)
    wrong = (p.argmax(axis=1) != labels)[np.argsort(-p.max(axis=1))]
    expected = np.mean([wrong[:m].mean() for m in range(1, 51)])
    assert metrics.aurc(p, labels) == pytest.approx(expected)
    for count in (1, 7, 25, 50):
        risk = metrics.risk_at_coverage(p, labels, count / 50)
        assert risk == pytest.approx(wrong[:count].mean())


@given(st.lists(st.tuples(st.sampled_from([0.6, 0.7, 0.8]), st.booleans()), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_ties_average_over_all_orders(nodes):
    confidence = np.array([c for c, _ in nodes])
    labels = np.array([int(right) for _, right in nodes])
    p = np.stack([1 - confidence, confidence], axis=1)
    n = len(nodes)
    curves = []
    for order in permutations(range(n)):
        if all(confidence[a] >= confidence[b] for a, b in pairwise(order)):
            wrong = 1 - labels[list(order)]
            curves.append(np.cumsum(wrong) / np.arange(1, n + 1))
    curve = np.mean(curves, axis=0)
    assert metrics.aurc(p, labels) == pytest.approx(curve.mean(), abs=1e-12)
    for count in range(1, n + 1):
        risk = metrics.risk_at_coverage(p, labels, count / n)
        assert risk == pytest.approx(curve[count - 1], abs=1e-12)


def test_coverage_rounds_up_but_not_past_an_integer(sample):
    p, labels = sample(2, n=100)
    wrong = (p.argmax(axis=1) != labels)[np.argsort(-p.max(axis=1))].astype(float)
    wrong_at = np.cumsum(wrong) / np.arange(1, 101)
    assert metrics.risk_at_coverage(p, labels, 0.07) == pytest.approx(wrong_at[6])  # 0.07*100 > 7
    assert metrics.risk_at_coverage(p, labels, 0.071) == pytest.approx(wrong_at[7])


@pytest.mark.parametrize(("labels", "word"), [([1, 1], "correct"), ([0, 0], "wrong")])
def test_error_auroc_needs_both_kinds(labels, word):
    with pytest.raises(NotIdentifiableError):
        metrics.error_auroc([[0.1, 0.9], [0.2, 0.8]], labels)


@pytest.mark.parametrize("coverage", [1e-12, 1e-300])
def test_the_smallest_coverage_selects_one_node(coverage):
    p = [[0.1, 0.9], [0.3, 0.7]]
    assert metrics.risk_at_coverage(p, [1, 0], coverage) == 0.0
    assert metrics.risk_at_coverage(p, [0, 1], coverage) == 1.0


@pytest.mark.parametrize("coverage", [0.0, 1.5, -1.0, np.nan, None, "0.5"])
def test_bad_coverage(coverage):
    with pytest.raises((RangeError, WrongTypeError)):
        metrics.risk_at_coverage([[0.1, 0.9]], [1], coverage)
