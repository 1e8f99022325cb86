"""GATS: zero weights, its formula written out, permuted classes, training nodes."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper.calibrators import GATS
from graphtemper.calibrators.gats import confidence_gap, unit_sorted
from graphtemper.graph.graph import Graph

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


def test_gats_with_zero_weights_is_one_plus_log_two(scene, with_weights):
    def change(parameters):
        parameters[0][...], parameters[1][...] = 0.0, 0.0
        parameters[3][...] = 1.0

    temperatures = with_weights(GATS(), change)
    np.testing.assert_allclose(temperatures, 1 + np.log(2.0), rtol=1e-6)


def test_gats_is_its_formula_written_out(scene, with_weights):
    """Node by node in float64, from the fitted parameters."""
    rng = np.random.default_rng(0)

    def change(parameters):
        for array in parameters[:3]:
            array[...] = rng.uniform(0.2, 1.0, size=array.shape)

    gats = GATS(heads=3)
    temperatures = with_weights(gats, change)
    theta, omega, gamma, bias = (array.astype(np.float64) for array in gats.parameters_)
    z, graph = scene.logits.astype(np.float64), scene.graph
    c = temperature.apply(z).max(axis=1)
    neighbours = [{i} for i in range(graph.num_nodes)]
    for i, j in graph.edges:
        neighbours[i].add(int(j))
        neighbours[j].add(int(i))
    inside = set(scene.train.tolist())
    factor = np.array(
        [
            gamma[0] if i in inside else gamma[1] if near & inside else 1.0
            for i, near in enumerate(neighbours)
        ]
    )
    tau = unit_sorted(z) @ theta
    for i in range(0, graph.num_nodes, 37):
        near = sorted(neighbours[i])
        score = (z[near] @ z[i]) / (factor[near] * factor[i])
        score = np.where(score > 0, score, 0.2 * score)
        share = np.exp(score - score.max())
        share /= share.sum()
        drive = omega * (c[i] - c[near]).mean() + (share * factor[near]) @ tau[near]
        expected = np.log1p(np.exp(drive)).mean() + bias
        assert temperatures[i] == pytest.approx(expected.item(), rel=1e-4)


def test_gats_does_not_depend_on_the_order_of_the_classes(scene):
    gats = GATS(epochs=5).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    plain = gats.temperatures(scene.other_logits, graph=scene.other)
    permuted = gats.temperatures(scene.other_logits[:, [2, 0, 1]], graph=scene.other)
    np.testing.assert_allclose(permuted, plain, rtol=1e-5)


def test_gats_depends_on_the_training_nodes(scene):
    gats = GATS(epochs=30).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    with_train = gats.temperatures(scene.logits, graph=scene.graph, train_nodes=scene.train)
    without = gats.temperatures(scene.logits, graph=scene.graph)
    assert np.abs(with_train - without).max() > 1e-4
    equal = np.zeros((scene.graph.num_nodes, 3))
    assert np.isfinite(gats.transform(equal, graph=scene.graph)).all()


def test_confidence_gap_is_the_mean_difference():
    g = Graph(features=[[0.0]] * 4, edges=[[0, 1], [0, 2]])
    z = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.0], [5.0, 0.0]])
    c = temperature.apply(z).max(axis=1)
    gap = confidence_gap(z, g)
    assert gap[0] == pytest.approx(((c[0] - c[1]) + (c[0] - c[2])) / 3)
    assert gap[3] == 0.0
