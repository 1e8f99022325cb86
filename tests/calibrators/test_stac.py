"""STAC as printed and as published, step by step."""

import numpy as np
import pytest
from scipy.optimize import minimize

from graphtemper import Graph, csbm, signals, stac, temperature
from graphtemper.calibrators.stac import per_node as stac_per_node
from graphtemper.errors import InputError
from graphtemper.models import SIGN
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


def test_as_published_is_disagreement_alone(model, target):
    result = stac.as_published(model, target, seed=4)
    votes = Observation(model, target, seed=4).votes("feature", 6, level=0.3)
    assert result.accuracy == result.gde == 1 - signals.pairwise_disagreement(votes)
    assert result.atc is None


def test_doubled_binary_logits_double_the_temperature_and_nothing_else():
    g = csbm.sample(800, degree=8, homophily=0.75, snr=0.6, num_features=4, seed=2)
    model = SIGN().fit(g, range(400))

    def doubled(graph):
        score = model(graph)[:, 1]
        return np.column_stack([-score, score])

    right = stac.as_published(lambda graph: model(graph), g)
    wrong = stac.as_published(doubled, g)
    assert wrong.temperature == pytest.approx(2 * right.temperature)
    np.testing.assert_allclose(wrong.probabilities, right.probabilities, atol=1e-9)


def test_labels_do_not_matter_bit_for_bit(model, target, threshold):
    masks = np.ones((1, target.num_nodes), bool)
    swapped = target.replace(labels=(target.labels + 1) % 3, train_masks=masks)
    results = []
    for graph in (target, target.replace(labels=None), swapped):
        observation = Observation(model, graph, seed=1)
        results.append(
            (
                stac.stac(model, graph, threshold, seed=1).temperature,
                stac.as_published(model, graph, seed=1).temperature,
                stac.binned_proxy(observation, threshold).temperature,
                stac_per_node.node_temperatures(observation, threshold).temperature.tobytes(),
            )
        )
    assert results[0] == results[1] == results[2]


def test_binned_proxy_is_the_minimum_of_its_loss(observation, threshold):
    result = stac.binned_proxy(observation, threshold)
    proxy = stac.node_proxy(observation, result.accuracy)
    assert proxy.mean() == pytest.approx(result.accuracy)

    def loss(log_temperature):
        confidence = temperature.apply(observation.logits, np.exp(float(log_temperature))).max(
            axis=1
        )
        bins = np.minimum((confidence * 15).astype(int), 14)
        gaps = [
            (bins == b).mean() * (confidence[bins == b].mean() - proxy[bins == b].mean()) ** 2
            for b in np.unique(bins)
        ]
        return sum(gaps) + 2 * (confidence.mean() - result.accuracy) ** 2

    best = loss(np.log(result.temperature))
    assert best <= min(loss(point) for point in np.linspace(-4, 4, 1500)) * 1.01
    simplex = [
        minimize(lambda v: loss(v[0]), [x], method="Nelder-Mead").fun for x in (-1.0, 0.0, 0.5, 1.5)
    ]
    assert best <= min(simplex) * 1.01


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
    with pytest.raises(InputError, match="labels"):
        stac.threshold(model, graph.replace(labels=None))
    with pytest.raises(InputError, match="predictor"):
        stac.stac(model(graph), graph, threshold)


def test_near_ties_do_not_move_the_bounds():
    from graphtemper import temperature

    gaps = np.where(np.arange(200) % 2, 1e-16, 6.0)
    logits = np.column_stack([np.zeros(200), gaps])
    upper, reason = nearest_temperature(logits, 0.5)
    assert "upper bound" in reason
    assert temperature.apply(logits, upper).max() < 0.5 + 1e-5
