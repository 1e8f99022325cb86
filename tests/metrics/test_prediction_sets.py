"""Metrics of prediction sets against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import metrics


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 1000))
def test_against_counting(n, num_classes, seed):
    rng = np.random.default_rng(seed)
    sets = rng.random((n, num_classes)) < 0.5
    labels = rng.integers(num_classes, size=n)
    hits = [bool(sets[i, labels[i]]) for i in range(n)]
    assert metrics.coverage(sets, labels) == pytest.approx(sum(hits) / n)
    sizes = [sum(map(bool, row)) for row in sets]
    assert metrics.mean_set_size(sets) == pytest.approx(sum(sizes) / n)
    assert metrics.singleton_share(sets) == pytest.approx(sizes.count(1) / n)
    fractions = metrics.classwise_coverage(sets, labels)
    for k in range(num_classes):
        of_class = [hit for hit, label in zip(hits, labels, strict=True) if label == k]
        assert fractions[k] == pytest.approx(
            sum(of_class) / len(of_class) if of_class else np.nan, nan_ok=True
        )


@pytest.mark.parametrize(
    ("sets", "labels", "error"),
    [
        ([[0.5, 0.5]], [0], "too-few"),
        ([True, False], [0], "shape"),
        (np.empty((0, 2), bool), [], "shape"),
        ([[True, False]], [2], "range"),
        ([[True, False]], [0, 1], "shape"),
    ],
)
def test_bad_input_is_refused(sets, labels, error):
    with raises(error):
        metrics.coverage(sets, labels)
    with raises(error):
        metrics.classwise_coverage(sets, labels)
