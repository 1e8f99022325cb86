"""The penalised likelihood of a linear map: derivatives, optimum, folds."""

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators.base import fold_numbers
from graphtemper_research.baselines.linear_map import (
    fit_full,
    full_hessian,
    full_objective,
)


def test_derivatives_are_those_of_finite_differences(sample, finite_differences):
    z, y = sample(60, 4)
    full = full_objective(z, y, 0.3, 0.7)
    at = np.random.default_rng(1).normal(size=20)
    np.testing.assert_allclose(full(at)[1], finite_differences(full, at), atol=1e-7)
    slopes = np.stack(
        [(full(at + 1e-6 * e)[1] - full(at - 1e-6 * e)[1]) / 2e-6 for e in np.eye(20)]
    )
    np.testing.assert_allclose(full_hessian(z, 0.3, 0.7)(at), slopes, atol=1e-6)


def test_the_gradient_vanishes_at_the_fit(sample):
    z, y = sample(400, 4, scale=2.0)
    matrix, bias = fit_full(z, y, 0.1, 0.1)
    unit = temperature.fit(z, y)
    optimum = np.column_stack([matrix * unit, bias]).ravel()
    assert np.abs(full_objective(z / unit, y, 0.1, 0.1)(optimum)[1]).max() < 1e-6


def test_folds_differ_in_size_by_at_most_one():
    assert np.bincount(fold_numbers(40, 3, 0)).tolist() == [14, 13, 13]
