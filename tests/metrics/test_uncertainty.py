"""Reliability bands against exact binomial intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.helpers import raises

from graphtemper import metrics

GOOD = [[0.5, 0.5], [0.1, 0.9]]


def test_reliability_bands_are_exact_binomial_intervals(sample):
    p, labels = sample(9, n=200, num_classes=2)
    curve = metrics.reliability_curve(p, labels, bins=20, level=0.9)
    assert (curve.count > 0).all()
    assert curve.count.sum() == 200
    for count, accuracy, low, high in zip(
        curve.count, curve.accuracy, curve.low, curve.high, strict=True
    ):
        peer = binomtest(round(count * accuracy), count).proportion_ci(0.9)
        assert (low, high) == pytest.approx((peer.low, peer.high), abs=1e-9)


def test_reliability_bands_at_no_and_only_errors():
    p = [[0.1, 0.9]] * 3 + [[0.4, 0.6]] * 3
    curve = metrics.reliability_curve(p, [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(curve.accuracy, [0, 1])
    assert curve.low[0] == 0
    assert curve.high[1] == 1
    assert curve.high[0] == pytest.approx(1 - 0.025 ** (1 / 3))
    assert curve.low[1] == pytest.approx(0.025 ** (1 / 3))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: metrics.reliability_curve(GOOD, [0, 1], level=1.0), "range"),
        (lambda: metrics.reliability_curve(GOOD, [0, 1], level=None), "wrong-type"),
        (lambda: metrics.reliability_curve(GOOD, [0, 1], bins=10**12), "range"),
    ],
)
def test_bad_options(call, error):
    with raises(error):
        call()
