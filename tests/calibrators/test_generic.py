"""The calibrators that look at no graph: closed forms, gradients, independent libraries."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper.calibrators import (
    Dirichlet,
    EnsembleTemperature,
    HistogramBinning,
    Isotonic,
    IsotonicShared,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from graphtemper.calibrators.ensemble_temperature import components, mixture_weights
from graphtemper.calibrators.histogram_binning import inner_edges
from graphtemper.calibrators.linear_map import fit_full, full_hessian, full_objective
from graphtemper.calibrators.vector_scaling import vector_loss
from graphtemper.errors import InputError


def sample(count, classes, scale=1.0, seed=0):
    """Logits z and labels drawn from softmax(z), the logits then multiplied by the scale."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(count, classes)) * 1.5
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return scale * z, labels


def test_temperature_scaling_finds_the_scale():
    z, y = sample(60_000, 5, scale=3.0)
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(3.0, rel=0.01)


def test_temperature_scaling_is_that_of_sklearn():
    private = pytest.importorskip("sklearn.calibration")
    if not hasattr(private, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    z, y = sample(1500, 5, scale=3.0)
    theirs = private._TemperatureScaling().fit(z, y).beta_
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(1.0 / theirs, rel=1e-4)


def test_binary_scores_and_their_stacking():
    z, y = sample(800, 2)
    g = z[:, 1] - z[:, 0]
    first, half, double = (
        TemperatureScaling().fit(np.column_stack([low, high]), y).temperature_
        for low, high in ((0 * g, g), (-g / 2, g / 2), (-g, g))
    )
    assert half == pytest.approx(first, rel=1e-9)
    assert double == pytest.approx(2 * first, rel=1e-9)


def finite_differences(function, at, step=1e-6):
    eye = np.eye(at.size)
    return np.array(
        [(function(at + step * e)[0] - function(at - step * e)[0]) / (2 * step) for e in eye]
    )


def test_gradients_are_those_of_finite_differences():
    z, y = sample(60, 4)
    rng = np.random.default_rng(1)
    full = full_objective(z, y, 0.3, 0.7)
    at = rng.normal(size=20)
    np.testing.assert_allclose(full(at)[1], finite_differences(full, at), atol=1e-7)
    slopes = np.stack(
        [(full(at + 1e-6 * e)[1] - full(at - 1e-6 * e)[1]) / 2e-6 for e in np.eye(20)]
    )
    np.testing.assert_allclose(full_hessian(z, 0.3, 0.7)(at), slopes, atol=1e-6)
    at = rng.normal(size=8)
    vector = lambda parameters: vector_loss(z, y, parameters, 0.2)  # noqa: E731
    np.testing.assert_allclose(vector(at)[1], finite_differences(vector, at), atol=1e-7)


def test_linear_maps_end_where_the_gradient_is_zero():
    z, y = sample(400, 4, scale=2.0)
    matrix, bias = fit_full(z, y, 0.1, 0.1)
    unit = temperature.fit(z, y)
    end = np.column_stack([matrix * unit, bias]).ravel()
    assert np.abs(full_objective(z / unit, y, 0.1, 0.1)(end)[1]).max() < 1e-6
    vector = VectorScaling(penalty=0.01).fit(z, y)
    end = np.concatenate([vector.scale_ * unit, vector.shift_])
    assert np.abs(vector_loss(z / unit, y, end, 0.01)[1]).max() < 1e-6


def test_matrix_scaling_without_penalty_is_multinomial_regression():
    linear = pytest.importorskip("sklearn.linear_model")
    z, y = sample(2000, 3, scale=2.0)
    # The penalty only picks one of the many W that give the same probabilities.
    ours = MatrixScaling(off_diagonal=1e-9, intercept=1e-9).fit(z, y).transform(z)
    theirs = linear.LogisticRegression(C=1e9, tol=1e-10, max_iter=5000).fit(z, y)
    np.testing.assert_allclose(ours, theirs.predict_proba(z), atol=1e-4)


def test_vector_scaling_undoes_what_was_done_to_each_class():
    z, y = sample(50_000, 3)
    scale, shift = np.array([2.0, 0.5, 1.0]), np.array([0.5, 0.0, -0.5])
    vector = VectorScaling(penalty=0.0).fit((z - shift) / scale, y)
    np.testing.assert_allclose(vector.scale_, scale, rtol=0.05)
    np.testing.assert_allclose(vector.shift_ - vector.shift_.mean(), shift, atol=0.05)
    without = VectorScaling(bias=False).fit(z / scale, y)
    assert (without.shift_ == 0).all()
    np.testing.assert_allclose(without.scale_, scale, rtol=0.05)


@pytest.mark.parametrize("family", [MatrixScaling, Dirichlet])
def test_a_strong_penalty_leaves_the_diagonal(family):
    z, y = sample(500, 3, scale=2.0)
    fit = family(off_diagonal=1e6, intercept=1e6).fit(z, y)
    assert np.abs(fit.matrix_ - np.diag(np.diag(fit.matrix_))).max() < 1e-4
    assert np.abs(fit.bias_).max() < 1e-4


def test_dirichlet_with_a_scaled_identity_is_temperature_scaling():
    z, y = sample(100, 4)
    dirichlet = Dirichlet(off_diagonal=1.0, intercept=1.0).fit(z, y)
    dirichlet.matrix_, dirichlet.bias_ = np.eye(4) / 1.7, np.zeros(4)
    np.testing.assert_allclose(dirichlet.transform(z), temperature.apply(z, 1.7), atol=1e-12)


def test_cross_validation_takes_a_strong_penalty_where_temperature_is_all():
    z, y = sample(150, 5, scale=2.0)
    chosen = Dirichlet().fit(z, y)
    assert chosen.strengths_[0] == chosen.strengths_[1] >= 1.0
    rng = np.random.default_rng(0)
    z2, y2 = sample(2000, 5)
    mixed = z2 @ np.linalg.inv(np.eye(5) + 0.4 * rng.normal(size=(5, 5)))
    assert MatrixScaling().fit(mixed, y2).strengths_[0] <= 0.1


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_unit_of_the_logits_does_not_matter(scale):
    z, y = sample(200, 3)
    for method in (VectorScaling(), MatrixScaling(1.0, 1.0), EnsembleTemperature()):
        if scale != 1.0 and isinstance(method, EnsembleTemperature):
            continue  # it mixes in softmax(z) itself
        expected = method.fit(z, y).transform(z)
        np.testing.assert_allclose(
            method.fit(scale * z, y).transform(scale * z), expected, atol=1e-6
        )


def test_ensemble_with_all_weight_on_the_first_is_temperature_scaling():
    z, y = sample(300, 3, scale=2.0)
    ets = EnsembleTemperature().fit(z, y)
    ets.weights_ = np.array([1.0, 0.0, 0.0])
    expected = TemperatureScaling().fit(z, y).transform(z)
    np.testing.assert_allclose(ets.transform(z), expected, atol=1e-12)


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_ensemble_weights_are_the_best_of_the_simplex(loss):
    z, y = sample(300, 3, scale=4.0, seed=3)
    y[::7] = (y[::7] + 1) % 3  # labels that are wrong whatever the logits: the uniform part
    parts, truth = components(z, 2.5), np.eye(3)[y]
    weights = mixture_weights(parts, truth, loss)

    def value(w):
        p = np.tensordot(w, parts, 1)
        if loss == "nll":
            return -np.log((p * truth).sum(axis=1)).mean()
        return ((p - truth) ** 2).sum(axis=1).mean()

    grid = [(a, b, 1 - a - b) for a in np.linspace(0, 1, 51) for b in np.linspace(0, 1 - a, 51)]
    assert value(weights) <= min(value(np.array(w)) for w in grid[1:]) + 1e-9
    assert weights[2] > 0.05


def test_ensemble_by_brier_moves_also_for_float32_logits():
    z, y = sample(500, 3, scale=4.0)
    ets = EnsembleTemperature("brier").fit(z.astype(np.float32), y)
    assert ets.temperature_ == pytest.approx(4.0, rel=0.3)


def test_isotonic_is_that_of_sklearn_and_keeps_averages():
    z, y = sample(2000, 3, scale=3.0)
    p = temperature.apply(z)
    curve = Isotonic().fit(z, y).curves_[1]
    # Pool adjacent violators keeps the sum: mean fitted value = frequency of the class.
    assert np.interp(p[:, 1], *curve).mean() == pytest.approx((y == 1).mean(), abs=1e-3)
    shared = IsotonicShared().fit(z, y)
    assert np.interp(p, *shared.curve_).mean() == pytest.approx(1 / 3, abs=1e-3)
    assert (np.diff(shared.curve_[1]) >= 0).all()


def test_histogram_bins_hold_frequencies():
    z, y = sample(1000, 3, scale=3.0)
    histogram = HistogramBinning(bins=10).fit(z, y)
    p = temperature.apply(z)
    for k in range(3):
        index = np.searchsorted(histogram.edges_[k][1:-1], p[:, k])
        sizes = np.bincount(index)
        assert sizes.min() >= 99
        means = np.bincount(index, y == k) / sizes
        np.testing.assert_allclose(means, histogram.frequencies_[k])
    assert inner_edges(np.ones(5), 4).size == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EnsembleTemperature("l2"), "loss must be one of"),
        (lambda: VectorScaling(penalty=-1.0), "penalty must be finite and at least 0"),
        (lambda: MatrixScaling(off_diagonal=float("nan")), "off_diagonal must be finite"),
        (lambda: HistogramBinning(bins=0), "bins must be an integer"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
