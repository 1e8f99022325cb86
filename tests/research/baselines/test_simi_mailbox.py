"""Simi-Mailbox: temperature scaling as a special case, groups, the gap, another graph."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper.calibrators import TemperatureScaling
from graphtemper_research.baselines import SimiMailbox
from graphtemper_research.baselines.simi_mailbox import neighbour_similarity


def test_one_group_without_the_gap_is_temperature_scaling(scene):
    one = SimiMailbox(groups=1, gap=0.0).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    expected = TemperatureScaling().fit(scene.logits, scene.labels, nodes=scene.cal)
    assert one.temperatures_ == pytest.approx([expected.temperature_], rel=1e-5)


def test_a_large_gap_matches_confidence_to_accuracy_in_every_group(scene):
    model = SimiMailbox(groups=3, gap=1e4, fewest=1).fit(
        scene.logits, scene.labels, scene.graph, scene.cal
    )
    temperatures = model.temperatures(scene.logits, graph=scene.graph)[scene.cal]
    logits, labels = scene.logits[scene.cal].astype(float), scene.labels[scene.cal]
    p = temperature.apply(logits, temperatures)
    for value in np.unique(temperatures):
        rows = temperatures == value
        accuracy = (logits[rows].argmax(axis=1) == labels[rows]).mean()
        assert p[rows].max(axis=1).mean() == pytest.approx(max(accuracy, 1 / 3), abs=0.02)


def test_similarity_is_the_mean_over_neighbours(scene):
    z = scene.logits.astype(float)
    found = neighbour_similarity(z, scene.graph)
    for node in range(0, 60, 7):
        ends = [b if a == node else a for a, b in scene.graph.edges.tolist() if node in (a, b)]
        expected = np.mean([1 / (1 + np.exp(-z[node] @ z[j])) for j in ends]) if ends else 0.5
        assert found[node] == pytest.approx(expected)


def test_groups_of_the_source_are_used_on_another_graph(scene):
    model = SimiMailbox(groups=4, fewest=10).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    assert np.unique(model.temperatures_).size > 1
    found = model.temperatures(scene.other_logits, graph=scene.other)
    p = temperature.apply(scene.other_logits.astype(float)).max(axis=1)
    similarity = neighbour_similarity(scene.other_logits.astype(float), scene.other)
    place = (np.column_stack([p, similarity]) - model.low_) / model.range_
    nearest = np.linalg.norm(place[:, None] - model.centres_, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found, model.temperatures_[nearest])


def test_small_groups_take_the_temperature_of_all(scene):
    model = SimiMailbox(groups=4, fewest=10_000)
    model.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    single = temperature.fit(scene.logits[scene.cal].astype(float), scene.labels[scene.cal])
    assert model.temperatures_ == pytest.approx(single)
