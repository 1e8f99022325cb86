"""The likelihood of logits with binomial neighbours: sums, scores and its Gaussian limit."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from graphtemper_research.theory_extensions.label_free.neighbour_likelihood import (
    NeighbourLikelihood,
    gaussian,
)


def test_neighbour_likelihood_is_the_sum_over_neighbour_counts():
    rng = np.random.default_rng(0)
    values, degrees = rng.normal(size=40), rng.integers(1, 30, 40).astype(float)
    point = np.array([0.4, 0.2, 0.1])
    evaluation = NeighbourLikelihood(values, degrees, 1.5)(point)
    signal, excess = np.exp(0.4), 1 / (1 + np.exp(-0.2))
    for i, (value, degree) in enumerate(zip(values, degrees.astype(int), strict=True)):
        k = np.arange(degree + 1)
        centre = signal * (2 * k - degree) / degree
        deviation = signal / np.sqrt(1.5 * degree)
        chance = binom.pmf(k, degree, (1 + excess) / 2)
        plus, minus = (chance @ norm.pdf(value - 0.1, s * centre, deviation) for s in (1, -1))
        assert evaluation.log_likelihood[i] == pytest.approx(np.log((plus + minus) / 2))
        assert evaluation.posterior[i] == pytest.approx(plus / (plus + minus))


@pytest.mark.parametrize("degree", [20, 500])
def test_scores_are_the_derivatives(degree):
    rng = np.random.default_rng(1)
    values, degrees = rng.normal(size=50), rng.integers(degree // 2, degree, 50).astype(float)
    likelihood, point = NeighbourLikelihood(values, degrees, 0.7), np.array([0.2, -0.3, 0.05])
    checks = [
        (likelihood, point),
        (lambda p: gaussian(values, degrees, p), np.array([0.5, 1, 0.1])),
    ]
    for function, start in checks:
        for j, move in enumerate(np.eye(3) * 1e-5):
            slope = function(start + move).log_likelihood - function(start - move).log_likelihood
            expected = function(start).scores[:, j]
            np.testing.assert_allclose(slope / 2e-5, expected, rtol=1e-4, atol=1e-4)


def test_gaussian_limit_takes_over_smoothly(monkeypatch):
    rng = np.random.default_rng(2)
    values = rng.choice([-0.25, 0.25], 200) + 0.1 * rng.standard_normal(200)
    point, degrees = np.array([0.0, -1.0, 0.0]), np.full(200, 120.0)
    exact = NeighbourLikelihood(values, degrees, 1.0)(point)
    monkeypatch.setattr(
        "graphtemper_research.theory_extensions.label_free.neighbour_likelihood.LARGEST_EXACT_DEGREE",
        10,
    )
    limit = NeighbourLikelihood(values, degrees, 1.0)(point)
    assert not np.array_equal(exact.log_likelihood, limit.log_likelihood)
    assert exact.log_likelihood.mean() == pytest.approx(limit.log_likelihood.mean(), abs=0.02)
    assert np.abs(exact.posterior - limit.posterior).max() < 0.05
