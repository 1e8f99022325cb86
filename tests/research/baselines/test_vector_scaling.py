"""Vector scaling: derivatives, optimum, and recovery of known scales."""

import numpy as np

from graphtemper import temperature
from graphtemper_research.baselines import VectorScaling
from graphtemper_research.baselines.vector_scaling import vector_loss


def test_the_gradient_is_that_of_finite_differences(sample, finite_differences):
    z, y = sample(60, 4)
    at = np.random.default_rng(1).normal(size=8)

    def loss(parameters):
        return vector_loss(z, y, parameters, 0.2)

    np.testing.assert_allclose(loss(at)[1], finite_differences(loss, at), atol=1e-7)


def test_the_gradient_vanishes_at_the_fit(sample):
    z, y = sample(400, 4, scale=2.0)
    unit = temperature.fit(z, y)
    vector = VectorScaling(penalty=0.01).fit(z, y)
    optimum = np.concatenate([vector.scale_ * unit, vector.shift_])
    assert np.abs(vector_loss(z / unit, y, optimum, 0.01)[1]).max() < 1e-6


def test_vector_scaling_recovers_the_scale_and_shift_of_each_class(sample):
    z, y = sample(50_000, 3)
    scale, shift = np.array([2.0, 0.5, 1.0]), np.array([0.5, 0.0, -0.5])
    vector = VectorScaling(penalty=0.0).fit((z - shift) / scale, y)
    np.testing.assert_allclose(vector.scale_, scale, rtol=0.05)
    np.testing.assert_allclose(vector.shift_ - vector.shift_.mean(), shift, atol=0.05)
    without = VectorScaling(bias=False).fit(z / scale, y)
    assert (without.shift_ == 0).all()
    np.testing.assert_allclose(without.scale_, scale, rtol=0.05)
