"""The label-free fit of several classes on draws from the model."""

import numpy as np
import pytest

from graphtemper.errors import (
    NotIdentifiableError,
    RangeError,
    ShapeError,
    TooFewError,
    WrongTypeError,
)
from graphtemper_research.theory_extensions.label_free import fit_multiclass


def simplex_logits(num_classes, separation, noise, size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, size)
    logits = separation * np.eye(num_classes)[labels]
    return logits + noise * rng.standard_normal((size, num_classes)), labels


@pytest.mark.parametrize("num_classes", [3, 5])
def test_multiclass_recovers_bayes_temperature_and_accuracy(num_classes):
    logits, labels = simplex_logits(num_classes, 4.0, 1.6, 6000, seed=0)
    fit = fit_multiclass(logits)
    # Bayes' rule for class means 4 e_k and noise variance 1.6^2: slope 4 / 1.6^2.
    assert fit.slope == pytest.approx(4.0 / 1.6**2, rel=0.06)
    assert fit.accuracy == pytest.approx(np.mean(logits.argmax(1) == labels), abs=0.015)
    assert fit.separation == pytest.approx(4.0 * np.sqrt(2) / 1.6, rel=0.1)
    np.testing.assert_allclose(fit.posterior.sum(axis=1), 1)
    np.testing.assert_allclose(fit.shares, 1 / num_classes, atol=0.03)


def test_multiclass_ignores_a_shift_common_to_all_logits():
    logits, _ = simplex_logits(3, 4.0, 1.6, 2000, seed=1)
    shifted = logits + np.random.default_rng(2).normal(size=(2000, 1)) * 10
    assert fit_multiclass(shifted).temperature == pytest.approx(fit_multiclass(logits).temperature)


def test_multiclass_not_identifiable():
    rng = np.random.default_rng(3)
    with pytest.raises(NotIdentifiableError):
        fit_multiclass(rng.standard_normal((2000, 3)))
    with pytest.raises(NotIdentifiableError):
        fit_multiclass(rng.standard_normal((2000, 3)) - np.array([0.0, 0.0, 50.0]))
    with pytest.raises(NotIdentifiableError):
        fit_multiclass(simplex_logits(3, 10.0, 1.0, 2000, seed=4)[0])
    close, labels = simplex_logits(3, 6.0, 1.0, 3000, seed=5)
    close[labels == 1] = close[labels == 2][: np.sum(labels == 1)].mean(0) + rng.standard_normal(
        (np.sum(labels == 1), 3)
    )
    with pytest.raises(NotIdentifiableError):
        fit_multiclass(close)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_multiclass_does_not_depend_on_the_unit(scale):
    logits, _ = simplex_logits(3, 4.0, 1.6, 2000, seed=1)
    one, other = fit_multiclass(logits), fit_multiclass(scale * logits)
    assert other.temperature / scale == pytest.approx(one.temperature, rel=1e-6)
    np.testing.assert_allclose(other.means / scale, one.means, rtol=1e-6, atol=1e-9)


def test_multiclass_refuses_in_one_sentence():
    labels = np.random.default_rng(0).integers(0, 3, 300)
    with pytest.raises(NotIdentifiableError):
        fit_multiclass(np.eye(3)[labels])
    with pytest.raises(RangeError):
        fit_multiclass(simplex_logits(3, 4.0, 1.6, 300, seed=1)[0], max_iterations=0)
    with pytest.raises(WrongTypeError):
        fit_multiclass(simplex_logits(3, 4.0, 1.6, 300, seed=1)[0], max_iterations=1.5)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: fit_multiclass(np.ones((100, 2))), ShapeError),
        (lambda: fit_multiclass(np.ones((10, 3))), TooFewError),
        (lambda: fit_multiclass(np.ones((100, 3))), ShapeError),
        (lambda: fit_multiclass(np.full((100, 3), np.inf)), RangeError),
    ],
)
def test_bad_input_names_the_argument(call, error):
    with pytest.raises(error):
        call()
