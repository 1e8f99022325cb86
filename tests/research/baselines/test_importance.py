"""Weighted source accuracy: exact where the weights are known."""

import numpy as np
import pytest

from graphtemper_research.baselines.importance import (
    ImportanceWeighted,
    Mandoline,
    density_ratio,
    matching_weights,
)


def test_histogram_weights_are_exact_for_slices_that_do_not_overlap():
    """One slice per row: the weights must be the ratio of the shares, counted by hand."""
    rng = np.random.default_rng(0)
    here, there = rng.choice(3, 400, p=[0.6, 0.3, 0.1]), rng.choice(3, 300, p=[0.2, 0.3, 0.5])
    slices = 2.0 * np.eye(3) - 1.0
    weights = matching_weights(slices[here], slices[there].mean(axis=0), 1e-10)
    for k in range(3):
        by_hand = (there == k).mean() / (here == k).mean() / 400
        assert weights[here == k] == pytest.approx(by_hand, rel=1e-3)


def test_the_classifier_finds_the_ratio_of_two_gaussians():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.0, 1.0, (6000, 2)), rng.normal([0.6, 0.0], 1.0, (3000, 2))
    exact = np.exp(0.6 * x[:, 0] - 0.18)
    found = density_ratio(x, y)
    assert found.mean() == pytest.approx(1.0)
    assert np.abs(found - exact).mean() < 0.06


class Confident:
    """What an estimator reads of an observation, from confidences alone."""

    def __init__(self, confidence):
        self.probabilities = np.column_stack([1.0 - confidence, confidence])
        self.predictions = np.ones(confidence.size, dtype=np.int64)
        self.num_nodes, self.num_classes = confidence.size, 2


def test_bins_of_confidence_are_weighted_by_the_target():
    confidence = np.repeat([0.65, 0.95], [60, 40])
    labels = np.r_[np.arange(60) < 30, np.arange(40) < 36].astype(int)  # 0.5 and 0.9 right
    fitted = ImportanceWeighted().fit(Confident(confidence), labels)
    target = Confident(np.repeat([0.65, 0.95], [90, 10]))
    assert fitted.estimate(target).value == pytest.approx(0.9 * 0.5 + 0.1 * 0.9)
    # A bin that was never visited has the accuracy of its neighbour.
    assert fitted.estimate(Confident(np.full(5, 0.75))).value == pytest.approx(0.5)


def test_both_give_the_source_accuracy_at_the_source(observation, graph):
    labels = graph.labels[observation.nodes]
    truth = float((observation.predictions == labels).mean())
    for method in (ImportanceWeighted(), Mandoline()):
        assert method.fit(observation, labels).estimate(observation).value == pytest.approx(
            truth, abs=1e-6
        )
