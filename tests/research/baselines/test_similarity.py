"""SimilarityCalibrator: prototypes on another graph, absent classes, isolated nodes."""

import numpy as np
import pytest

from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.baselines import SimilarityCalibrator
from graphtemper_research.baselines.similarity import neighbourhood, prototypes

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def test_prototypes_are_applied_to_another_graph(scene):
    hidden = scene.graph.features
    sim = SimilarityCalibrator(lambda graph: graph.features, epochs=20).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    means = [
        np.asarray(hidden)[scene.train][scene.labels[scene.train] == k].mean(0) for k in range(3)
    ]
    np.testing.assert_allclose(sim.prototypes_, means, atol=1e-5)
    near = sim.temperatures(scene.other_logits, graph=scene.other)
    sim.represent = lambda graph: 10.0 * graph.features
    far = sim.temperatures(scene.other_logits, graph=scene.other)
    assert np.abs(near - far).max() > 1e-3
    sim.represent = None
    with pytest.raises(InputError):  # the logits have other columns
        sim.transform(scene.other_logits, graph=scene.other)


def test_similarity_without_a_class_among_the_training_nodes():
    means, whitening = prototypes(np.eye(3), np.array([0, 0, 2]), 3)
    np.testing.assert_allclose(means[1], 1 / 3)
    assert np.isfinite(whitening).all()


def test_relative_degree_of_isolated_nodes_is_one():
    g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    equal, relative = neighbourhood(np.eye(3), g)
    assert equal[2] == relative[2] == relative[0] == 1.0
