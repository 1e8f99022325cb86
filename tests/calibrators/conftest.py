"""Samples, finite differences and edited networks for the tests of single calibrators."""

import numpy as np
import pytest


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
