"""Closed forms against simulation, Bayes' rule, quadrature and each other."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from tests.helpers import raises

from graphtemper import theory
from graphtemper.errors import IllConditionedWarning

homophily = st.floats(0.0, 1.0)
signal_homophily = homophily.filter(lambda h: abs(2 * h - 1) > 0.06)
ratio = st.floats(0.01, 100.0)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def simulate_coordinate(h, snr, degree, size, seed, self_loop=False):
    rng = np.random.default_rng(seed)
    same = rng.binomial(degree, h, size)
    r = np.sqrt(snr)
    total = r * (2 * same - degree) + np.sqrt(degree) * rng.standard_normal(size)
    if self_loop:
        return (total + r + rng.standard_normal(size)) / (degree + 1)
    return total / degree


def test_aggregated_moments_match_simulation():
    g = simulate_coordinate(0.7, 2.0, 12, 200_000, seed=0)
    mean, variance = theory.aggregated_moments(0.7, 2.0, 12)
    assert g.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / g.size))
    assert g.var() == pytest.approx(variance, rel=0.02)


def test_aggregated_moments_scale_with_sigma():
    mean, variance = theory.aggregated_moments(0.7, 2.0, 12, sigma=3.0)
    unit_mean, unit_variance = theory.aggregated_moments(0.7, 2.0, 12)
    assert mean == pytest.approx(3 * unit_mean)
    assert variance == pytest.approx(9 * unit_variance)


def test_slope_is_the_ratio_of_the_simulated_moments():
    def two_m_over_variance(h):
        g = simulate_coordinate(h, 1.0, 25, 400_000, seed=1)
        return 2 * g.mean() / g.var()

    measured = two_m_over_variance(0.65) / two_m_over_variance(0.8)
    assert theory.slope(0.65, 0.8, 1.0) == pytest.approx(measured, rel=0.015)


def test_self_loop_slope_is_the_ratio_of_the_simulated_moments():
    def two_m_over_variance(h):
        g = simulate_coordinate(h, 1.0, 8, 400_000, seed=2, self_loop=True)
        return 2 * g.mean() / g.var()

    measured = two_m_over_variance(0.6) / two_m_over_variance(0.8)
    assert theory.slope_self_loop(0.6, 0.8, 1.0, 8) == pytest.approx(measured, rel=0.015)
    assert abs(theory.slope(0.6, 0.8, 1.0) / measured - 1) > 0.1


def test_degree_ratio_multiplies_as_the_derivation_says():
    mean_s, var_s = theory.aggregated_moments(0.8, 1.0, 10)
    mean_t, var_t = theory.aggregated_moments(0.7, 1.0, 30)
    scale = 2 * mean_s / var_s
    expected = theory.slope_from_moments(scale * mean_t, scale**2 * var_t)
    assert theory.slope(0.7, 0.8, 1.0, degree_ratio=3.0) == pytest.approx(expected)


@pytest.mark.parametrize(("mean", "variance"), [(1.0, 4.0), (2.5, 1.0), (-0.5, 1.0)])
def test_slope_from_moments_is_bayes_rule(mean, variance):
    t = np.linspace(-3, 3, 13)
    plus, minus = (norm.pdf(t, m, np.sqrt(variance)) for m in (mean, -mean))
    np.testing.assert_allclose(
        expit(theory.slope_from_moments(mean, variance) * t), plus / (plus + minus), atol=1e-12
    )


@quick
@given(signal_homophily, ratio)
def test_slope_is_one_without_shift(h, snr):
    assert theory.slope(h, h, snr) == pytest.approx(1.0)


@quick
@given(signal_homophily, signal_homophily, signal_homophily, ratio)
def test_slope_composes_and_inverts(h_source, h_middle, h_target, snr):
    direct = theory.slope(h_target, h_source, snr)
    steps = theory.slope(h_middle, h_source, snr) * theory.slope(h_target, h_middle, snr)
    assert steps == pytest.approx(direct)
    assert theory.slope(h_source, h_target, snr) == pytest.approx(1 / direct)


@quick
@given(homophily, signal_homophily, ratio)
def test_sign_of_the_slope(h_target, h_source, snr):
    sign = np.sign(2 * h_target - 1) * np.sign(2 * h_source - 1)
    assert np.sign(theory.slope(h_target, h_source, snr)) == sign


@quick
@given(st.floats(0.02, 0.98), signal_homophily.filter(lambda h: 0.02 < h < 0.98))
def test_both_snr_limits(h_target, h_source):
    assume(abs(h_target - 0.5) > 1e-6)
    low, high = theory.slope(h_target, h_source, 1e-9), theory.slope(h_target, h_source, 1e9)
    assert low == pytest.approx(theory.slope_limit_low_snr(h_target, h_source), rel=1e-6)
    assert high == pytest.approx(theory.slope_limit_high_snr(h_target, h_source), rel=1e-6)


def test_the_printed_limit_is_not_the_high_snr_limit():
    assert theory.slope(0.6, 0.8, 1e9) == pytest.approx(2 / 9)
    assert theory.slope_limit_low_snr(0.6, 0.8) == pytest.approx(1 / 3)


@quick
@given(homophily, signal_homophily, ratio)
def test_self_loop_limits(h_target, h_source, snr):
    mean_aggregation = theory.slope(h_target, h_source, snr)
    many = theory.slope_self_loop(h_target, h_source, snr, 1e10)
    assert many == pytest.approx(mean_aggregation, rel=1e-6, abs=1e-6)
    assert theory.slope_self_loop(h_target, h_source, snr, 1e-9) == pytest.approx(1, rel=1e-5)


@quick
@given(st.floats(2.0, 1000.0))
def test_self_loop_zero_crossing(degree):
    crossing = theory.self_loop_zero_crossing(degree)
    assert theory.slope_self_loop(crossing, 0.8, 1.0, degree) == pytest.approx(0, abs=1e-12)
    assert crossing < 0.5


@quick
@given(homophily)
def test_signal_coefficient_of_two_classes(h):
    assert theory.signal_coefficient(h, 2) == pytest.approx(2 * h - 1)


@pytest.mark.parametrize("num_classes", [3, 4, 5])
def test_signal_coefficient_matches_simulated_neighbours(num_classes):
    means = np.eye(num_classes) - 1 / num_classes
    shares = np.full(num_classes, 0.3 / (num_classes - 1))
    shares[0] = 0.7
    expected = theory.signal_coefficient(0.7, num_classes) * means[0]
    np.testing.assert_allclose(shares @ means, expected, atol=1e-12)
    assert theory.signal_coefficient(1 / num_classes, num_classes) == pytest.approx(0, abs=1e-15)


def test_signal_ratio():
    expected = theory.signal_coefficient(0.5, 4) / theory.signal_coefficient(0.8, 4)
    assert theory.signal_ratio(0.5, 0.8, 4) == pytest.approx(expected)


@quick
@given(homophily, ratio, st.floats(0.0, 50.0), st.floats(1e-3, 50.0))
def test_covariate_slope_falls_with_noise(h, snr, gamma, more):
    here, there = (theory.slope_covariate(h, snr, g) for g in (gamma, gamma + more))
    assert there < here <= 1
    assert theory.temperature_covariate(h, snr, gamma) == pytest.approx(1 / here)


def test_covariate_slope_matches_the_moments():
    mean, variance = theory.aggregated_moments(0.7, 2.0, 10)
    _, noisier = theory.aggregated_moments(0.7, 2.0 / 2.5, 10, sigma=np.sqrt(2.5))
    expected = theory.slope_from_moments(mean, noisier) / theory.slope_from_moments(mean, variance)
    assert theory.slope_covariate(0.7, 2.0, 1.5) == pytest.approx(expected)


@quick
@given(st.floats(-20, 20), st.floats(0.01, 200.0))
def test_bound_is_never_violated_by_the_exact_ece(mean, variance):
    kappa = theory.slope_from_moments(mean, variance)
    bound = theory.ece_bound(kappa, theory.mean_abs_logit(mean, variance))
    exact = theory.population_ece(mean, variance)
    assert 0 <= exact <= bound + 1e-12


@pytest.mark.parametrize(
    ("mean", "variance", "temperature"), [(1.0, 4.0, 1.0), (3.0, 1.5, 2.0), (6.0, 40.0, 1.0)]
)
def test_population_ece_matches_adaptive_quadrature(mean, variance, temperature):
    deviation = np.sqrt(variance)
    kappa = 2 * mean / variance

    def integrand(t):
        density = norm.pdf(t, mean, deviation) + norm.pdf(t, -mean, deviation)
        return density * abs(expit(kappa * t) - expit(t / temperature))

    expected = quad(integrand, 0, mean + 12 * deviation, limit=200, epsabs=1e-12)[0]
    assert theory.population_ece(mean, variance, temperature=temperature) == pytest.approx(
        expected, abs=1e-9
    )


def test_population_quantities_match_simulation():
    rng = np.random.default_rng(3)
    y = rng.choice([-1, 1], 400_000)
    delta = 1.2 * y + 1.5 * rng.standard_normal(y.size)
    correct = delta * y > 0
    assert theory.population_accuracy(1.2, 2.25) == pytest.approx(correct.mean(), abs=3e-3)
    assert theory.mean_abs_logit(1.2, 2.25) == pytest.approx(np.abs(delta).mean(), abs=6e-3)
    gap = expit(np.abs(delta) / 0.8).mean() - correct.mean()
    assert theory.population_gap(1.2, 2.25, temperature=0.8) == pytest.approx(gap, abs=3e-3)


def test_optimal_temperature_zeroes_the_error_and_no_other_does():
    best = theory.optimal_temperature(theory.slope_from_moments(1.0, 3.0))
    assert theory.population_ece(1.0, 3.0, temperature=best) == pytest.approx(0, abs=1e-14)
    assert theory.population_ece(1.0, 3.0, temperature=1.1 * best) > 1e-3


def test_broadcasting_and_scalar_types():
    grid = theory.slope(np.array([0.6, 0.7])[:, None], 0.8, np.array([0.5, 1.0, 2.0]))
    assert grid.shape == (2, 3)
    assert grid[1, 2] == theory.slope(0.7, 0.8, 2.0)
    assert type(theory.slope(0.6, 0.8, 1)) is float
    assert theory.population_ece(np.array([1.0, 2.0]), 1.0).shape == (2,)
    assert theory.population_ece(1.0, 1.0, temperature=np.array([1.0, 2.0, 3.0])).shape == (3,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.slope(0.7, 0.5, 1.0),
        lambda: theory.slope([0.7, np.nan], 0.8, 1.0),
        lambda: theory.slope(0.7, 0.8, 0.0),
        lambda: theory.slope(0.7, 0.8, 1.0, degree_ratio=-1),
        lambda: theory.slope_limit_high_snr(1.0, 0.8),
        lambda: theory.slope_self_loop(0.7, 0.475, 1.0, 20),
        lambda: theory.signal_coefficient(0.7, 1),
        lambda: theory.signal_ratio(0.7, 0.25, 4),
        lambda: theory.slope_covariate(0.7, 1.0, -0.1),
        lambda: theory.ece_bound(0.5, -1.0),
        lambda: theory.population_ece(1.0, 0.0),
        lambda: theory.optimal_temperature([1.0, -0.2]),
    ],
)
def test_arguments_outside_the_domain(call):
    with raises(("range", "wrong-type")):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.slope(0.7, 0.52, 1.0),
        lambda: theory.slope_self_loop(0.7, 0.48, 1.0, 20),
        lambda: theory.signal_ratio(0.7, 0.26, 4),
    ],
)
def test_near_the_zero_crossing_the_result_is_flagged(call):
    with pytest.warns(IllConditionedWarning):
        assert np.isfinite(call())


def test_away_from_the_zero_crossing_there_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theory.slope(0.51, 0.53, 1.0)
        theory.signal_ratio(0.7, 0.5, 4)


PAIR, TRIPLE = np.array([0.6, 0.7]), np.array([0.7, 0.8, 0.9])


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.aggregated_moments(PAIR, TRIPLE, 10),
        lambda: theory.slope(PAIR, TRIPLE, 1.0),
        lambda: theory.slope_limit_low_snr(PAIR, TRIPLE),
        lambda: theory.slope_self_loop(0.6, 0.8, PAIR, TRIPLE),
        lambda: theory.signal_coefficient(PAIR, [2, 3, 4]),
        lambda: theory.signal_ratio(PAIR, TRIPLE, 2),
        lambda: theory.slope_covariate(PAIR, 1.0, TRIPLE),
        lambda: theory.ece_bound(PAIR, TRIPLE),
        lambda: theory.population_ece(PAIR, 1.0, temperature=TRIPLE),
    ],
)
def test_shapes_that_do_not_fit_are_named(call):
    with raises("shape"):
        call()


def test_self_loop_slope_is_finite_for_huge_arguments():
    closed = theory.slope_limit_high_snr(0.6, 0.8)
    assert theory.slope_self_loop(0.6, 0.8, 1e300, 1e10) == pytest.approx(closed)
    assert theory.slope_self_loop(0.6, 0.8, 1.0, 1e308) == pytest.approx(theory.slope(0.6, 0.8, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.optimal_temperature(1e-320),
        lambda: theory.slope(0.9, 0.6, 1.0, degree_ratio=1.7e308),
        lambda: theory.slope_from_moments(1e300, 1e-300),
        lambda: theory.self_loop_zero_crossing(1e-320),
        lambda: theory.aggregated_moments(0.6, 1.0, 1.0, sigma=1e200),
        lambda: theory.ece_bound(1e300, 1e300),
    ],
)
def test_overflow_is_an_error_not_an_infinity(call):
    with raises("range"):
        call()


@pytest.mark.parametrize(
    "call",
    [  # without a frame of their own
        partial(theory.slope, 0.7, 0.52, 1.0),
        partial(theory.slope_limit_low_snr, 0.7, 0.52),
        partial(theory.slope_limit_high_snr, 0.7, 0.52),
        partial(theory.slope_self_loop, 0.7, 0.48, 1.0, 20),
        partial(theory.signal_ratio, 0.7, 0.26, 4),
    ],
)
def test_the_warning_points_at_the_caller(call):
    with pytest.warns(IllConditionedWarning) as caught:
        call()
    assert caught[0].filename == __file__
