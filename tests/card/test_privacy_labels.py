"""Differential privacy of the labels: the probabilities, and what a card of them tells."""

import secrets
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.helpers import raises

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.card import privacy as private
from graphtemper.card.privacy import (
    effective_nodes,
    keep_probability,
    private_labels,
    randomised_response,
)
from graphtemper.errors import GraphTemperWarning
from graphtemper.models import SIGN
from graphtemper.temperature import apply

FEW = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,), "homophily": (-0.3,)}


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(900, degree=6, homophily=0.7, snr=0.8, num_features=6, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(300))


NODES = np.arange(300, 900)


def _build(model, graph, **options):
    return SourceCard.build(model, graph, NODES, shifts=FEW, compositions=0, **options)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_answer_is_more_likely_than_the_budget_allows(classes, epsilon):
    """Counts of answers for each label; all ratios of their probabilities are at most e^epsilon."""
    draws = 40_000
    counts = np.array(
        [
            np.bincount(
                randomised_response(np.full(draws, label), classes, epsilon), minlength=classes
            )
            for label in range(classes)
        ]
    )
    kept = keep_probability(epsilon, classes)
    other = (1.0 - kept) / (classes - 1)
    assert kept / other == pytest.approx(np.exp(epsilon))
    for label in range(classes):
        for answer in range(classes):
            chance = kept if label == answer else other
            assert binomtest(int(counts[label, answer]), draws, chance).pvalue > 1e-5


@pytest.mark.parametrize("epsilon", [30.0, 36.8, 40.0, 50.0])
def test_large_budgets_are_not_exceeded_by_rounding(epsilon, monkeypatch):
    """Of 2^64 random words, at least 2^64 / (e^epsilon + 1) change one of two labels."""
    fewest = max(int(2.0**64 / (np.exp(epsilon) + 1.0)), 1)
    last = np.array([2**64 - fewest, 2**64 - 2 * fewest - 1], dtype="<u8")
    monkeypatch.setattr(secrets, "token_bytes", lambda size: last.tobytes() + bytes(size - 16))
    assert randomised_response(np.zeros(2, np.int64), 2, epsilon).tolist() == [1, 0]


def test_everything_is_computed_from_the_randomised_labels(model, graph, monkeypatch):
    """With the same randomness, labels that give the same answers give the same card."""
    monkeypatch.setattr(secrets, "randbits", lambda _: 7)
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(size))
    kept = _build(model, graph, privacy=0.001)
    mask = np.random.default_rng(0).random(graph.num_nodes) < 0.4
    others = graph.replace(labels=np.where(mask, 1 - graph.labels, graph.labels))
    assert _build(model, others, privacy=0.001).to_json() != kept.to_json()
    words = np.where(np.concatenate([mask, mask]), 2**64 - 1, 0).astype("<u8").tobytes()
    monkeypatch.setattr(secrets, "token_bytes", lambda _: words)
    moved = _build(model, others, privacy=0.001)  # these labels, to the other of two classes
    assert moved.to_json() == kept.to_json()


def test_a_large_budget_changes_no_label_and_a_small_one_leaves_the_models_view(graph):
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.standard_normal((4000, 3))
    chances = apply(logits + np.array([0.0, 0.5, -0.5]))  # a biased model
    labels = (rng.random((4000, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    labels[:1000] = -1
    nodes = np.arange(1000, 4000)
    np.testing.assert_array_equal(private_labels(logits, labels, nodes, 40.0), labels)
    drawn = private_labels(logits, labels, nodes, 1.0)
    assert (drawn[:1000] == -1).all()
    assert 0.1 < (drawn[nodes] != labels[nodes]).mean() < 0.6
    # Shares and accuracy are those of the labels, not of the model or of the answers.
    expected, found = (np.bincount(item[nodes]) / 3000 for item in (labels, drawn))
    np.testing.assert_allclose(found, expected, atol=0.06)
    right = [float((logits.argmax(axis=1) == item)[nodes].mean()) for item in (labels, drawn)]
    assert abs(right[0] - right[1]) < 0.06
    with raises("range"):
        private_labels(logits, np.full(4000, 3), nodes, 1.0)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_effective_number_of_nodes_is_that_of_repeated_draws(epsilon):
    """Accuracies that are read from randomised labels by their known probabilities."""
    rng = np.random.default_rng(1)
    kept = keep_probability(epsilon, 4)
    other = (1.0 - kept) / 3
    read = []
    for _ in range(2000):
        right = rng.random(300) < 0.7
        answers = randomised_response(np.where(right, 0, 1), 4, epsilon)
        read.append(((answers == 0).mean() - other) / (kept - other))
    expected = 0.7 * 0.3 / np.var(read)
    assert effective_nodes(300, 0.7, 4, epsilon) == pytest.approx(expected, rel=0.12)


def test_a_private_card_answers_and_says_so(model, graph, tmp_path):
    card = _build(model, graph, privacy=2.0)
    card.save(tmp_path / "card.json")
    loaded = SourceCard.load(tmp_path / "card.json")
    assert loaded.privacy == 2.0
    assert "epsilon 2" in loaded.summary()
    assert loaded.effective_nodes < loaded.num_nodes == NODES.size
    assert loaded.class_profile.num_nodes < 0.9 * NODES.size
    exact = _build(model, graph)
    assert exact.privacy is None
    assert exact.effective_nodes == NODES.size
    target = csbm.sample(900, degree=6, homophily=0.7, snr=0.8, num_features=6, seed=2)
    bare = target.replace(labels=None)
    # The same numbers from exact labels would be known better; an exact card has other numbers.
    private, trusted = (
        recalibrate(model, bare, item) for item in (loaded, replace(loaded, privacy=None))
    )
    widths = [item.accuracy.high - item.accuracy.low for item in (private, trusted)]
    assert widths[0] > widths[1]
    truth = float((model(bare).argmax(axis=1) == target.labels).mean())
    assert private.accuracy.low - 0.05 <= truth <= private.accuracy.high + 0.05


@pytest.mark.parametrize("value", [0, -1.0, 51, float("nan"), True, "3"])
def test_other_budgets_are_refused(model, graph, value):
    with raises("range"):
        _build(model, graph, privacy=value)


def test_labels_of_environments_are_randomised_as_well(model, graph, monkeypatch):
    with raises("conflict"):
        _build(model, graph, privacy=1.0, environments=[graph])
    card = _build(model, graph, privacy=1.0)
    seen = []

    def recorded(labels, num_classes, epsilon):
        seen.append(epsilon)
        return np.zeros_like(labels)

    monkeypatch.setattr(private, "randomised_response", recorded)
    monkeypatch.setattr(private.secrets, "randbits", lambda _: 7)
    # The source's own labels and others give the same card, because only answers are read.
    other = graph.replace(labels=1 - graph.labels)
    first = card.learn(model, graph, NODES, name="again")
    with pytest.warns(GraphTemperWarning, match="if classes had other numbers"):
        second = card.learn(model, other, NODES, name="again")
    assert first.to_json() == second.to_json()
    assert seen == [1.0, 1.0]
    assert first.environments[0].num_nodes < NODES.size
    assert "each time" in first.summary()
    assert "each time" not in card.summary()
    exact = replace(card, privacy=None)
    assert exact.learn(model, graph, NODES).environments[0].num_nodes == NODES.size
    assert seen == [1.0, 1.0]
