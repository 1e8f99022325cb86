"""The accuracy from the shape of the logits."""

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper.errors import NotIdentifiableError
from graphtemper.models import SGC, SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines import MixtureSlope


def test_it_keeps_the_protocol_of_estimators():
    g = csbm.sample(3000, degree=12, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1)
    source = Observation(SIGN().fit(g, range(1000)), g, range(1000, 3000), temperature=1.1)
    estimator = MixtureSlope().fit(source, g.labels[source.nodes])
    assert estimator.carries == {}
    result = estimator.estimate(source)
    assert 0 <= result.low < result.value < result.high <= 1
    assert result == estimator.estimate(source)


def test_mixture_slope_finds_the_accuracy_without_any_source():
    g = csbm.sample(6000, degree=15, homophily=0.75, snr=1.0, seed=3)
    target = Observation(SGC(1, "mean").fit(g, range(1000)), shifts.rewire(0.15)(g, 1))
    result = MixtureSlope(degrees=True).estimate(target)
    assert result.value == pytest.approx((target.predictions == g.labels).mean(), abs=0.02)
    assert result.low < result.value < result.high
    one_mode = Observation(np.random.default_rng(0).normal(size=(6000, 2)), g)
    with pytest.raises(NotIdentifiableError):
        MixtureSlope().estimate(one_mode)
