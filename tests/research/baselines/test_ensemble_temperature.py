"""Ensemble temperature scaling: its special case and its weights."""

import numpy as np
import pytest

from graphtemper.calibrators import TemperatureScaling
from graphtemper_research.baselines.ensemble_temperature import (
    EnsembleTemperature,
    components,
    mixture_weights,
)


def test_ensemble_with_all_weight_on_the_first_is_temperature_scaling(sample):
    z, y = sample(300, 3, scale=2.0)
    ets = EnsembleTemperature().fit(z, y)
    ets.weights_ = np.array([1.0, 0.0, 0.0])
    expected = TemperatureScaling().fit(z, y).transform(z)
    np.testing.assert_allclose(ets.transform(z), expected, atol=1e-12)


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_ensemble_weights_are_optimal_on_the_simplex(loss, sample):
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


def test_the_brier_loss_is_minimised_for_float32_logits_too(sample):
    z, y = sample(500, 3, scale=4.0)
    ets = EnsembleTemperature("brier").fit(z.astype(np.float32), y)
    assert ets.temperature_ == pytest.approx(4.0, rel=0.3)
