"""Answers of a card that has learned from labelled environments."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper import recalibrate, shifts, temperature
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import to_share
from graphtemper.card.reading import read
from graphtemper.errors import GraphTemperWarning
from graphtemper.recalibration.answer import accuracy_to_match
from graphtemper.recalibration.labels.few_labels import EVEN
from graphtemper.signals.observation import Observation


def elsewhere(seed, wrong=0.3):
    """Return a graph where a share of the labels means something else, which nothing shows."""
    graph = block_model(seed)
    rng = np.random.default_rng(seed)
    labels = graph.labels.copy()
    flipped = rng.random(labels.size) < wrong
    labels[flipped] = (labels[flipped] + 1) % graph.num_classes
    return graph.replace(labels=labels, name=f"place {seed}")


@pytest.fixture(scope="module")
def learned(card, model):
    cards = [card]
    for seed in range(11, 20):
        cards.append(cards[-1].learn(model, elsewhere(seed)))
    return cards


def codes(result):
    return {str(reason.code) for reason in result.reasons}


def error(result, graph):
    return abs(result.accuracy.value - (result.predictions == graph.labels).mean())


def covered(result, graph):
    accuracy = (result.predictions == graph.labels).mean()
    return bool(result.accuracy.low <= accuracy <= result.accuracy.high)


def test_environments_show_a_shift_that_no_signal_shows(learned, model):
    target, others = elsewhere(30), [elsewhere(seed) for seed in range(31, 40)]
    alone, one, all_ = (recalibrate(model, target, learned[count]) for count in (0, 1, 9))
    assert error(alone, target) > 0.15
    assert error(one, target) < 0.6 * error(alone, target)
    assert error(all_, target) < 0.05
    # Intervals from nine environments cover 90 % on average over environments; with these nine,
    # exact numbers covered 16 of 20 targets.
    found = [covered(recalibrate(model, graph, learned[9]), graph) for graph in others]
    assert sum(found) >= 6
    assert all_.accuracy.method == "environments"
    assert all_.temperature > alone.temperature


def test_the_answer_says_what_its_interval_rests_on(card, learned, model):
    target = elsewhere(30)
    assert not {code for code in codes(recalibrate(model, target, card)) if "environment" in code}
    assert "environments_few" in codes(recalibrate(model, target, learned[1]))
    assert "environments_exchangeable" in codes(recalibrate(model, target, learned[9]))
    ordered = card.learn(model, elsewhere(11), when=1).learn(model, elsewhere(12), when=2)
    assert "environments_ordered" in codes(recalibrate(model, target, ordered))
    single = recalibrate(model, target, card.learn(model, elsewhere(11), when=1))
    said = [reason.text for reason in single.reasons if reason.code == "environments_ordered"]
    assert len(said) == 1
    assert "recent ones" not in said[0]
    # Undated ones count as the oldest, so one date makes an order.
    dated = learned[9].learn(model, elsewhere(20), when=1)
    assert "environments_ordered" in codes(recalibrate(model, target, dated))


def test_good_months_do_not_hide_a_fall_that_the_atlas_sees(card, model):
    """Noise moves no feature means, so the answer stays near that of the atlas."""
    calm = card
    for seed in range(11, 14):
        calm = calm.learn(model, block_model(seed), name=f"month {seed}")
    errors = {"atlas": [], "learned": [], "confidence": []}
    for seed in range(30, 34):
        target = shifts.noise(1.5)(block_model(seed), seed=seed)
        found = {
            "atlas": recalibrate(model, target, card),
            "learned": recalibrate(model, target, calm),
        }
        right = (found["atlas"].predictions == target.labels).mean()
        for name, result in found.items():
            errors[name].append(abs(result.accuracy.value - right))
        probabilities = temperature.apply(model(target), card.temperature)
        errors["confidence"].append(abs(probabilities.max(axis=1).mean() - right))
    size = {name: np.mean(values) for name, values in errors.items()}
    assert size["confidence"] > 0.1
    assert size["learned"] < 0.5 * size["confidence"]


def test_the_error_of_a_sample_widens_answers_from_environments(learned, model):
    reading = read(learned[3], Observation(model, elsewhere(30)))
    assert replace(reading, sampled=1.0).estimate.deviation > reading.estimate.deviation + 0.1


def test_wrong_labels_in_one_environment_widen_the_answer(learned, model):
    target = elsewhere(30)
    poison = block_model(40)
    poison = poison.replace(labels=(poison.labels + 1) % poison.num_classes, name="poison")
    clean = recalibrate(model, target, learned[6])
    with pytest.warns(GraphTemperWarning, match="if classes had other numbers"):
        poisoned = learned[6].learn(model, poison)
    result = recalibrate(model, target, poisoned)
    assert "environment_deviates" in codes(result)
    assert any("'poison'" in str(reason) for reason in result.reasons)
    assert abs(result.accuracy.value - clean.accuracy.value) < 0.05
    before, after = (item.accuracy.high - item.accuracy.low for item in (clean, result))
    assert after > before


def test_the_answer_does_not_depend_on_the_target_s_labels(learned, model):
    target = elsewhere(30)
    for card in (learned[1], learned[9]):
        one = recalibrate(model, target, card)
        other = recalibrate(model, target.replace(labels=None), card)
        assert one.to_dict() == other.to_dict()
        assert one.probabilities.tobytes() == other.probabilities.tobytes()


def test_logits_alone_use_the_environments_too(learned, model):
    target = elsewhere(30)
    result = recalibrate(model(target), target, learned[9])
    assert error(result, target) < 0.06


def test_environments_are_worth_labels(card, learned, model):
    target = elsewhere(30)
    labels = {node: int(target.labels[node]) for node in range(20)}
    alone, both = (recalibrate(model, target, one, labels=labels) for one in (card, learned[6]))
    truth = float((model(target).argmax(axis=1) == target.labels).mean())
    assert abs(both.accuracy.value - truth) < 0.5 * abs(alone.accuracy.value - truth)


@pytest.mark.parametrize(("centre", "deviation"), [(0.5, 0.2), (1.0, 1.0), (2.5, 0.6)])
def test_the_accuracy_to_match_has_the_least_expected_loss(centre, deviation):
    prior, confidence = Estimate.of_log_odds(centre, deviation, "atlas"), 0.85
    rng = np.random.default_rng(0)
    scale = deviation * 1.6448536 / 2.1318468
    truth = 1.0 / (1.0 + np.exp(-(centre + scale * rng.standard_t(4, 40_000))))

    def loss(value):
        harm = np.abs(value - truth) > np.abs(confidence - truth) + 0.02
        return np.abs(value - truth).mean() + 0.05 * harm.mean()

    chosen = accuracy_to_match(prior.quantiles(EVEN), confidence)
    low, high = sorted((to_share(centre), confidence))
    assert loss(chosen) <= min(loss(value) for value in np.linspace(low, high, 30)) + 0.004


def test_many_labels_match_their_accuracy(card, model):
    target = elsewhere(30)
    labels = {node: int(target.labels[node]) for node in range(target.num_nodes - 5)}
    matched = recalibrate(model, target, card, labels=labels)
    assert matched.mean_confidence[1] == pytest.approx(matched.accuracy.value, abs=0.01)
