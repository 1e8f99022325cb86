"""The exact mixture against Monte Carlo, brute-force sums and its limits."""

import time
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit
from scipy.stats import binom, norm, poisson
from tests.helpers import raises

from graphtemper import theory
from graphtemper.errors import IllConditionedWarning, InputError
from graphtemper.theory.finite_degree import (
    finite_degree_accuracy,
    finite_degree_ece,
    finite_degree_temperature,
    optimal_scale,
)


def simulate(h, snr, degree, size, seed, self_loop=False):
    """Aggregated coordinate given class +1, in units of sigma."""
    rng = np.random.default_rng(seed)
    degrees = rng.poisson(degree, size)
    same = rng.binomial(degrees, h)
    loops = int(self_loop)
    count = degrees + loops
    total = np.sqrt(snr) * (loops + 2 * same - degrees) + np.sqrt(count) * rng.standard_normal(size)
    return np.where(count > 0, total / np.maximum(count, 1), 0.0)


def regular(degree):
    histogram = np.zeros(degree + 1)
    histogram[degree] = 1.0
    return histogram


def brute_force_nll(scale, h, snr, degree):
    """Sum over every degree and neighbour count, Riemann sum over the noise."""
    noise = np.linspace(-9, 9, 2001)
    weight = norm.pdf(noise) * (noise[1] - noise[0])
    total = 0.0
    for d in range(1, int(4 * degree) + 30):
        k = np.arange(d + 1)
        chance = binom.pmf(k, d, h) * poisson.pmf(d, degree)
        g = np.sqrt(snr) * (2 * k - d)[:, None] / d + noise / np.sqrt(d)
        total += chance @ np.logaddexp(0, -scale * g) @ weight
    return total


@pytest.mark.parametrize(("h", "snr", "degree"), [(0.8, 1.0, 5.0), (0.6, 2.0, 8.0)])
def test_scale_minimises_the_brute_force_nll(h, snr, degree):
    best = minimize_scalar(
        brute_force_nll, bounds=(0.1, 12), args=(h, snr, degree), options={"xatol": 1e-7}
    ).x
    assert optimal_scale(h, snr, degree) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("self_loop", [False, True])
def test_scale_minimises_a_monte_carlo_nll(self_loop):
    g = simulate(0.7, 1.0, 12.0, 400_000, seed=0, self_loop=self_loop)
    measured = brentq(lambda a: np.mean(g * expit(-a * g)), 0.1, 50)
    scale = optimal_scale(0.7, 1.0, 12.0, self_loop=self_loop)
    assert scale == pytest.approx(measured, rel=0.015)
    assert optimal_scale(0.7, 1.0, 12.0, self_loop=not self_loop) != pytest.approx(scale, rel=0.02)


@pytest.mark.parametrize("self_loop", [False, True])
def test_accuracy_and_ece_match_monte_carlo(self_loop):
    g = simulate(0.65, 1.0, 10.0, 400_000, seed=1, self_loop=self_loop)
    accuracy = np.mean(g > 0) + 0.5 * np.mean(g == 0)
    assert finite_degree_accuracy(0.65, 1.0, 10.0, self_loop=self_loop) == pytest.approx(
        accuracy, abs=3e-3
    )
    delta = optimal_scale(0.8, 1.0, 10.0, self_loop=self_loop) * g
    confidence, correct = expit(np.abs(delta)), np.where(delta == 0, 0.5, delta > 0)
    bins = np.digitize(confidence, np.quantile(confidence, np.linspace(0, 1, 101)[1:-1]))
    gaps = np.bincount(bins, confidence - correct, minlength=100)
    ece = finite_degree_ece(0.65, 0.8, 1.0, 10.0, self_loop=self_loop)
    # One hundred bins see the error of the population plus their own noise.
    assert ece == pytest.approx(np.abs(gaps).sum() / g.size, abs=2e-3)


