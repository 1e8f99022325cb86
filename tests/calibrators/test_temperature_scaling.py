"""Temperature scaling: known scales, scikit-learn, and the stacking of binary scores."""

import numpy as np
import pytest

from graphtemper.calibrators import TemperatureScaling


def test_temperature_scaling_recovers_the_scale(sample):
    z, y = sample(60_000, 5, scale=3.0)
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(3.0, rel=0.01)


def test_temperature_scaling_agrees_with_scikit_learn(sample):
    private = pytest.importorskip("sklearn.calibration")
    if not hasattr(private, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    z, y = sample(1500, 5, scale=3.0)
    theirs = private._TemperatureScaling().fit(z, y).beta_
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(1.0 / theirs, rel=1e-4)


def test_stacking_of_binary_scores(sample):
    z, y = sample(800, 2)
    g = z[:, 1] - z[:, 0]
    first, half, double = (
        TemperatureScaling().fit(np.column_stack([low, high]), y).temperature_
        for low, high in ((0 * g, g), (-g / 2, g / 2), (-g, g))
    )
    assert half == pytest.approx(first, rel=1e-9)
    assert double == pytest.approx(2 * first, rel=1e-9)
