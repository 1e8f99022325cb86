"""The posterior against brute force, simulation and its two limits."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from graphtemper import temperature as temperatures
from graphtemper.card.reading import TAILS
from graphtemper.recalibration import few_labels
from graphtemper.recalibration.few_labels import (
    MATCH_DEVIATION,
    Labels,
    Prior,
    effective_count,
)
from graphtemper.temperature.scaling import nearest_temperature

QUANTILE = stats.t.ppf(0.95, TAILS) / stats.norm.ppf(0.95)
NONE = Labels(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def _logits(size, seed=0, num_classes=3, scale=2.0):
    return np.random.default_rng(seed).normal(0.0, scale, (size, num_classes))


def _draw(logits, temperature, rng):
    """Labels that are calibrated at a temperature."""
    p = temperatures.apply(logits, temperature)
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


def _labels(rows, classes, weights=None):
    rows = np.asarray(rows)
    return Labels(rows, np.asarray(classes), np.ones(rows.size) if weights is None else weights)


def _matched(prior, logits):
    return nearest_temperature(logits, float(special.expit(prior.centre)))[0]


@pytest.mark.parametrize("centre", [-3.0, 0.2, 1.7, 8.0])
def test_no_labels_give_the_atlas_to_the_bit(centre):
    prior, logits = Prior(centre, 0.4), _logits(300)
    matched = _matched(prior, logits)
    assert few_labels.temperature(prior, logits, NONE, matched) == matched
    assert few_labels.accuracy(prior, []) == prior.estimate(few_labels.METHOD)


@pytest.mark.parametrize(("right", "wrong"), [(30, 10), (10, 0), (0, 7), (1, 0), (4000, 500)])
@pytest.mark.parametrize(("centre", "deviation"), [(1.2, 0.3), (-0.5, 1.5), (3.0, 0.05)])
def test_accuracy_is_the_integral(right, wrong, centre, deviation):
    found = few_labels.accuracy(Prior(centre, deviation), [1] * right + [0] * wrong)

    def log_density(x):
        miss = right * np.logaddexp(0, -x) + wrong * np.logaddexp(0, x)
        return stats.t.logpdf(x, TAILS, centre, deviation / QUANTILE) - miss

    reach = max(40.0, 100.0 * deviation)
    grid = np.linspace(-reach, reach, 800_001)
    y = log_density(grid)
    mass = np.exp(y - y.max())
    below = integrate.cumulative_trapezoid(mass, grid, initial=0.0)
    exact = special.expit(np.interp([0.05, 0.5, 0.95], below / below[-1], grid))
    np.testing.assert_allclose([found.low, found.value, found.high], exact, atol=5e-4)


@pytest.mark.parametrize(("centre", "deviation"), [(0.8, 0.3), (1.5, 1.0), (-0.2, 0.2)])
@pytest.mark.parametrize("count", [3, 40])
def test_temperature_is_the_integral(centre, deviation, count):
    """With the density written down from scratch and the map by brute force."""
    rng, logits = np.random.default_rng(5), _logits(200, 1)
    rows = rng.choice(200, count, replace=False)
    labels = _labels(rows, _draw(logits[rows], 1.6, rng), rng.uniform(0.5, 2.0, count))
    prior = Prior(centre, deviation)
    matched = _matched(prior, logits)
    found = few_labels.temperature(prior, logits, labels, matched)

    x = np.linspace(-6.0, 8.0, 6001)
    odds = special.logit(
        [special.softmax(logits / t, axis=1).max(axis=1).mean() for t in np.exp(x)]
    )
    eta = np.linspace(-40.0, 40.0, 20_001)
    log_t = np.interp(eta, odds[::-1], x[::-1])
    weights = labels.weights * effective_count(labels.weights) / labels.weights.sum()
    classes = logits.shape[1]
    fit = [
        weights
        @ np.log(
            0.999 * special.softmax(logits[rows] / t, axis=1)[np.arange(count), labels.classes]
            + 0.001 / classes
        )
        for t in np.exp(log_t)
    ]
    scale = np.hypot(deviation, MATCH_DEVIATION) / QUANTILE
    y = stats.t.logpdf(eta, TAILS, centre, scale) + fit
    below = integrate.cumulative_trapezoid(np.exp(y - y.max()), eta, initial=0.0)
    exact = np.interp(np.interp(0.5, below / below[-1], eta), eta, log_t)
    assert np.log(found) == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize("truth", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("centre", [-0.3, 1.0, 4.0])
def test_many_labels_give_the_oracle(truth, centre):
    rng, logits = np.random.default_rng(3), _logits(20_000, 2)
    y = _draw(logits, truth, rng)
    prior = Prior(centre, 0.5)
    labels = _labels(np.arange(20_000), y)
    found = few_labels.temperature(prior, logits, labels, _matched(prior, logits))
    assert found == pytest.approx(temperatures.solve(logits, y).temperature, rel=0.01)
    right = logits.argmax(axis=1) == y
    assert few_labels.accuracy(prior, right).value == pytest.approx(right.mean(), abs=0.002)


def test_more_labels_move_from_the_atlas_to_the_oracle():
    rng, logits = np.random.default_rng(4), _logits(5000, 3)
    y = _draw(logits, 2.5, rng)
    prior = Prior(2.5, 0.3)
    matched = _matched(prior, logits)
    found = [
        few_labels.temperature(prior, logits, _labels(np.arange(n), y[:n]), matched)
        for n in (0, 20, 100, 500, 5000)
    ]
    error = np.abs(np.log(np.array(found) / temperatures.solve(logits, y).temperature))
    assert found[0] == matched
    assert error[0] > 2 * error[1] > 2 * error[-1]
    assert error[-1] < 0.02


@pytest.mark.parametrize("count", [10, 50, 200])
def test_the_interval_covers_where_the_prior_is_right(count):
    rng, prior = np.random.default_rng(6), Prior(1.3, 0.6)
    inside = 0
    for _ in range(400):
        truth = special.expit(prior.centre + prior.deviation / QUANTILE * rng.standard_t(TAILS))
        found = few_labels.accuracy(prior, rng.random(count) < truth)
        inside += found.low <= truth <= found.high
    assert 0.86 <= inside / 400 <= 0.94


def test_the_interval_covers_the_accuracy_of_a_small_graph():
    """A third of 150 nodes is labelled, and the accuracy in question is that of the 150."""
    rng, inside, widths = np.random.default_rng(7), 0, []
    prior = Prior(1.0, 3.0)
    for _ in range(400):
        right = rng.random(150) < 0.7
        found = few_labels.accuracy(prior, right[:50], population=150)
        inside += found.low <= right.mean() <= found.high
        widths.append(found.high - found.low)
    assert 0.86 <= inside / 400 <= 0.95
    endless = few_labels.accuracy(prior, right[:50])
    assert np.mean(widths) < endless.high - endless.low


def test_a_wholly_labelled_graph_has_a_known_accuracy():
    found = few_labels.accuracy(Prior(-2.0, 0.1), [True, False, True, True], population=4)
    assert (found.low, found.value, found.high) == (0.75, 0.75, 0.75)


def test_equal_weights_of_any_size_are_no_weights():
    rng, logits = np.random.default_rng(8), _logits(100)
    rows, y = np.arange(30), _draw(logits[:30], 1.0, rng)
    prior = Prior(1.0, 0.5)
    matched = _matched(prior, logits)
    one, big = (
        few_labels.temperature(prior, logits, _labels(rows, y, np.full(30, w)), matched)
        for w in (1.0, 1e9)
    )
    assert big == pytest.approx(one, rel=1e-9)
    assert effective_count(np.full(30, 1e-200)) == pytest.approx(30.0)
    assert effective_count([]) == 0.0
    right = rng.random(30) < 0.6
    plain = few_labels.accuracy(prior, right)
    assert few_labels.accuracy(prior, right, np.full(30, 7.0)).value == pytest.approx(plain.value)


def test_weights_stand_for_copies_in_where_the_posterior_lies():
    """Many labels: the weighted posterior peaks where one with copies of the nodes does."""
    rng, logits = np.random.default_rng(9), _logits(8000, 4)
    logits[:4000] *= 3.0  # two halves that ask for different temperatures
    y = _draw(np.where(np.arange(8000)[:, None] < 4000, logits / 3.0, logits), 1.0, rng)
    weights = np.where(np.arange(8000) < 4000, 3.0, 1.0)
    copies = np.repeat(np.arange(8000), weights.astype(int))
    prior = Prior(1.0, 1.0)
    matched = _matched(prior, logits)
    found = few_labels.temperature(prior, logits, _labels(np.arange(8000), y, weights), matched)
    oracle = temperatures.solve(logits[copies], y[copies]).temperature
    assert found == pytest.approx(oracle, rel=0.01)


def test_a_wrong_prior_is_beaten_with_fifty_labels():
    """The atlas expects 95 %, truth is a temperature of 3: labels repair most of it."""
    gains = []
    for seed in range(20):
        rng, logits = np.random.default_rng(seed), _logits(2000, 100 + seed)
        y = _draw(logits, 3.0, rng)
        prior = Prior(3.0, 0.5)
        matched = _matched(prior, logits)
        rows = rng.choice(2000, 50, replace=False)
        found = few_labels.temperature(prior, logits, _labels(rows, y[rows]), matched)
        nll = [
            -np.log(temperatures.apply(logits, t)[np.arange(2000), y]).mean()
            for t in (matched, found)
        ]
        gains.append(nll[0] - nll[1])
        right = logits[rows].argmax(axis=1) == y[rows]
        truth = (logits.argmax(axis=1) == y).mean()
        assert abs(few_labels.accuracy(prior, right).value - truth) < special.expit(3.0) - truth
    assert min(gains) > 0.0


def test_a_right_prior_is_better_than_the_labels_alone():
    ours, alone = [], []
    for seed in range(40):
        rng, logits = np.random.default_rng(seed), _logits(1000, 200 + seed)
        truth = np.exp(rng.normal(0.4, 0.1))
        y = _draw(logits, truth, rng)
        prior = Prior(float(special.logit((logits.argmax(axis=1) == y).mean())), 0.15)
        rows = np.arange(50)
        found = few_labels.temperature(
            prior, logits, _labels(rows, y[rows]), _matched(prior, logits)
        )
        oracle = temperatures.solve(logits, y).temperature
        ours.append(abs(np.log(found / oracle)))
        alone.append(abs(np.log(temperatures.solve(logits[rows], y[rows]).temperature / oracle)))
    assert np.mean(ours) < 0.7 * np.mean(alone)


def _all_equal(z):
    return np.zeros_like(z)


def _half_equal(z):
    return np.where(np.arange(len(z))[:, None] < len(z) // 2, 0.0, z)


@pytest.mark.parametrize(
    "change", [_all_equal, _half_equal, lambda z: z * 1e150, lambda z: z * 1e-150]
)
@pytest.mark.parametrize("centre", [-30.0, 0.5, 30.0])
@pytest.mark.parametrize("answer", ["right", "wrong", "one class"])
def test_odd_logits_and_labels_have_a_defined_answer(change, centre, answer):
    logits = change(_logits(60, 5))
    y = {
        "right": logits.argmax(axis=1),
        "wrong": logits.argmin(axis=1),
        "one class": np.ones(60, int),
    }
    rows, prior = np.arange(20), Prior(centre, 0.3)
    matched = _matched(prior, logits)
    found = few_labels.temperature(prior, logits, _labels(rows, y[answer][:20]), matched)
    assert np.isfinite(found)
    assert found > 0.0
    if change is _all_equal:
        assert found == matched == 1.0
    accuracy = few_labels.accuracy(prior, logits[rows].argmax(axis=1) == y[answer][:20])
    assert 0.0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1.0


def test_labels_of_equal_logits_leave_the_temperature_to_the_atlas():
    logits = _half_equal(_logits(400, 6))
    prior = Prior(0.4, 0.3)
    matched = _matched(prior, logits)
    found = few_labels.temperature(prior, logits, _labels([0, 1, 2], [0, 1, 2]), matched)
    assert found == pytest.approx(matched, rel=1e-3)


def test_one_node_that_differs_among_many_leaves_the_answer_defined():
    logits = np.zeros((50_000, 2))
    logits[1] = [0.0, 1.0]
    found = few_labels.temperature(Prior(0.5, 0.3), logits, _labels([1, 2], [1, 0]), 2.0)
    assert found == pytest.approx(2.0)


def test_scaling_the_logits_scales_the_temperature():
    rng, logits = np.random.default_rng(10), _logits(300, 7)
    labels = _labels(np.arange(40), _draw(logits[:40], 1.5, rng))
    prior = Prior(1.0, 0.4)
    one, other = (
        few_labels.temperature(prior, z, labels, _matched(prior, z))
        for z in (logits, 50.0 * logits)
    )
    assert other == pytest.approx(50.0 * one, rel=1e-6)
