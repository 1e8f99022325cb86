"""SimilarityCalibrator: prototypes on another graph, absent classes, isolated nodes."""

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from graphtemper import temperature
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper_research.baselines import SimilarityCalibrator
from graphtemper_research.baselines.similarity import neighbourhood, prototypes

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def test_prototypes_are_applied_to_another_graph(scene):
    hidden = scene.graph.features
    sim = SimilarityCalibrator(lambda graph: graph.features, epochs=10).fit(
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


def test_temperatures_are_the_stated_equations_written_out(scene, with_weights):
    """Node by node in float64: distances, homophily, relative degree, attention, temperature."""
    rng = np.random.default_rng(0)

    def change(parameters):
        for array in parameters:
            array[...] = rng.uniform(0.2, 1.0, size=array.shape)

    sim = SimilarityCalibrator(heads=3, epochs=1)
    temperatures = with_weights(sim, change)
    theta, omega, bias = (array.astype(np.float64) for array in sim.parameters_)
    z, graph = scene.logits.astype(np.float64), scene.graph
    near = [set() for _ in range(graph.num_nodes)]
    for i, j in graph.edges:
        near[i].add(int(j))
        near[j].add(int(i))
    labels = scene.labels[scene.train]
    means = np.stack([z[scene.train][labels == k].mean(axis=0) for k in range(3)])
    covariance = LedoitWolf(assume_centered=True).fit(z[scene.train] - means[labels]).covariance_
    inverse = np.linalg.inv(covariance)
    distance = np.sqrt([[(x - m) @ inverse @ (x - m) for m in means] for x in z])
    confidence = temperature.apply(z).max(axis=1)
    degree = np.array([len(nodes) for nodes in near])

    def column(j):
        row = np.sort((z[j] - z[j].min()) / (z[j].max() - z[j].min()))
        others = sorted(near[j])
        equal = np.mean(z[others].argmax(axis=1) == z[j].argmax()) if others else 1.0
        relative = np.mean(np.sqrt((degree[j] + 1) / (degree[others] + 1))) if others else 1.0
        return [*row, *np.sort(distance[j]) / distance.mean(), equal, relative]

    for i in range(0, graph.num_nodes, 37):
        around = sorted(near[i] | {i})
        score = z[around] @ z[i]
        score = np.where(score > 0, score, 0.2 * score)
        share = np.exp(score - score.max())
        share /= share.sum()
        drive = share @ np.array([column(j) for j in around]) @ theta
        drive += omega * (confidence[i] - confidence[around]).mean()
        expected = np.log1p(np.exp(drive)).mean() + bias
        assert temperatures[i] == pytest.approx(expected.item(), rel=1e-3)


def test_similarity_without_a_class_among_the_training_nodes():
    means, whitening = prototypes(np.eye(3), np.array([0, 0, 2]), 3)
    np.testing.assert_allclose(means[1], 1 / 3)
    assert np.isfinite(whitening).all()


def test_relative_degree_of_isolated_nodes_is_one():
    g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    equal, relative = neighbourhood(np.eye(3), g)
    assert equal[2] == relative[2] == relative[0] == 1.0
