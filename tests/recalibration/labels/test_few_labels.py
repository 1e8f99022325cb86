"""The posterior against brute force, simulation and its two limits."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from graphtemper._core.estimate import TAILS, Estimate
from graphtemper.recalibration.labels.few_labels import (
    EVEN,
    accuracy,
    design,
    posterior,
)

QUANTILE = stats.t.ppf(0.95, TAILS) / stats.norm.ppf(0.95)


def _counted(right, population=None, prior=None):
    """The posterior of a plain count of right predictions."""
    share = float(np.mean(right))
    smooth = min(max(share, 0.5 / (len(right) + 1)), 1 - 0.5 / (len(right) + 1))
    found = (share, smooth * (1 - smooth))
    return accuracy(
        posterior(prior or Estimate.of_log_odds(1.0, 3.0, "atlas"), found, len(right), population)
    )


@pytest.mark.parametrize(("right", "wrong"), [(30, 10), (10, 0), (0, 7), (1, 0), (4000, 500)])
@pytest.mark.parametrize(("centre", "deviation"), [(1.2, 0.3), (-0.5, 1.5), (3.0, 0.05)])
def test_accuracy_is_the_integral(right, wrong, centre, deviation):
    found = _counted(
        [1] * right + [0] * wrong, prior=Estimate.of_log_odds(centre, deviation, "atlas")
    )
    count = right + wrong
    share = min(max(right / count, 0.5 / (count + 1)), 1 - 0.5 / (count + 1))
    grid = np.linspace(-40.0, 40.0, 800_001)
    miss = count * (share * np.logaddexp(0, -grid) + (1 - share) * np.logaddexp(0, grid))
    vague = 0.5 * min(count / 20, 1.0)
    uniform = special.expit(grid) * special.expit(-grid)
    density = (1 - vague) * stats.t.pdf(grid, TAILS, centre, deviation / QUANTILE) + vague * uniform
    y = np.log(density) - miss
    below = integrate.cumulative_trapezoid(np.exp(y - y.max()), grid, initial=0.0)
    exact = special.expit(np.interp([0.05, 0.5, 0.95], below / below[-1], grid))
    np.testing.assert_allclose([found.low, found.value, found.high], exact, atol=3e-3)


def test_a_vague_label_leaves_the_prior_and_many_give_the_labels():
    prior = Estimate.of_log_odds(1.5, 0.4, "atlas")
    vague = posterior(prior, (0.2, 1e9), 1)
    np.testing.assert_allclose(vague, prior.quantiles(EVEN), atol=0.02)
    many = accuracy(posterior(prior, (0.2, 0.16), 10**6))
    assert many.value == pytest.approx(0.2, abs=1e-3)
    assert many.high - many.low < 0.002


def test_less_variance_counts_as_more_labels():
    prior = Estimate.of_log_odds(1.0, 3.0, "atlas")
    half, twice = (
        accuracy(posterior(prior, (0.8, variance), count))
        for variance, count in ((0.08, 50), (0.16, 100))
    )
    assert half == twice


@pytest.mark.parametrize("count", [10, 50, 200])
def test_the_interval_covers_where_the_prior_is_right(count):
    rng, prior = np.random.default_rng(6), Estimate.of_log_odds(1.3, 0.6, "atlas")
    inside = 0
    for _ in range(400):
        truth = special.expit(prior.centre + prior.deviation / QUANTILE * rng.standard_t(TAILS))
        found = _counted(rng.random(count) < truth, prior=prior)
        inside += found.low <= truth <= found.high
    assert 0.85 <= inside / 400 <= 0.95


def test_the_interval_covers_the_accuracy_of_a_small_graph():
    """A third of 150 nodes is labelled, and the accuracy in question is that of the 150."""
    rng, inside, widths = np.random.default_rng(7), 0, []
    for _ in range(400):
        right = rng.random(150) < 0.7
        found = _counted(right[:50], 150)
        inside += found.low <= right.mean() <= found.high
        widths.append(found.high - found.low)
    assert 0.86 <= inside / 400 <= 0.95
    endless = _counted(right[:50])
    assert np.mean(widths) < endless.high - endless.low


def test_the_predicted_class_explains_unless_there_are_many():
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    for classes, columns in ((3, 4), (20, 21), (21, 1)):
        assert design(confidence, rng.integers(0, classes, 500), classes).shape[1] == columns
    both = design(confidence, np.zeros(500, int), 2, rng.random((500, 2)))
    assert both.shape[1] == 3
    np.testing.assert_allclose(both.std(axis=0), 1.0)


@pytest.mark.parametrize("count", [20, 50, 200])
def test_the_interval_is_that_of_the_labels_where_the_prior_is_wrong(count):
    """A narrow prior far from the truth, as where a source misleads, must not outvote labels."""
    rng, truth = np.random.default_rng(7), 0.55
    prior = Estimate.of_log_odds(special.logit(0.85), 0.25, "atlas")
    inside, widths = 0, []
    for _ in range(300):
        right = rng.random(count) < truth
        found = _counted(right, prior=prior)
        inside += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    assert inside / 300 >= 0.78  # the prior alone: 0.45, 0.7, 0.85
    assert np.mean(widths) < 1.3 * 2 * 1.645 * np.sqrt(truth * (1 - truth) / count)


def test_the_first_labels_change_little():
    """From no label to a few there is no jump: the vague part of the prior grows with labels."""
    prior = Estimate.of_log_odds(1.5, 0.3, "atlas")
    before = accuracy(prior.quantiles(EVEN))
    one = _counted([1.0], prior=prior)
    assert one.high - one.low < 1.1 * (before.high - before.low)
