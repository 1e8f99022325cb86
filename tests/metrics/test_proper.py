"""Proper scores against scikit-learn, and the exact Brier decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from graphtemper import metrics


@pytest.mark.parametrize("num_classes", [2, 5])
def test_against_scikit_learn(sample, num_classes):
    p, labels = sample(0, num_classes=num_classes)
    assert metrics.nll(p, labels) == pytest.approx(log_loss(labels, p), rel=1e-12)
    peer = brier_score_loss(labels, p, labels=range(num_classes), scale_by_half=False)
    assert metrics.brier(p, labels) == pytest.approx(peer, rel=1e-12)


def test_binary_brier_is_twice_the_squared_error(sample):
    p, labels = sample(1, num_classes=2)
    assert metrics.brier(p, labels) == pytest.approx(2 * np.mean((p[:, 1] - labels) ** 2))


def test_many_rows_and_single_precision(sample):
    p, labels = sample(2, n=200_000)
    assert metrics.nll(p, labels) == pytest.approx(-np.log(p[np.arange(len(p)), labels]).mean())
    single = p.astype(np.float32)
    assert metrics.nll(single, labels) == pytest.approx(metrics.nll(p, labels), rel=1e-6)
    assert metrics.brier(single, labels) == pytest.approx(metrics.brier(p, labels), rel=1e-6)


def test_a_label_of_probability_zero_has_infinite_nll():
    assert metrics.nll([[1.0, 0.0], [0.5, 0.5]], [1, 0]) == np.inf


def test_probabilities_are_not_written_to(sample):
    p, labels = sample(3, n=20)
    for layout in (np.ascontiguousarray(p), np.asfortranarray(p)):
        before = layout.copy()
        metrics.brier(layout, labels)
        metrics.ece(layout, labels)
        np.testing.assert_array_equal(layout, before)
