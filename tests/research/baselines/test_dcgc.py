"""DCGC: no weights is temperature scaling; the weighted mean against a plain loop."""

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import TemperatureScaling
from graphtemper_research.baselines import DCGC


def fitted(scene, **options):
    return DCGC(**options).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )


def test_edges_without_weight_leave_temperature_scaling(scene):
    model = fitted(scene, epochs=1)
    model.parameters_[3][:], model.parameters_[4][:] = 0.0, -1.0
    expected = TemperatureScaling().fit(scene.logits, scene.labels, nodes=scene.cal)
    model.temperature_ = expected.temperature_
    np.testing.assert_allclose(
        model.transform(scene.logits, graph=scene.graph),
        expected.transform(scene.logits),
        rtol=1e-4,
    )


def test_the_mean_is_that_of_a_loop_over_edges(scene):
    model = fitted(scene, epochs=3)
    own, other, bias, second, second_bias = (array.astype(float) for array in model.parameters_)
    z = scene.logits.astype(float)
    p = temperature.apply(z)
    q = np.exp(10 * p) / np.exp(10 * p).sum(axis=1, keepdims=True)
    sums, total = z.copy(), np.ones(len(z))
    for a, b in scene.graph.edges.tolist():
        for i, j in ((a, b), (b, a)):
            hidden = np.maximum(np.concatenate([z[i], z[j]]) @ np.vstack([own, other]) + bias, 0)
            decisive = max(float((hidden @ second + second_bias)[0]), 0.0)
            weight = decisive / (np.linalg.norm(q[i] - q[j]) + 0.5)
            sums[i] += weight * z[j]
            total[i] += weight
    assert total.max() > 1.0
    expected = temperature.apply(sums / total[:, None], model.temperature_)
    np.testing.assert_allclose(
        model.transform(scene.logits, graph=scene.graph), expected, atol=1e-4
    )


def test_training_nodes_are_used_where_they_are_given(scene):
    without = DCGC(epochs=5).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    pairs = zip(fitted(scene, epochs=5).parameters_, without.parameters_, strict=True)
    assert any(not np.array_equal(a, b) for a, b in pairs)