def quadrature_ece(h, scale, snr, degree, self_loop):
    """Adaptive quadrature of |confidence - accuracy| over a density summed term by term."""
    loops = int(self_loop)
    centres, masses, widths = [], [], []
    for d in range(1 - loops, int(degree + 12 * np.sqrt(degree) + 25)):
        same = np.arange(d + 1)
        centres.append(np.sqrt(snr) * (loops + 2 * same - d) / (d + loops))
        masses.append(binom.pmf(same, d, h) * poisson.pmf(d, degree))
        widths.append(np.full(d + 1, 1 / np.sqrt(d + loops)))
    centre, mass, width = (np.concatenate(part) for part in (centres, masses, widths))
    kept = mass > 1e-15
    centre, mass, width = centre[kept], mass[kept], width[kept]

    def gap(t):
        own, other = (mass @ norm.pdf(side, centre, width) for side in (t, -t))
        own, other = (other, own) if scale < 0 else (own, other)
        return abs(expit(abs(scale) * t) * (own + other) - own)

    edges = [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.5, np.sqrt(snr) + 9]
    return sum(quad(gap, a, b, epsabs=1e-8, limit=100)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize(
    ("h_target", "h_source", "snr", "degree", "temperature", "self_loop"),
    [
        (0.6, 0.8, 1.0, 25.0, 1.0, False),
        (0.6, 0.8, 1.0, 25.0, 3.145, False),
        (0.6, 0.95, 1.0, 12.0, 1.0, False),
        (0.65, 0.8, 2.0, 4.0, 1.3, True),
        (0.7, 0.3, 0.5, 3.0, 1.0, False),
    ],
)
def test_ece_equals_an_independent_quadrature(
    h_target, h_source, snr, degree, temperature, self_loop
):
    scale = optimal_scale(h_source, snr, degree, self_loop=self_loop) / temperature
    expected = quadrature_ece(h_target, scale, snr, degree, self_loop)
    found = finite_degree_ece(
        h_target, h_source, snr, degree, temperature=temperature, self_loop=self_loop
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_ece_of_a_steep_source_on_a_dense_graph():
    # Computed with the quadrature above; it takes too long for a test.
    assert finite_degree_ece(0.55, 0.8, 1.0, 100.0) == pytest.approx(0.190604, abs=2e-6)


def test_recalibration_lowers_the_error():
    h = np.array([0.6, 0.7, 0.9])
    temperature = finite_degree_temperature(h, 0.8, 1.0, 16.0)
    before = finite_degree_ece(h, 0.8, 1.0, 16.0)
    after = finite_degree_ece(h, 0.8, 1.0, 16.0, temperature=temperature)
    assert np.all(after < before)
    assert np.all(after < 0.02)


def test_source_needs_no_temperature():
    assert finite_degree_temperature(0.75, 0.75, 2.0, 16.0) == 1.0


def test_converges_to_the_closed_form_where_the_gaussian_limit_holds():
    errors = []
    for degree in (25.0, 100.0, 400.0):
        h_target, h_source = 0.5 + np.array([0.8, 1.2]) / np.sqrt(degree)
        closed = theory.slope(h_target, h_source, 1.0)
        errors.append(abs(finite_degree_temperature(h_target, h_source, 1.0, degree) * closed - 1))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.005


def test_fixed_homophily_has_the_large_deviation_limit_instead():
    def tilt(h):
        return brentq(lambda t: t - np.tanh(np.arctanh(2 * h - 1) - t), -1, 1)

    exact = finite_degree_temperature(0.7, 0.8, 1.0, regular(400))
    assert exact == pytest.approx(tilt(0.8) / tilt(0.7), rel=0.005)
    assert abs(exact * theory.slope(0.7, 0.8, 1.0) - 1) > 0.03

    def weighted(h):
        t = tilt(h)
        return t * np.exp(t * t / 2) * (h * np.exp(-t) + (1 - h) * np.exp(t))

    random_degrees = finite_degree_temperature(0.6, 0.8, 1.0, 1500.0)
    assert random_degrees == pytest.approx(weighted(0.8) / weighted(0.6), rel=0.001)
    assert tilt(0.8) / tilt(0.6) == pytest.approx(3.356, abs=5e-4)
    assert weighted(0.8) / weighted(0.6) == pytest.approx(3.054, abs=5e-4)


def test_thinning_of_wide_tables_changes_nothing():
    count = np.arange(600)
    full = poisson.pmf(count, 300.0)
    assert optimal_scale(0.6, 1.0, 300.0) == pytest.approx(optimal_scale(0.6, 1.0, full), rel=1e-8)


def test_histogram_and_its_counts_agree_with_poisson():
    histogram = poisson.pmf(np.arange(60), 12.0)
    expected = finite_degree_temperature(0.65, 0.8, 1.0, 12.0)
    assert finite_degree_temperature(0.65, 0.8, 1.0, 500 * histogram) == pytest.approx(expected)
    assert finite_degree_temperature(0.65, 0.8, 1.0, regular(12)) != pytest.approx(
        expected, rel=0.01
    )


def test_denser_target_is_under_confident():
    temperature = finite_degree_temperature(0.7, 0.7, 1.0, 10.0, degree_target=20.0)
    assert temperature == pytest.approx(0.5, rel=0.1)


def test_mirror_symmetry_below_one_half():
    assert optimal_scale(0.2, 1.0, 10.0) == pytest.approx(-optimal_scale(0.8, 1.0, 10.0))
    assert finite_degree_temperature(0.3, 0.2, 1.0, 10.0) == pytest.approx(
        finite_degree_temperature(0.7, 0.8, 1.0, 10.0)
    )
    assert finite_degree_ece(0.3, 0.2, 1.0, 10.0) == pytest.approx(
        finite_degree_ece(0.7, 0.8, 1.0, 10.0)
    )
    assert optimal_scale(0.5, 1.0, 10.0) == 0.0


def test_vectorised_over_target():
    h = np.array([[0.6, 0.7], [0.8, 0.9]])
    result = finite_degree_temperature(h, 0.8, 1.0, 10.0)
    assert result.shape == (2, 2)
    assert result[0, 1] == finite_degree_temperature(0.7, 0.8, 1.0, 10.0)
    assert np.all(np.diff(result.ravel()) < 0)


def test_it_takes_milliseconds_of_processor_time():
    optimal_scale(0.75, 1.0, 16.0)
    times = []
    for _ in range(3):
        start = time.process_time()
        optimal_scale(0.75, 1.0, 16.0)
        times.append(time.process_time() - start)
    # Ten times the usual: a slow machine passes, a lost order of magnitude does not.
    assert min(times) < 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: finite_degree_temperature([0.7, 0.4], 0.8, 1.0, 10.0),
        lambda: finite_degree_temperature(0.7, 0.5, 1.0, 10.0),
        lambda: finite_degree_temperature(0.7, [0.8, 0.9], 1.0, 10.0),
        lambda: finite_degree_temperature(0.7, 0.8, [1.0, 2.0], 10.0),
        lambda: finite_degree_temperature(0.7, 0.8, 1.0, [0.5, -0.5]),
        lambda: finite_degree_temperature(0.7, 0.8, 1.0, [1.0]),
        lambda: finite_degree_temperature(0.7, 0.8, 1.0, 10.0, degree_target=[]),
        lambda: optimal_scale(np.nan, 1.0, 10.0),
        lambda: optimal_scale(0.8, 1.0, 1e10),
        lambda: optimal_scale(1.0, 2000.0, 1.0, self_loop=True),
        lambda: finite_degree_ece([0.6, 0.7], 0.8, 1.0, 10.0, temperature=[1, 2, 3]),
    ],
)
def test_arguments_outside_the_domain(call):
    with raises(("range", "shape")):
        call()


