"""STAC as the paper's tables and figures used it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from graphtemper import csbm, signals, temperature
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines import stac_per_node, stac_variants


def test_as_published_is_disagreement_alone(model, target):
    result = stac_variants.as_published(model, target, seed=4)
    votes = Observation(model, target, seed=4).votes("feature", 6, level=0.3)
    assert result.accuracy == result.gde == 1 - signals.pairwise_disagreement(votes)
    assert result.atc is None


def test_doubled_binary_logits_double_the_temperature_and_nothing_else():
    g = csbm.sample(800, degree=8, homophily=0.75, snr=0.6, num_features=4, seed=2)
    model = SIGN().fit(g, range(400))

    def doubled(graph):
        score = model(graph)[:, 1]
        return np.column_stack([-score, score])

    right = stac_variants.as_published(lambda graph: model(graph), g)
    wrong = stac_variants.as_published(doubled, g)
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
                stac_variants.as_published(model, graph, seed=1).temperature,
                stac_variants.binned_proxy(observation, threshold).temperature,
                stac_per_node.node_temperatures(observation, threshold).temperature.tobytes(),
            )
        )
    assert results[0] == results[1] == results[2]


def test_binned_proxy_is_the_minimum_of_its_loss(observation, threshold):
    result = stac_variants.binned_proxy(observation, threshold)
    proxy = stac_variants.node_proxy(observation, result.accuracy)
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
