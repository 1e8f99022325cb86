"""Dirichlet calibration: its special case, and the choice of the penalty."""

import numpy as np

from graphtemper import temperature
from graphtemper_research.baselines import Dirichlet, MatrixScaling


def test_dirichlet_with_a_scaled_identity_is_temperature_scaling(sample):
    z, y = sample(100, 4)
    dirichlet = Dirichlet(off_diagonal=1.0, intercept=1.0).fit(z, y)
    dirichlet.matrix_, dirichlet.bias_ = np.eye(4) / 1.7, np.zeros(4)
    np.testing.assert_allclose(dirichlet.transform(z), temperature.apply(z, 1.7), atol=1e-12)


def test_cross_validation_chooses_a_strong_penalty_where_one_temperature_suffices(sample):
    z, y = sample(150, 5, scale=2.0)
    chosen = Dirichlet().fit(z, y)
    assert chosen.strengths_[0] == chosen.strengths_[1] >= 1.0
    rng = np.random.default_rng(0)
    z2, y2 = sample(2000, 5)
    mixed = z2 @ np.linalg.inv(np.eye(5) + 0.4 * rng.normal(size=(5, 5)))
    assert MatrixScaling().fit(mixed, y2).strengths_[0] <= 0.1
