"""STAC's per-node stage: signals, loss, gradient and temperatures."""

import numpy as np
import pytest
from scipy.optimize import minimize

from graphtemper import stac, temperature
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines import stac_per_node, stac_variants


def per_node_loss(observation, threshold, names=stac_per_node.SIGNALS):
    start = stac.from_observation(observation, threshold)
    columns = stac_per_node.node_signals(observation)
    return stac_per_node.PerNodeLoss(
        observation.logits,
        np.column_stack([columns[name] for name in names]),
        stac_variants.node_proxy(observation, start.accuracy),
        start.accuracy,
        start.temperature,
    )


def test_signals_are_standardised(observation):
    columns = stac_per_node.node_signals(observation)
    assert tuple(columns) == stac_per_node.SIGNALS
    for values in columns.values():
        assert values.mean() == pytest.approx(0, abs=1e-9)
        assert values.std() == pytest.approx(1)


def test_agreement_supports_the_prediction_where_neighbours_differ():
    path = np.array([[0, 1], [1, 2]])
    assert stac_per_node.corrected_agreement([0, 1, 0], path).tolist() == [1.0, 1.0, 1.0]
    assert stac_per_node.corrected_agreement([0, 0, 0], path).tolist() == [1.0, 1.0, 1.0]
    assert stac_per_node.corrected_agreement([0, 1], path[:0]).tolist() == [0.5, 0.5]


def test_the_gradient_is_that_of_finite_differences(observation, threshold):
    loss = per_node_loss(observation, threshold)
    rng = np.random.default_rng(0)
    for point in rng.normal(0, 0.5, (5, 7)):
        gradient = loss(point)[1]
        numeric = [
            (loss(point + step)[0] - loss(point - step)[0]) / 2e-6 for step in 1e-6 * np.eye(7)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)


def test_the_soft_bins_are_a_partition_and_approach_the_hard_ones():
    # Nodes at the centres of bins spill an eighth to each side; constant gaps do not notice.
    confidence = np.random.default_rng(0).random(5000)
    soft = stac_per_node.soft_binned_loss(confidence, confidence - 0.05, 0.5)[0]
    hard = stac_variants.binned_loss(confidence, confidence - 0.05, 0.5)
    assert soft == pytest.approx(hard, rel=1e-9)
    assert stac_per_node.soft_binned_loss(np.array([1.0]), np.array([0.9]), 1.0)[0] == (
        pytest.approx(0.01)
    )


@pytest.mark.parametrize("names", [stac_per_node.SIGNALS, stac_per_node.LOGIT_SIGNALS])
def test_gradients_reach_at_least_as_low_as_powell(observation, threshold, names):
    loss = per_node_loss(observation, threshold, names)
    optimum, value = loss.minimum()
    assert value < loss(np.zeros(len(names) + 1))[0]
    rng = np.random.default_rng(0)
    starts = [np.zeros(len(names) + 1), *rng.normal(0, 0.5, (3, len(names) + 1))]
    powell = [minimize(lambda x: loss(x)[0], start, method="Powell") for start in starts]
    assert value <= min(end.fun for end in powell) * (1 + 1e-6)

    # On the loss with hard bins, where Powell can profit from the jumps, it stays within 10 %.
    def hard(x):
        confidence = temperature.apply(loss.logits, loss.temperatures(x)).max(axis=1)
        ridge = stac_per_node.RIDGE * x[:-1] @ x[:-1]
        return stac_variants.binned_loss(confidence, loss.proxy, loss.accuracy) + ridge

    powell = [minimize(hard, start, method="Powell") for start in starts]
    assert hard(optimum) <= min(end.fun for end in powell) * 1.10


def test_per_node_temperatures_are_the_formula(observation, threshold):
    result = stac_per_node.node_temperatures(observation, threshold)
    columns = np.column_stack(list(stac_per_node.node_signals(observation).values()))
    expected = result.global_stage.temperature * np.exp(
        0.5 * np.tanh(columns @ result.weights + result.bias)
    )
    np.testing.assert_allclose(result.temperature, expected)
    np.testing.assert_allclose(
        result.probabilities, temperature.apply(observation.logits, expected)
    )
    assert (
        result.global_stage.temperature == stac.from_observation(observation, threshold).temperature
    )
    ablation = stac_per_node.node_temperatures(observation, threshold, signals="logits")
    assert ablation.signals == ("entropy", "margin")
    assert ablation.weights.shape == (2,)
    assert ablation.loss >= result.loss


def test_constant_signals_are_zero(model, threshold, graph):
    alone = graph.replace(edges=np.empty((0, 2), int))
    columns = stac_per_node.node_signals(Observation(model, alone))
    assert not columns["log degree"].any()
    assert not columns["corrected agreement"].any()
    assert not columns["edge instability"].any()
    result = stac_per_node.node_temperatures(Observation(model, alone), threshold)
    assert np.isfinite(result.temperature).all()
