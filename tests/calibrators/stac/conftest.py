"""A graph, a model and a shifted target for the tests of STAC."""

import pytest

from graphtemper import csbm, shifts, stac
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        1500, degree=8, homophily=0.75, snr=0.6, num_classes=3, num_features=8, seed=2
    )


@pytest.fixture(scope="module")
def model(graph):
    return SIGN().fit(graph, range(500))


@pytest.fixture(scope="module")
def threshold(graph, model):
    return stac.threshold(model, graph, range(500, 1000))


@pytest.fixture(scope="module")
def target(graph):
    return shifts.heterogeneous(1.5)(graph, 7)


@pytest.fixture(scope="module")
def observation(model, target):
    return Observation(model, target, range(1000, 1500))
