"""The Dis2 bound: its gradient, its value, and that it holds where its assumption does."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from graphtemper.graph.graph import Graph
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines.dis2 import Dis2, losses


def test_the_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(12)
    own, there = rng.normal(size=(20, 4)), rng.normal(size=(15, 4))
    mine, theirs = rng.integers(0, 3, 20), rng.integers(0, 3, 15)
    critic = rng.normal(size=(4, 3))

    def value(flat):
        return losses(flat.reshape(4, 3), own, mine, there, theirs)[0]

    slow = approx_fprime(critic.ravel(), value, 1e-6)
    assert losses(critic, own, mine, there, theirs)[1].ravel() == pytest.approx(slow, abs=1e-4)
    h = there @ critic
    by_hand = [
        math.log(1 + math.exp(h[i, y] - (h[i].sum() - h[i, y]) / 2)) / math.log(2)
        for i, y in enumerate(theirs)
    ]
    p = np.exp(own @ critic) / np.exp(own @ critic).sum(axis=1, keepdims=True)
    agree = -np.log(p[np.arange(20), mine]).mean()
    assert value(critic.ravel()) == pytest.approx(agree + np.mean(by_hand))


def observed(logits):
    g = Graph(features=logits, edges=np.empty((0, 2), dtype=np.int64))
    return Observation(logits, g)


def test_the_bound_holds_where_a_linear_truth_disagrees():
    """Nodes that only the target has lie where a line can call them wrong: the bound must see."""
    rng = np.random.default_rng(13)
    side = rng.choice([-1.0, 1.0], 2000)
    here = np.column_stack([2.0 * side, -2.0 * side, np.zeros(2000)]) + rng.normal(
        0, 0.3, (2000, 3)
    )
    fitted = Dis2().fit(observed(here), here.argmax(axis=1))
    same = fitted.estimate(observed(here)).value
    slack = math.sqrt(5000 * math.log(20) / (2 * 1000 * 1000))
    assert same == pytest.approx(1.0 - slack, abs=0.02)
    far = here.copy()
    far[:800] = rng.normal([6.0, -2.0, 5.0], 0.3, (800, 3))  # 0 by the model, and truly 2
    found = fitted.estimate(observed(far)).value
    assert 0.3 < found < 0.6
