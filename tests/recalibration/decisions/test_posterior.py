"""Draws of calibrated probabilities: what they imply, and what labels make of them."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper._core.estimate import Estimate
from graphtemper.card.class_bias import ClassPrior
from graphtemper.recalibration.decisions import posterior
from graphtemper.recalibration.labels.few_labels import NO_LABELS, Labels

SIZE = 4000


def drawn(bias=0.0, slope=1.0, seed=0, classes=2):
    """Logits, and labels from softmax(slope z + bias for the last class)."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((SIZE, classes))
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    p = temperature.apply(slope * logits + bias * np.eye(classes)[-1])
    labels = (np.cumsum(p, axis=1) < rng.random((SIZE, 1))).sum(axis=1)
    return logits, labels, p


def vague(classes=2, shares=None):
    if shares is None:
        shares = np.full(classes, 1.0 / classes)
    wide = np.full(classes, 1.0)
    return ClassPrior(np.zeros(classes), 0.3 * wide, np.log(shares), 4.0 * wide)


def implied(draws, logits, d):
    top = logits.argmax(axis=1)
    return draws.probabilities(logits, top, d)[np.arange(len(top)), top].mean()


def test_draws_imply_the_accuracies_of_the_interval():
    logits, _, _ = drawn()
    accuracy = Estimate(0.75, 0.70, 0.80, "atlas")
    draws = posterior.draw(logits, accuracy, accuracy, vague(), NO_LABELS, np.random.default_rng(1))
    values = [implied(draws, logits, d) for d in range(posterior.DRAWS)]
    assert values[0] == pytest.approx(0.75, abs=0.02)
    assert np.quantile(values, [0.05, 0.95]) == pytest.approx([0.70, 0.80], abs=0.02)


def test_known_shares_set_the_biases():
    logits, labels, _ = drawn(bias=-1.5)
    shares = np.bincount(labels) / SIZE
    sure = ClassPrior(np.zeros(2), np.ones(2), np.log(shares), np.full(2, 1e-4))
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    exact = Estimate(accuracy, accuracy, accuracy, "")
    found = posterior.draw(logits, exact, exact, sure, NO_LABELS, np.random.default_rng(0))
    mean = found.probabilities(logits, logits.argmax(axis=1), 0).mean(axis=0)
    assert mean == pytest.approx(shares, abs=0.04)
    assert found.biases[0, 1] - found.biases[0, 0] == pytest.approx(-1.5, abs=0.5)


@pytest.mark.parametrize("classes", [2, 4])
def test_many_labels_find_slope_and_biases(classes):
    logits, labels, truth = drawn(bias=1.0, slope=0.6, classes=classes)
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    rows = np.arange(0, SIZE, 2)
    given = Labels(rows, labels[rows])
    wide = Estimate(accuracy, accuracy - 0.02, accuracy + 0.02, "")
    draws = posterior.draw(logits, wide, wide, vague(classes), given, np.random.default_rng(0))
    p = draws.probabilities(logits, logits.argmax(axis=1), 0)
    assert np.abs(p - truth).mean() < 0.03
    few = Labels(rows[:20], labels[rows[:20]])
    less = posterior.draw(logits, wide, wide, vague(classes), few, np.random.default_rng(0))
    assert draws.biases.std(axis=0).max() < 0.5 * less.biases.std(axis=0).max()


def test_effects_follow_the_frequencies_that_were_counted():
    p = np.full((1000, 2), 0.5)
    labels = Labels(np.arange(1000), (np.arange(1000) % 4 > 0).astype(int))
    centre, deviation = posterior.effects(p, labels, np.zeros(1000, int), 2)
    assert centre[0, 1] - centre[0, 0] > 1.0
    assert centre[1] == pytest.approx([0.0, 0.0])
    assert deviation[0].max() < 0.1 < deviation[1].min() == posterior.EFFECT


def test_with_many_labels_predicted_classes_have_the_counted_frequencies():
    """A confusion of one predicted class that no slope and biases describe."""
    logits, labels, _ = drawn(classes=3)
    group = logits.argmax(axis=1)
    rng = np.random.default_rng(1)
    labels = np.where((group == 2) & (rng.random(SIZE) < 0.6), 0, labels)
    right = Estimate(0.6, 0.5, 0.7, "")
    counted = np.array([np.bincount(labels[group == k], minlength=3) for k in range(3)])
    counted = counted / counted.sum(axis=1, keepdims=True)
    apart = []
    for rows in (np.arange(SIZE), np.arange(0, SIZE, 400)):
        given = Labels(rows, labels[rows])
        draws = posterior.draw(logits, right, right, vague(3), given, np.random.default_rng(0))
        p = draws.probabilities(logits, group, 0)
        found = np.array([p[group == k].mean(axis=0) for k in range(3)])
        apart.append(np.abs(found - counted).max())
    assert apart[0] < 0.03 < apart[1]


def test_next_to_labels_the_accuracy_of_the_result_sets_the_width_only():
    """It is made of the same labels, which would count twice otherwise."""
    logits, labels, _ = drawn(bias=1.0)
    rows, before = np.arange(0, SIZE, 80), Estimate(0.75, 0.65, 0.85, "")
    given = Labels(rows, labels[rows])
    centres, widths = [], []
    for accuracy in (Estimate(0.6, 0.5, 0.7, ""), Estimate(0.8, 0.79, 0.81, "")):
        rng = np.random.default_rng(0)
        draws = posterior.draw(logits, accuracy, before, vague(), given, rng)
        values = [implied(draws, logits, d) for d in range(posterior.DRAWS)]
        centres.append(values[0])
        widths.append(np.std(values))
    assert centres[0] == pytest.approx(centres[1], abs=1e-3)
    assert widths[0] > 3 * widths[1]


def test_rare_positives_that_the_model_finds_stay_rare():
    """An accuracy of 99.8 % is not one of 99.5 %, which would triple the errors."""
    rng = np.random.default_rng(0)
    margin = 2.0 * rng.standard_normal(20_000) - 9.0
    logits = np.column_stack([np.zeros(20_000), margin])
    p = temperature.apply(logits)
    share, right = p.mean(axis=0), float(p.max(axis=1).mean())
    assert right > 0.998
    sure = Estimate(right, right - 2e-4, right + 2e-4, "")
    prior = ClassPrior(np.zeros(2), np.full(2, 0.2), np.log(share), np.full(2, 0.05))
    found = posterior.draw(logits, sure, sure, prior, NO_LABELS, np.random.default_rng(0))
    there = found.probabilities(logits, logits.argmax(axis=1), 0)[:, 1].mean()
    assert there == pytest.approx(share[1], rel=0.3)


def test_the_order_of_nodes_says_nothing_about_rare_positives():
    rng = np.random.default_rng(0)
    true = rng.random(100_000) < 0.005
    x = rng.standard_normal(100_000) + 3.0 * true
    logits = np.column_stack([np.zeros(100_000), np.log(0.005 / 0.995) + 3.0 * x - 4.5])
    p = temperature.apply(logits)
    share, right = p.mean(axis=0), float(p.max(axis=1).mean())
    sure = Estimate(right, right - 0.001, right + 0.001, "")
    prior = ClassPrior(np.zeros(2), np.full(2, 0.16), np.log(share), np.full(2, 0.012))
    for seed in range(4):
        rows = np.random.default_rng(seed).permutation(100_000)
        draws = posterior.draw(logits[rows], sure, sure, prior, NO_LABELS, np.random.default_rng(0))
        found = draws.probabilities(logits[rows], logits[rows].argmax(axis=1), 0).mean(axis=0)
        assert found[1] == pytest.approx(share[1], rel=0.15)
