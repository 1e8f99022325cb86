"""STAC as printed, step by step."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, signals, stac, temperature
from graphtemper.calibrators import STAC
from graphtemper.signals.observation import Observation
from graphtemper.temperature.scaling import nearest_temperature


def test_the_threshold_reproduces_the_source_accuracy(graph, model, threshold):
    p = temperature.apply(model(graph)[500:1000])
    accuracy = (p.argmax(axis=1) == graph.labels[500:1000]).mean()
    assert (p.max(axis=1) >= threshold).mean() == pytest.approx(accuracy)
    assert threshold == pytest.approx(np.quantile(p.max(axis=1), 1 - accuracy))


@pytest.mark.parametrize("perturbation", ["feature", "edge", "both"])
def test_algorithm_1_step_by_step(model, target, threshold, perturbation):
    nodes = np.arange(1000, 1500)
    result = stac.stac(
        model, target, threshold, perturbation=perturbation, passes=6, seed=3, nodes=nodes
    )
    z = model(target)[nodes]
    assert result.atc == (temperature.apply(z).max(axis=1) >= threshold).mean()
    votes = Observation(model, target, nodes, seed=3).votes(perturbation, 6, level=0.15, share=0.3)
    assert result.gde == 1 - signals.pairwise_disagreement(votes)
    assert result.accuracy == min(result.atc, result.gde)
    assert temperature.mean_confidence(z, result.temperature) == pytest.approx(result.accuracy)
    np.testing.assert_allclose(result.probabilities, temperature.apply(z, result.temperature))
    assert (result.probabilities.argmax(axis=1) == z.argmax(axis=1)).all()
    assert result.reason == ""


def test_labels_do_not_matter_bit_for_bit(model, target, threshold):
    masks = np.ones((1, target.num_nodes), bool)
    swapped = target.replace(labels=(target.labels + 1) % 3, train_masks=masks)
    graphs = (target, target.replace(labels=None), swapped)
    assert len({stac.stac(model, graph, threshold, seed=1).temperature for graph in graphs}) == 1


@pytest.mark.parametrize(
    ("accuracy", "reason"), [(0.2, "upper bound"), (1 / 3, "upper bound"), (1.0, "lower bound")]
)
def test_unreachable_accuracies_give_the_nearest_defined_temperature(observation, accuracy, reason):
    nearest, message = nearest_temperature(observation.logits, accuracy)
    assert reason in message
    confidence = temperature.mean_confidence(observation.logits, nearest)
    assert confidence == pytest.approx(max(accuracy, 1 / 3), abs=1e-3)
    assert np.isfinite(temperature.apply(observation.logits, nearest)).all()


def test_degenerate_predictors_still_get_an_answer(target, threshold):
    constant = stac.stac(lambda g: np.zeros((g.num_nodes, 3)), target, threshold)
    assert constant.temperature == 1.0
    assert "equal" in constant.reason
    np.testing.assert_allclose(constant.probabilities, 1 / 3)
    sure = stac.stac(lambda g: np.tile([9.0, 0, 0], (g.num_nodes, 1)), target, threshold)
    assert sure.accuracy == 1.0
    assert "lower bound" in sure.reason
    lonely = Graph(features=np.ones((1, 8)), edges=np.empty((0, 2), int))
    single = stac.stac(lambda g: np.array([[1.0, 2.0, 0.5]]), lonely, threshold)
    assert np.isfinite(single.probabilities).all()


def test_threshold_needs_labels_and_stac_needs_a_model(graph, model, threshold):
    with raises("no-labels"):
        stac.threshold(model, graph.replace(labels=None))
    with raises("missing"):
        stac.stac(model(graph), graph, threshold)


def test_near_ties_do_not_move_the_bounds():
    gaps = np.where(np.arange(200) % 2, 1e-16, 6.0)
    logits = np.column_stack([np.zeros(200), gaps])
    upper, reason = nearest_temperature(logits, 0.5)
    assert "upper bound" in reason
    assert temperature.apply(logits, upper).max() < 0.5 + 1e-5


def test_the_calibrator_agrees_with_the_function_and_checks_the_logits(scene):
    calibrator = STAC(scene.predictor, seed=3)
    calibrator.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    tau = stac.threshold(scene.predictor, scene.graph, scene.cal)
    assert calibrator.threshold_ == tau
    result = stac.stac(scene.predictor, scene.other, tau, seed=3)
    p = calibrator.transform(scene.other_logits, graph=scene.other)
    np.testing.assert_allclose(p, result.probabilities)
    with raises("other-model"):
        calibrator.transform(scene.other_logits + np.array([0.0, 1.0, 0.0]), graph=scene.other)
