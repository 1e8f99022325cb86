"""Reliability bands against exact binomial intervals; bootstrap intervals and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from graphtemper import metrics
from graphtemper.errors import ChoiceError, NotFiniteError, RangeError, WrongTypeError

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


def test_basic_bootstrap_covers_the_true_error():
    # Confidence 0.9 everywhere against accuracy 0.7: the true ECE is 0.2.
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(60):
        labels = (rng.random(300) < 0.7).astype(int)
        interval = metrics.bootstrap(
            metrics.ece, [[0.1, 0.9]] * 300, labels, resamples=100, seed=trial
        )
        assert interval.low <= interval.value <= interval.high
        hits += interval.low < 0.2 < interval.high
    assert 50 <= hits < 60


def test_bootstrap_is_seeded_and_its_methods_mirror_each_other(sample):
    p, labels = sample(10, n=200)
    kwargs = {"resamples": 50, "seed": 3}
    basic = metrics.bootstrap(metrics.brier, p, labels, **kwargs)
    assert basic == metrics.bootstrap(metrics.brier, p, labels, **kwargs)
    assert basic != metrics.bootstrap(metrics.brier, p, labels, resamples=50, seed=4)
    plain = metrics.bootstrap(metrics.brier, p, labels, method="percentile", **kwargs)
    assert plain.low + basic.high == pytest.approx(2 * basic.value)
    assert plain.high + basic.low == pytest.approx(2 * basic.value)
    assert basic.high - basic.low > 0


@pytest.mark.parametrize("method", ["basic", "percentile"])
def test_an_infinite_metric_has_no_interval(method):
    p = [[1.0, 0.0]] + [[0.5, 0.5]] * 5
    with pytest.raises(NotFiniteError):
        metrics.bootstrap(metrics.nll, p, [1] * 6, resamples=20, method=method)


def test_a_metric_that_fails_on_a_resample_has_no_interval():
    def needs_both(p, labels):
        return 1.0 if len(set(labels.tolist())) == 2 else np.nan

    with pytest.raises(NotFiniteError):
        metrics.bootstrap(needs_both, GOOD, [0, 1], resamples=50)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: metrics.reliability_curve(GOOD, [0, 1], level=1.0), RangeError),
        (lambda: metrics.reliability_curve(GOOD, [0, 1], level=None), WrongTypeError),
        (lambda: metrics.reliability_curve(GOOD, [0, 1], bins=10**12), RangeError),
        (lambda: metrics.bootstrap(metrics.ece, GOOD, [0, 1], resamples=0), RangeError),
        (lambda: metrics.bootstrap(metrics.ece, GOOD, [0, 1], resamples=10**12), RangeError),
        (lambda: metrics.bootstrap(metrics.ece, GOOD, [0, 1], method="x"), ChoiceError),
        (lambda: metrics.bootstrap(metrics.ece, GOOD, [0, 1], seed=-1), RangeError),
    ],
)
def test_bad_options(call, error):
    with pytest.raises(error):
        call()
