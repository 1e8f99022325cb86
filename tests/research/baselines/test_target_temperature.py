"""CPCS, TransCal and LaSCal where the answer is known."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper_research.baselines.target_temperature import (
    CPCS,
    LaSCal,
    TransCal,
    controlled_accuracy,
    label_weights,
    least_brier,
    shifted_error,
)


@pytest.fixture(scope="module")
def drawn():
    """Logits whose labels are drawn at temperature 2, so that 2 calibrates them."""
    rng = np.random.default_rng(3)
    logits = 3.0 * rng.normal(size=(80_000, 3))
    p = temperature.apply(logits, 2.0)
    labels = (rng.random((80_000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return logits, labels


def test_the_least_brier_score_is_at_the_true_temperature(drawn):
    logits, labels = drawn
    assert least_brier(logits, labels, np.ones(len(labels))) == pytest.approx(2.0, rel=0.03)
    few = slice(0, 300)
    weights = np.random.default_rng(4).uniform(0.0, 2.0, 300)
    grid = np.linspace(0.3, 6.0, 1500)
    truth = np.eye(3)[labels[few]]
    slow = [weights @ ((temperature.apply(logits[few], t) - truth) ** 2).sum(axis=1) for t in grid]
    assert least_brier(logits[few], labels[few], weights) == pytest.approx(
        grid[np.argmin(slow)], abs=0.005
    )


def test_control_variates_by_hand():
    """Two regressions: the intercept where the weight is 1 and the correctness its expectation."""
    rng = np.random.default_rng(5)
    w, right = rng.gamma(2.0, 0.5, 500), (rng.random(500) < 0.7).astype(float)
    errors = w * (1 - right)
    first = errors - np.polyfit(w, errors, 1)[0] * (w - 1.0)
    second = first - np.polyfit(right, first, 1)[0] * (right - 0.66)
    assert controlled_accuracy(w, right, 0.66) == pytest.approx(1.0 - second.mean())
    # If the weights are 1 the second variate alone decides, and gives the expectation itself.
    assert controlled_accuracy(np.ones(500), right, 0.66) == pytest.approx(0.66)


def test_label_weights_invert_the_confusion_table():
    rng = np.random.default_rng(6)
    table = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.1], [0.1, 0.2, 0.8]])  # predicted | true

    def predictions(labels):
        return (rng.random((labels.size, 1)) > table[:, labels].T.cumsum(axis=1)).sum(axis=1)

    here = rng.choice(3, 60_000, p=[0.5, 0.3, 0.2])
    there = rng.choice(3, 60_000, p=[0.2, 0.3, 0.5])
    found = label_weights(predictions(here), here, predictions(there), 3)
    assert found == pytest.approx([0.4, 1.0, 2.5], abs=0.06)


def test_the_label_shift_error_needs_no_target_labels(drawn):
    """Reweigh classes by resampling: the estimate must be that from the target's own labels."""
    logits, labels = drawn
    rng = np.random.default_rng(7)
    kept = rng.random(labels.size) < np.array([1.0, 0.5, 0.2])[labels]
    kept[:40_000] = False
    here = slice(0, 40_000)
    shares = [np.bincount(part, minlength=3) / part.size for part in (labels[here], labels[kept])]
    weights = shares[1] / shares[0]
    p = temperature.apply(logits)
    found = shifted_error(p[kept], p[here], labels[here], weights, 15)
    labelled = shifted_error(p[kept], p[kept], labels[kept], np.ones(3), 15)
    assert found == pytest.approx(labelled, rel=0.1)
    assert shifted_error(p[kept], p[here], labels[here], np.ones(3), 15) > 1.3 * labelled


def test_at_the_source_all_are_near_the_usual_temperature(observation, graph):
    labels = graph.labels[observation.nodes]
    usual = temperature.fit(observation.logits, labels)
    sure = type(observation)(
        2.0 * observation.all_logits, observation.graph, observation.nodes, temperature=1.5
    )
    for method in (CPCS(), TransCal(), LaSCal()):
        found = method.fit(sure, labels)
        assert found.temperature(sure) == pytest.approx(2.0 * usual, rel=0.35), method
        stated = temperature.mean_confidence(2.0 * observation.logits, found.temperature(sure))
        assert found.estimate(sure).value == pytest.approx(stated)
