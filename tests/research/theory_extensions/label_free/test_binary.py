"""The label-free fit of two classes on draws from the model."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtri
from scipy.stats import norm

from graphtemper.errors import (
    GraphTemperError,
    InputError,
    NotIdentifiableError,
    RangeError,
    WrongTypeError,
)
from graphtemper.theory.finite_degree import finite_degree_accuracy, optimal_scale
from graphtemper_research.theory_extensions.label_free import fit_binary


def two_gaussians(mean, variance, size, seed):
    rng = np.random.default_rng(seed)
    return rng.choice([-mean, mean], size) + np.sqrt(variance) * rng.standard_normal(size)


def neighbourhoods(h, snr, degree, size, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1, 1], size)
    degrees = rng.poisson(degree, size)
    count = np.maximum(degrees, 1)
    same = rng.binomial(degrees, h)
    total = np.sqrt(snr) * (2 * same - degrees) + np.sqrt(degrees) * rng.standard_normal(size)
    return scale * labels * total / count, degrees, labels


def oracle_temperature(delta, labels):
    def nll(log_scale):
        return np.logaddexp(0, -np.exp(log_scale) * labels * delta).mean()

    return np.exp(-minimize_scalar(nll, bounds=(-5, 5), options={"xatol": 1e-8}).x)


@pytest.mark.parametrize("method", ["likelihood", "moments"])
@pytest.mark.parametrize(("mean", "variance"), [(2.0, 3.0), (1.0, 0.3)])
def test_recovers_the_parameters_within_its_standard_errors(method, mean, variance):
    scores = []
    for seed in range(12):
        fit = fit_binary(two_gaussians(mean, variance, 4000, seed), method=method)
        truth = (mean, variance, np.log(variance / (2 * mean)), norm.cdf(mean / np.sqrt(variance)))
        estimates = (fit.mean, fit.variance, np.log(fit.temperature), fit.accuracy)
        errors = (
            fit.mean_error,
            fit.variance_error,
            fit.log_temperature_error,
            fit.accuracy_error,
        )
        scores.append((np.array(estimates) - truth) / errors)
    # Standardised errors: mean near 0 and size near 1, so errors neither too small nor too large.
    assert np.all(np.abs(np.mean(scores, axis=0)) < 1.1)
    size = np.sqrt(np.mean(np.square(scores), axis=0))
    assert np.all((size > 0.4) & (size < 1.8))


@pytest.mark.parametrize("aware", [False, True])
def test_an_offset_costs_accuracy_and_confidence(aware):
    delta, degrees, labels = neighbourhoods(0.7, 1.0, 20, 8000, 11, scale=8.0)
    if not aware:
        degrees, delta = None, 3.0 * labels + 2.0 * np.random.default_rng(0).standard_normal(8000)
    shifted = delta + 1.5
    before, after = fit_binary(delta, degrees), fit_binary(shifted, degrees)
    assert after.offset == pytest.approx(before.offset + 1.5, abs=1e-2)
    assert after.accuracy < before.accuracy - 0.01
    assert after.accuracy == pytest.approx(np.mean(shifted * labels > 0), abs=0.015)
    assert after.temperature > 1.1 * before.temperature
    assert after.temperature == pytest.approx(oracle_temperature(shifted, labels), rel=0.08)


def test_likelihood_is_sharper_than_moments():
    delta = two_gaussians(2.0, 3.0, 4000, seed=5)
    likelihood, moments = fit_binary(delta), fit_binary(delta, method="moments")
    assert likelihood.log_temperature_error < moments.log_temperature_error
    assert likelihood.method == "likelihood"
    assert moments.method == "moments"


def test_moments_solve_their_equation():
    delta = two_gaussians(2.0, 2.0, 3000, seed=6)
    centred = delta - delta.mean()
    fit = fit_binary(delta, method="moments")
    expected = (3 * np.mean(centred**2) ** 2 - np.mean(centred**4)) / 2
    assert fit.mean**4 == pytest.approx(expected)
    assert fit.variance == pytest.approx(np.mean(centred**2) - fit.mean**2)


def test_temperature_is_the_reciprocal_slope_and_scales_with_the_logits():
    delta = two_gaussians(2.0, 2.0, 3000, seed=7)
    fit, larger = fit_binary(delta), fit_binary(10 * delta)
    assert fit.slope == pytest.approx(2 * fit.mean / fit.variance, rel=0.02)
    assert larger.temperature == pytest.approx(10 * fit.temperature, rel=1e-3)
    assert larger.accuracy == pytest.approx(fit.accuracy, rel=1e-4)
    low, high = fit.temperature_interval()
    assert low < fit.temperature < high
    assert low * high == pytest.approx(fit.temperature**2)


@pytest.mark.parametrize(("h", "snr", "degree"), [(0.7, 1.0, 20), (0.8, 2.0, 10)])
def test_degrees_remove_the_bias_of_one_common_variance(h, snr, degree):
    truth = 1 / optimal_scale(h, snr, degree)
    aware, plain = [], []
    for seed in range(5):
        delta, degrees, _ = neighbourhoods(h, snr, degree, 4000, seed)
        aware.append(fit_binary(delta, degrees, snr=snr).temperature)
        plain.append(fit_binary(delta).temperature)
    assert np.mean(aware) == pytest.approx(truth, rel=0.05)
    assert np.mean(plain) < 0.93 * truth


def test_degree_aware_errors_cover_the_truth():
    truth = np.log(1 / optimal_scale(0.68, 1.0, 16)), finite_degree_accuracy(0.68, 1.0, 16)
    scores = []
    for seed in range(10):
        delta, degrees, _ = neighbourhoods(0.68, 1.0, 16, 3000, seed)
        fit = fit_binary(delta, degrees)
        scores.append(
            [
                (np.log(fit.temperature) - truth[0]) / fit.log_temperature_error,
                (fit.accuracy - truth[1]) / fit.accuracy_error,
            ]
        )
    assert np.all(np.abs(np.mean(scores, axis=0)) < 1.2)
    size = np.sqrt(np.mean(np.square(scores), axis=0))
    assert np.all((size > 0.4) & (size < 1.8))


def test_label_free_temperature_is_near_the_oracle():
    ratios = []
    for seed in range(4):
        delta, degrees, labels = neighbourhoods(0.7, 1.0, 16, 4000, 50 + seed, scale=7.0)
        ratios.append(fit_binary(delta, degrees).temperature / oracle_temperature(delta, labels))
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)


def test_a_wrong_snr_matters_little():
    delta, degrees, _ = neighbourhoods(0.75, 1.0, 16, 4000, 3)
    right = fit_binary(delta, degrees, snr=1.0).temperature
    for snr in (0.5, 2.0):
        assert fit_binary(delta, degrees, snr=snr).temperature == pytest.approx(right, rel=0.06)


def test_counting_equal_values_changes_nothing(monkeypatch):
    delta, degrees, _ = neighbourhoods(0.7, 1.0, 12, 6000, 4)
    full = fit_binary(delta, degrees)
    monkeypatch.setattr(
        "graphtemper_research.theory_extensions.label_free.binary._LARGEST_EXACT_SIZE", 100
    )
    counted = fit_binary(delta, degrees)
    assert counted.temperature == pytest.approx(full.temperature, rel=2e-3)
    assert counted.log_temperature_error == pytest.approx(full.log_temperature_error, rel=2e-2)


def test_isolated_nodes_count_one_half():
    delta, degrees, _ = neighbourhoods(0.7, 1.0, 12, 3000, 5)
    alone = fit_binary(np.append(delta, np.zeros(600)), np.append(degrees, np.zeros(600)))
    fit = fit_binary(delta, degrees)
    assert alone.temperature == pytest.approx(fit.temperature, rel=1e-6)
    assert alone.accuracy == pytest.approx((fit.accuracy * 3000 + 300) / 3600, rel=1e-6)


@pytest.mark.parametrize("method", ["likelihood", "moments"])
def test_one_gaussian_is_not_identifiable(method):
    refused = 0
    for seed in range(20):
        delta = np.random.default_rng(seed).standard_normal(2000)
        try:
            fit_binary(delta, method=method)
        except NotIdentifiableError:
            refused += 1
    assert refused == 20


@pytest.mark.parametrize("h", [0.5, 0.53, 0.56])
def test_near_chance_is_not_identifiable_with_degrees(h):
    for seed in range(6):
        delta, degrees, _ = neighbourhoods(h, 1.0, 16, 1500, seed)
        with pytest.raises(NotIdentifiableError):
            fit_binary(delta, degrees)


def test_near_certainty_is_not_identifiable():
    with pytest.raises(NotIdentifiableError):
        fit_binary(two_gaussians(3.0, 1.0, 4000, seed=0))
    with pytest.raises(NotIdentifiableError):
        fit_binary(two_gaussians(1.0, 0.0001, 4000, seed=0), method="moments")
    delta, degrees, _ = neighbourhoods(0.9, 1.0, 25, 2000, 0)
    with pytest.raises(NotIdentifiableError):
        fit_binary(delta, degrees)


def test_too_few_nodes_are_not_identifiable_but_the_limits_can_be_moved():
    delta = two_gaussians(1.1, 1.0, 1000, seed=1)
    with pytest.raises(NotIdentifiableError):
        fit_binary(delta)
    fit = fit_binary(delta, largest_log_error=np.inf)
    assert fit.log_temperature_error > 0.1


def test_the_message_says_what_to_do():
    with pytest.raises(NotIdentifiableError):
        fit_binary(np.random.default_rng(0).standard_normal(500))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: fit_binary(np.ones(10)), "delta"),
        (lambda: fit_binary(np.ones(100)), "constant"),
        (lambda: fit_binary(np.append(np.arange(99.0), np.nan)), "delta"),
        (lambda: fit_binary(np.ones((100, 2))), "delta"),
        (lambda: fit_binary(np.arange(100.0), np.ones(99)), "degrees"),
        (lambda: fit_binary(np.arange(100.0), np.full(100, 1.5)), "degrees"),
        (lambda: fit_binary(np.arange(100.0), np.full(100, -1)), "degrees"),
        (lambda: fit_binary(np.arange(100.0), np.zeros(100)), "degrees"),
        (lambda: fit_binary(np.arange(100.0), np.ones(100), method="moments"), "degrees"),
        (lambda: fit_binary(np.arange(100.0), np.ones(100), snr=0.0), "snr"),
        (lambda: fit_binary(np.arange(100.0), np.ones(100), snr_factor=0.5), "snr_factor"),
        (lambda: fit_binary(np.arange(100.0), largest_log_error=-1.0), "largest_log_error"),
        (lambda: fit_binary(np.arange(100.0), method="guess"), "method"),
    ],
)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize("bounds", [(0.9, 0.6), (0.9,), None, "wide"])
def test_accuracy_range_is_checked_before_the_fit(bounds):
    # One Gaussian: a fit would raise NotIdentifiableError.
    with pytest.raises((RangeError, WrongTypeError)):
        fit_binary(np.random.default_rng(0).standard_normal(500), accuracy_range=bounds)


@pytest.mark.parametrize("method", ["likelihood", "moments", "degrees"])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-6, 1e-3, 1e3, 1e4, 1e6, 1e30])
def test_the_unit_of_the_logits_does_not_matter(method, scale):
    if method == "degrees":
        delta, degrees, _ = neighbourhoods(0.72, 1.0, 20, 3000, 8)
        fits = [fit_binary(unit * delta, degrees) for unit in (1.0, scale)]
    else:
        delta = two_gaussians(2.0, 2.0, 3000, seed=8)
        fits = [fit_binary(unit * delta, method=method) for unit in (1.0, scale)]
    one, other = fits
    assert other.temperature / scale == pytest.approx(one.temperature, rel=1e-6)
    assert other.mean_error / scale == pytest.approx(one.mean_error, rel=1e-6)
    assert other.variance / scale**2 == pytest.approx(one.variance, rel=1e-6)
    assert other.accuracy == pytest.approx(one.accuracy, rel=1e-6)
    assert other.log_temperature_error == pytest.approx(one.log_temperature_error, rel=1e-6)


@pytest.mark.parametrize("method", ["likelihood", "moments", "degrees"])
@pytest.mark.parametrize("outlier", [1e6, 1e100, 1e150, 1e300])
def test_outliers_are_refused_in_one_sentence(method, outlier):
    delta, degrees, _ = neighbourhoods(0.72, 1.0, 20, 1000, 8)
    delta[7] = outlier
    arguments = {"degrees": degrees} if method == "degrees" else {"method": method}
    with pytest.raises(GraphTemperError):
        fit_binary(delta, **arguments)


def test_an_unfinished_maximisation_is_refused(monkeypatch):
    monkeypatch.setattr(
        "graphtemper_research.theory_extensions.label_free.neighbour_likelihood._ITERATIONS", 2
    )
    with pytest.raises(NotIdentifiableError):
        fit_binary(two_gaussians(2.0, 2.0, 3000, seed=7))


def test_uncertainty_of_the_snr_is_part_of_the_error():
    delta, degrees, _ = neighbourhoods(0.75, 1.0, 16, 4000, 3)
    exact = fit_binary(delta, degrees, snr_factor=1.0)
    rough = fit_binary(delta, degrees, snr_factor=2.0)
    assert rough.temperature == exact.temperature
    change = max(
        abs(np.log(fit_binary(delta, degrees, snr=s, snr_factor=1.0).temperature * exact.slope))
        for s in (0.5, 2.0)
    )
    assert rough.log_temperature_error == pytest.approx(
        np.hypot(exact.log_temperature_error, change)
    )


def test_a_fit_that_hinges_on_the_snr_is_refused():
    delta, degrees, _ = neighbourhoods(0.75, 1.0, 6, 8000, 3)
    assert fit_binary(delta, degrees, snr_factor=1.0).log_temperature_error < 0.05
    with pytest.raises(NotIdentifiableError):
        fit_binary(delta, degrees, snr_factor=4.0)
    for snr in (0.02, 0.05):
        with pytest.raises(NotIdentifiableError):
            fit_binary(delta, degrees, snr=snr)


def selected(designs, draw):
    """Log ratio to the truth and its z-score, of the answers only."""
    answers = []
    for seed, design in enumerate(designs):
        truth, arguments = draw(design, seed)
        try:
            fit = fit_binary(*arguments[0], **arguments[1])
        except NotIdentifiableError:
            continue
        error = np.log(fit.temperature / truth)
        answers.append((error, error / fit.log_temperature_error))
    return np.array(answers).reshape(-1, 2)


def gaussian_draw(design, seed):
    accuracy, size = design
    mean = ndtri(accuracy)
    return 1 / (2 * mean), ((two_gaussians(mean, 1.0, int(size), seed),), {})


def test_answers_are_not_biased_by_selection():
    rng = np.random.default_rng(0)
    designs = [(rng.uniform(0.7, 0.985), rng.choice([1000, 2000, 4000])) for _ in range(250)]
    answers = selected(designs, gaussian_draw)
    assert len(answers) > 80
    assert abs(answers[:, 0].mean()) < 0.03
    assert 0.8 < np.sqrt(np.mean(answers[:, 1] ** 2)) < 1.25


@pytest.mark.parametrize(("accuracy", "size"), [(0.8, 1500), (0.76, 4000), (0.82, 1000)])
def test_graphs_beyond_the_limit_are_seldom_answered(accuracy, size):
    assert len(selected([(accuracy, size)] * 80, gaussian_draw)) <= 1


@pytest.mark.slow
def test_answers_with_degrees_are_not_biased_by_selection():
    rng = np.random.default_rng(1)

    def draw(_, seed):
        h, snr = rng.uniform(0.58, 0.8), np.exp(rng.uniform(np.log(0.3), np.log(4.0)))
        degree, size = rng.uniform(8.0, 40.0), int(rng.choice([1500, 4000]))
        delta, degrees, _ = neighbourhoods(h, snr, degree, size, seed)
        options = {"snr": snr, "snr_factor": 1.0}
        return 1 / optimal_scale(h, snr, degree), ((delta, degrees), options)

    answers = selected(range(200), draw)
    assert len(answers) > 60
    assert abs(answers[:, 0].mean()) < 0.03
    assert 0.8 < np.sqrt(np.mean(answers[:, 1] ** 2)) < 1.25


@pytest.mark.parametrize("h", [0.612, 0.7, 0.79])
def test_many_nodes_are_answered(h):
    delta, degrees, _ = neighbourhoods(h, 1.0, 25, 20_000, 0)
    assert 0.78 < finite_degree_accuracy(h, 1.0, 25) < 0.986
    assert fit_binary(delta, degrees).temperature == pytest.approx(
        1 / optimal_scale(h, 1.0, 25), rel=0.1
    )
