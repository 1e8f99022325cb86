"""Selective prediction against scikit-learn and brute force over orders of ties."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from graphtemper_research.harness.selective import error_auroc, risk_at_coverage


def drawn(nodes, seed=0, levels=20):
    rng = np.random.default_rng(seed)
    confidence = 0.5 + rng.integers(1, levels, nodes) / (2 * levels)
    right = (rng.random(nodes) < confidence).astype(int)
    return np.column_stack([1 - confidence, confidence]), right


def test_error_auroc_against_scikit_learn():
    p, right = drawn(300)
    assert error_auroc(p, right) == pytest.approx(roc_auc_score(right, p[:, 1]), rel=1e-12)
    assert error_auroc(p, np.ones(300, int)) is None


def test_ties_average_over_all_orders():
    p, right = drawn(6, levels=3)
    orders = [
        list(order)
        for order in permutations(range(6))
        if all(p[a, 1] >= p[b, 1] for a, b in pairwise(order))
    ]
    assert len(orders) > 1
    curve = np.mean([np.cumsum(1 - right[order]) / np.arange(1, 7) for order in orders], axis=0)
    for count in range(1, 7):
        assert risk_at_coverage(p, right, count / 6) == pytest.approx(curve[count - 1])


def test_coverage_rounds_up_but_not_past_an_integer():
    confidence = np.linspace(0.99, 0.51, 100)
    p, right = np.column_stack([1 - confidence, confidence]), (np.arange(100) != 7).astype(int)
    assert risk_at_coverage(p, right, 0.07) == 0.0  # 0.07 * 100 > 7, and the eighth is wrong
    assert risk_at_coverage(p, right, 0.071) == pytest.approx(1 / 8)
