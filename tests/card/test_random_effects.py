"""Random effects over labelled environments, against independent quadrature and simulation."""

import numpy as np
import pytest
from scipy.integrate import dblquad

from graphtemper.card.random_effects import (
    Constants,
    Environments,
    conformal_interval,
    expect,
    fit,
    mixing_weight,
)

C = Constants()


def known(truth, confidence, atlas, ages=None, nodes=1000):
    truth, confidence, atlas = (np.asarray(one, dtype=float) for one in (truth, confidence, atlas))
    variance = np.full(truth.size, 4.0 / nodes)
    return Environments(truth, variance, np.column_stack([confidence, atlas]), ages)


def test_the_posterior_mean_is_that_of_adaptive_quadrature():
    gaps, variance = np.array([-1.2, -0.3, 0.1]), np.array([0.02, 0.1, 0.01])

    def student(value):  # up to a constant, with 4 degrees of freedom
        return (1.0 + value * value / 4.0) ** -2.5

    def density(mean, log_spread):
        scale = np.sqrt(np.exp(2.0 * log_spread) + variance)
        prior = np.exp(-0.5 * ((log_spread - np.log(C.spread)) / C.spread_range) ** 2)
        likelihood = np.prod(student((gaps - mean) / scale) / scale)
        return student((mean - C.mean) / C.mean_scale) * prior * likelihood

    low, high = (np.log(C.spread) + step * C.spread_range for step in (-4.0, 4.0))
    limits = (low, high, -8.0, 8.0)
    mass, _ = dblquad(density, *limits, epsabs=1e-7)
    first, _ = dblquad(lambda m, s: m * density(m, s), *limits, epsabs=1e-7)
    assert fit(gaps, variance, np.ones(3)).mean == pytest.approx(first / mass, abs=0.01)


def test_the_next_gap_has_the_quantiles_of_simulated_environments():
    gaps, variance = np.array([-1.2, -0.3, 0.1]), np.array([0.02, 0.1, 0.01])
    effects, rng = fit(gaps, variance, np.ones(3)), np.random.default_rng(0)
    cells = rng.choice(effects.mass.size, 200_000, p=effects.mass.ravel())
    row, column = np.unravel_index(cells, effects.mass.shape)
    scale = np.sqrt(effects.spreads[column] ** 2 + 0.05)
    drawn = effects.means[row] + scale * rng.standard_t(4, cells.size)
    np.testing.assert_allclose(
        effects.next_gap(0.05), np.quantile(drawn, (0.05, 0.5, 0.95)), atol=0.03
    )


def test_leaving_an_environment_out_is_fitting_without_it():
    gaps, variance = np.array([-1.2, -0.3, 0.1]), np.full(3, 0.02)
    without = fit(gaps, variance, np.ones(3)).means_without_each()
    for place in range(3):
        rest = np.delete(gaps, place)
        direct = fit(rest, variance[:2], np.ones(2)).mean
        assert without[place] == pytest.approx(direct, abs=0.01)


@pytest.mark.parametrize("count", [9, 14, 25])
def test_the_conformal_interval_covers_exchangeable_environments(count):
    rng = np.random.default_rng(count)
    draws = -rng.gamma(0.5, 2.0, (1500, count + 1))  # skewed, with a long tail
    hits = []
    for row in draws:
        low, high = conformal_interval(row[:-1])
        hits.append(low <= row[-1] <= high)
    assert 0.88 <= np.mean(hits) <= 0.985


def test_the_better_estimate_gets_the_weight():
    rng = np.random.default_rng(0)
    truth = rng.normal(0.5, 1.0, 10)
    good, bad = truth + 0.3 + rng.normal(0.0, 0.05, 10), rng.normal(1.5, 0.5, 10)
    ones = np.ones(10)
    assert mixing_weight(known(truth, bad, good), ones) > 0.9
    assert mixing_weight(known(truth, good, bad), ones) < 0.1
    expected = expect(known(truth, bad, good), np.array([1.5, 0.8]), 0.01)
    assert expected.centre == pytest.approx(0.5, abs=0.1)


def test_one_environment_moves_the_answer_part_of_the_way():
    one = known([0.0], [2.0], [2.0])
    expected = expect(one, np.array([2.0, 2.0]), 0.01)
    assert 0.3 < expected.centre < 2.0 + C.mean
    assert not expected.exchangeable


def test_a_wrong_environment_widens_the_answer_and_does_not_move_it_far():
    rng = np.random.default_rng(1)
    truth = 1.0 + rng.normal(0.0, 0.15, 7)
    estimates = np.full(7, 1.5)
    clean = expect(known(truth, estimates, estimates), np.array([1.5, 1.5]), 0.01)
    poisoned = np.concatenate([truth, [-4.0]])
    both = np.full(8, 1.5)
    answer = expect(known(poisoned, both, both), np.array([1.5, 1.5]), 0.01)
    assert abs(answer.centre - clean.centre) < 0.15
    assert answer.deviation > clean.deviation
    assert clean.outlier is None
    assert answer.outlier == 7


def test_recent_environments_count_for_more():
    truth = np.array([2.0] * 6 + [0.5] * 3)
    estimates, ages = np.full(9, 2.0), np.arange(8.0, -1.0, -1.0)
    ordered = expect(known(truth, estimates, estimates, ages), np.array([2.0, 2.0]), 0.01)
    plain = expect(known(truth, estimates, estimates), np.array([2.0, 2.0]), 0.01)
    assert ordered.centre < plain.centre - 0.2
    assert plain.exchangeable
    assert not ordered.exchangeable


def test_a_small_target_has_a_wider_interval_than_the_environments_have():
    """Ten large environments say little about a count over a few nodes."""
    rng = np.random.default_rng(2)
    estimates = np.column_stack([np.full(10, 1.0), np.full(10, 1.0)])
    known = Environments(
        truth=1.0 + 0.02 * rng.standard_normal(10),
        variance=np.full(10, 0.001),
        estimates=estimates,
        ages=None,
    )
    large, small = (expect(known, estimates[0], variance) for variance in (0.001, 0.25))
    assert large.exchangeable
    assert small.exchangeable
    assert large.high - large.low < 0.2
    assert small.high - small.low > 2 * 1.6 * 0.5