def test_near_one_half_the_result_is_flagged():
    with pytest.warns(IllConditionedWarning):
        finite_degree_temperature(0.7, 0.51, 1.0, 10.0)


def test_low_degrees_decide_the_scale_of_noiseless_homophilous_graphs():
    # Without label noise g given d is N(r, 1/d), with Bayes slope 2 r d: the rarest degree 1 wins.
    for snr in (100.0, 1000.0):
        assert optimal_scale(1.0, snr, 10.0) == pytest.approx(2 * np.sqrt(snr), rel=1e-4)


def test_huge_snr_is_refused_quickly():
    start = time.process_time()
    with pytest.raises(InputError):
        finite_degree_temperature(1.0, 0.7, 1e6, 10.0)
    assert time.process_time() - start < 30


@pytest.mark.parametrize("self_loop", [False, True])
def test_tiny_snr_reaches_its_limit(self_loop):
    sizes = [optimal_scale(0.8, s, 10.0, self_loop=self_loop) / np.sqrt(s) for s in (1e-30, 1e-300)]
    near = optimal_scale(0.8, 1e-7, 10.0, self_loop=self_loop) / np.sqrt(1e-7)
    assert sizes == pytest.approx([near, near], rel=1e-6)
    assert finite_degree_temperature(0.7, 0.8, 1e-300, 10.0, self_loop=self_loop) > 1


def test_self_loop_source_is_judged_by_its_own_scale():
    # The equal-degree crossing is 0.475; with Poisson degrees the scale there is small, not zero.
    assert optimal_scale(0.475, 1.0, 20.0, self_loop=True) == pytest.approx(0.051, abs=0.001)
    with pytest.warns(IllConditionedWarning):
        temperature = finite_degree_temperature(0.475, 0.475, 1.0, 20.0, self_loop=True)
    assert temperature == pytest.approx(1)
    with (
        pytest.warns(IllConditionedWarning),
        raises("range"),
    ):
        finite_degree_temperature(0.6, 0.47368, 1.0, 20.0, self_loop=True)
