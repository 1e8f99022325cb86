"""Logits are raw and temperatures absolute: a result applied to its own logits is itself."""

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS, block_model

from graphtemper import LabelSession, SourceCard, recalibrate, shifts, temperature


@pytest.fixture(scope="module")
def hot(model):
    """A model that is far too confident, so that its source temperature is far from one."""
    return lambda graph: 3.0 * np.asarray(model(graph))


@pytest.fixture(scope="module")
def hot_card(hot, source):
    return SourceCard.build(hot, source, range(300, 600), compositions=0, shifts=FEW_SHIFTS)


@pytest.fixture(scope="module")
def target():
    return shifts.heterogeneous(2.0)(block_model(2), 5)


@pytest.fixture(scope="module")
def labels(target):
    return {node: int(target.labels[node]) for node in range(0, 600, 9)}


KINDS = {
    "plain": {},
    "some nodes": {"nodes": range(50, 350)},
    "labels": {"labels": True},
    "earlier": {"earlier": True},
    "proxies and labels": {"proxies": True, "labels": True},
    "per node": {"per_node": True},
    "per node and labels": {"per_node": True, "labels": True},
    "class shares": {"class_shares": "estimate"},
}


def _options(kind, target, labels):
    values = {"labels": labels, "earlier": np.roll(target.labels, 3)}
    values["proxies"] = {"tree": np.roll(target.labels, 5)}
    return {key: values.get(key, value) for key, value in KINDS[kind].items()}


def _agrees(result, model, graph):
    """A result has the model's logits, and applying it to them gives its probabilities."""
    np.testing.assert_array_equal(result.logits, np.asarray(model(graph), float)[result.nodes])
    np.testing.assert_allclose(result.apply(result.logits), result.probabilities, atol=1e-12)
    card = result.reading.card
    assert result.slope == pytest.approx(card.temperature / result.temperature)
    # Before recalibration the model claims its confidence at the source temperature.
    claimed = temperature.apply(result.logits, card.temperature).max(axis=1).mean()
    assert result.mean_confidence[0] == pytest.approx(claimed, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_applied_to_its_own_logits_is_itself(kind, hot, hot_card, target, labels):
    assert hot_card.temperature > 1.5
    result = recalibrate(hot, target, hot_card, **_options(kind, target, labels))
    _agrees(result, hot, target)


def test_so_it_is_from_logits_alone(hot, hot_card, target):
    _agrees(recalibrate(hot(target), target, hot_card), hot, target)
    _agrees(recalibrate(hot, target, hot_card, logits=hot(target)), hot, target)


def test_so_it_is_with_learned_environments(hot, hot_card, target, labels):
    old = np.roll(target.labels, 3)
    wiser = hot_card.learn(hot, shifts.noise(0.3)(block_model(3), 1), when=1, earlier=old)
    _agrees(recalibrate(hot, target, wiser), hot, target)
    _agrees(recalibrate(hot, target, wiser, earlier=old, labels=labels), hot, target)


def test_so_it_is_of_an_abstention(hot, hot_card, target):
    strange = shifts.scale(1e4)(target, 1)
    for per_node in (False, True):
        result = recalibrate(hot, strange, hot_card, per_node=per_node)
        assert result.verdict == "abstain"
        assert result.temperature == hot_card.temperature
        _agrees(result, hot, strange)


def test_so_it_is_of_a_session(hot, hot_card, target):
    session = LabelSession(recalibrate(hot, target, hot_card), goal=0.05)
    session.add({int(node): int(target.labels[node]) for node in session.next(60)})
    _agrees(session.result, hot, target)


def test_a_unit_of_the_logits_changes_no_answer(hot, model, source, hot_card, target, labels):
    """A model whose logits are three times as large has three times the temperature."""
    cool = lambda graph: model(graph)  # noqa: E731
    card = SourceCard.build(cool, source, range(300, 600), compositions=0, shifts=FEW_SHIFTS)
    assert hot_card.temperature == pytest.approx(3.0 * card.temperature)
    for given in ({}, {"labels": labels}, {"per_node": True}):
        one = recalibrate(cool, target, card, **given)
        three = recalibrate(hot, target, hot_card, **given)
        assert three.temperature == pytest.approx(3.0 * one.temperature, rel=1e-4)
        assert three.accuracy.value == pytest.approx(one.accuracy.value, abs=1e-4)
        np.testing.assert_allclose(three.probabilities, one.probabilities, atol=1e-4)
