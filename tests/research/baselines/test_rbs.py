"""Ratio-binned scaling: one bin, and bins by the neighbours' support."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper.calibrators import TemperatureScaling
from graphtemper_research.baselines import RBS
from graphtemper_research.baselines.rbs import neighbour_support


def test_rbs_with_one_bin_is_temperature_scaling(scene):
    rbs = RBS(bins=1).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    ts = TemperatureScaling().fit(scene.logits, scene.labels, nodes=scene.cal)
    expected = ts.transform(scene.other_logits)
    np.testing.assert_allclose(rbs.transform(scene.other_logits, graph=scene.other), expected)


def test_rbs_bins_by_the_neighbours_support(scene):
    rbs = RBS(bins=3).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    p = temperature.apply(scene.logits.astype(np.float64))
    index = np.minimum((neighbour_support(p, scene.graph) * 3).astype(int), 2)
    for part in range(3):
        rows = scene.cal[index[scene.cal] == part]
        solved = temperature.solve(scene.logits[rows].astype(np.float64), scene.labels[rows])
        if solved.status == "optimal":
            assert rbs.temperatures_[part] == pytest.approx(solved.temperature)
    assert np.unique(rbs.temperatures_).size > 1
