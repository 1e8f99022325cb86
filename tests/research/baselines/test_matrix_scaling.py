"""Matrix scaling: multinomial regression, the penalty, and the unit of the logits."""

import numpy as np
import pytest

from graphtemper_research.baselines import (
    Dirichlet,
    MatrixScaling,
    VectorScaling,
)


def test_matrix_scaling_without_penalty_is_multinomial_regression(sample):
    linear = pytest.importorskip("sklearn.linear_model")
    z, y = sample(2000, 3, scale=2.0)
    # The penalty only picks one of the many W that give the same probabilities.
    ours = MatrixScaling(off_diagonal=1e-9, intercept=1e-9).fit(z, y).transform(z)
    theirs = linear.LogisticRegression(C=1e9, tol=1e-10, max_iter=5000).fit(z, y)
    np.testing.assert_allclose(ours, theirs.predict_proba(z), atol=1e-4)


@pytest.mark.parametrize("family", [MatrixScaling, Dirichlet])
def test_a_strong_penalty_leaves_only_the_diagonal(family, sample):
    z, y = sample(500, 3, scale=2.0)
    fit = family(off_diagonal=1e6, intercept=1e6).fit(z, y)
    assert np.abs(fit.matrix_ - np.diag(np.diag(fit.matrix_))).max() < 1e-4
    assert np.abs(fit.bias_).max() < 1e-4


@pytest.mark.parametrize("scale", [0.01, 100.0])
@pytest.mark.parametrize(
    "method", [VectorScaling(), MatrixScaling(1.0, 1.0)], ids=["vector", "matrix"]
)
def test_the_unit_of_the_logits_does_not_matter(scale, method, sample):
    z, y = sample(200, 3)
    expected = method.fit(z, y).transform(z)
    np.testing.assert_allclose(method.fit(scale * z, y).transform(scale * z), expected, atol=1e-6)
