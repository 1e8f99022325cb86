"""Calibration error over groups of nodes of similar degree."""

import numpy as np
import pytest

from graphtemper import metrics
from graphtemper_research.gats.degree_ece import degree_ece


@pytest.fixture
def sample():
    def draw(seed, n, num_classes=4):
        rng = np.random.default_rng(seed)
        return rng.dirichlet(np.ones(num_classes), n), rng.integers(0, num_classes, n)

    return draw


def test_degree_ece_groups_by_degree(sample):
    p, labels = sample(7, n=103)
    degree = np.random.default_rng(0).integers(1, 9, size=103)
    order = sorted(range(103), key=lambda i: degree[i])
    sizes = [11] * 3 + [10] * 7
    expected, start = 0.0, 0
    for size in sizes:
        group = order[start : start + size]
        start += size
        confidence = p[group].max(axis=1).mean()
        accuracy = (p[group].argmax(axis=1) == labels[group]).mean()
        expected += size / 103 * abs(confidence - accuracy)
    assert degree_ece(p, labels, degree) == pytest.approx(expected)


def test_degree_ece_ignores_confidence_inside_a_group(sample):
    p, labels = sample(8, n=400, num_classes=2)
    degree = np.repeat([1, 2, 3, 4], 100)
    # Swap whole confidences among the nodes of a group, keeping every prediction right or wrong.
    right = p.argmax(axis=1) == labels
    confidence = p.max(axis=1)
    for group in range(4):
        rows = np.flatnonzero(degree == group + 1)
        confidence[rows] = np.random.default_rng(group).permutation(confidence[rows])
    q = np.where(right, confidence, 1 - confidence)
    q = np.stack([1 - q, q], axis=1)
    shuffled = np.ones(400, dtype=int)
    before = degree_ece(p, labels, degree, groups=4)
    assert degree_ece(q, shuffled, degree, groups=4) == pytest.approx(before)
    assert metrics.ece(q, shuffled) != pytest.approx(metrics.ece(p, labels), rel=1e-3)
