"""CBPE and PAPE against pooling of adjacent violators, one pair at a time."""

import numpy as np
import pytest
import sklearn.isotonic  # noqa: F401 - its first import takes seconds

from graphtemper_research.baselines.cbpe import CBPE, PAPE, recalibrated


def pooled(x, y, w):
    """Isotonic regression by its min-max formula: O(n^3), with ties pooled first."""
    values = np.unique(x)
    means = np.array([np.average(y[x == v], weights=w[x == v]) for v in values])
    mass = np.array([w[x == v].sum() for v in values])
    n = values.size
    return values, np.array(
        [
            max(
                min(np.average(means[s : t + 1], weights=mass[s : t + 1]) for t in range(i, n))
                for s in range(i + 1)
            )
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_are_those_of_the_slow_regression(weighted):
    rng = np.random.default_rng(2)
    source, labels = rng.dirichlet(np.ones(3), 25), rng.integers(0, 3, 25)
    target = rng.dirichlet(np.ones(3), 40)
    weights = rng.uniform(0.2, 3.0, 25) if weighted else np.ones(25)
    slow = np.empty_like(target)
    for k in range(3):
        x, y = pooled(source[:, k], (labels == k).astype(float), weights)
        slow[:, k] = np.interp(target[:, k], x, y)
    total = slow.sum(axis=1, keepdims=True)
    slow = np.where(total > 0, slow / np.where(total > 0, total, 1), target)
    fast = recalibrated(target, source, labels, weights if weighted else None)
    assert fast == pytest.approx(slow, abs=1e-9)


def test_an_overconfident_model_is_corrected(observation, graph, target):
    labels = graph.labels[observation.nodes]
    truth = float((observation.predictions == labels).mean())
    sure = type(observation)(8.0 * observation.all_logits, observation.graph, observation.nodes)
    for method in (CBPE(), PAPE()):
        assert method.fit(sure, labels).estimate(sure).value == pytest.approx(truth, abs=0.05)
    assert abs(sure.probabilities.max(axis=1).mean() - truth) > 0.05
