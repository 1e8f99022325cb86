"""STAC as a calibrator agrees with `graphtemper.stac`."""

import numpy as np
import pytest

from graphtemper import stac
from graphtemper.calibrators import STAC
from graphtemper.errors import InputError


def test_the_calibrator_agrees_with_the_function_and_checks_the_logits(scene):
    calibrator = STAC(scene.predictor, seed=3)
    calibrator.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    tau = stac.threshold(scene.predictor, scene.graph, scene.cal)
    assert calibrator.threshold_ == tau
    result = stac.stac(scene.predictor, scene.other, tau, seed=3)
    p = calibrator.transform(scene.other_logits, graph=scene.other)
    np.testing.assert_allclose(p, result.probabilities)
    with pytest.raises(InputError, match="not those of the predictor"):
        calibrator.transform(scene.other_logits + np.array([0.0, 1.0, 0.0]), graph=scene.other)
