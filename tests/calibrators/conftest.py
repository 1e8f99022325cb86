"""Samples, finite differences, edited networks and a shifted target, for tests of calibrators."""

import numpy as np
import pytest

from graphtemper import csbm, shifts, stac
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="session")
def sample():
    """A function that draws logits z and labels from softmax(z), then scales the logits."""

    def draw(count, classes, scale=1.0, seed=0):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(count, classes)) * 1.5
        labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        return scale * z, labels

    return draw


@pytest.fixture(scope="session")
def finite_differences():
    """A function that returns the numerical gradient of the first output of a function."""

    def gradient(function, at, step=1e-6):
        return np.array(
            [
                (function(at + step * e)[0] - function(at - step * e)[0]) / (2 * step)
                for e in np.eye(at.size)
            ]
        )

    return gradient


@pytest.fixture
def with_weights(scene):
    """A function that fits for one epoch, edits the parameters, and returns temperatures."""

    def temperatures(calibrator, change):
        calibrator.set_params(epochs=1).fit(
            scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
        )
        change(calibrator.parameters_)
        return calibrator.temperatures(scene.logits, graph=scene.graph, train_nodes=scene.train)

    return temperatures


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
