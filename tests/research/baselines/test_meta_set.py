"""Scores by hand, and a regression that gets back a law it was given."""

import numpy as np
import pytest

from graphtemper import csbm, shifts
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines import meta_set
from graphtemper_research.baselines.meta_set import MDE, Dispersion, GNNEvaluatorLite, copies


@pytest.fixture(scope="module")
def town():
    g = csbm.sample(1200, degree=8, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1)
    return g, SIGN().fit(g, range(400))


def test_scores_are_their_formulas():
    z = np.random.default_rng(9).normal(size=(50, 3)) * 2.0
    z -= z.mean(axis=1, keepdims=True)
    free = -np.log(np.exp(z).sum(axis=1))
    slow = -np.mean([np.log(np.exp(e) / np.exp(free).sum()) for e in free]) - np.log(50)
    assert MDE().score(z)[0] == pytest.approx(slow)
    assert MDE().score(np.tile(z, (4, 1)))[0] == pytest.approx(slow)
    top = z.argmax(axis=1)
    between = sum(
        (top == k).sum() * ((z[top == k].mean(axis=0) - z.mean(axis=0)) ** 2).sum()
        for k in range(3)
    )
    assert Dispersion().score(z)[0] == pytest.approx(np.log(between / 2 / 50))


def test_copies_hold_the_rows_that_are_left(town):
    g, model = town
    source = Observation(model, g, range(400, 1200), temperature=1.5)
    made = copies(source)
    assert len(made) == 1 + 4 * len(meta_set.STRENGTHS)
    assert made is not copies(source)
    assert made[0][0] == pytest.approx(source.logits / 1.5)
    drop, level = made[1], meta_set.STRENGTHS[0]
    slow = model(shifts.drop(level)(g.replace(labels=None), source.seed))[source.nodes] / 1.5
    assert drop[0] == pytest.approx(slow)
    for number, level in enumerate(meta_set.STRENGTHS):
        logits, rows = made[4 + 4 * number]
        assert logits.shape == (rows.size, 3)
        assert rows.size == pytest.approx(800 * (1 - level), abs=60)


def test_a_law_of_the_score_is_found(monkeypatch):
    """Copies whose accuracies follow one line in the log-odds: the regression must lie on it."""
    rng = np.random.default_rng(10)
    made, truth, lines = [], np.zeros(20_000, dtype=int), []
    for level in np.linspace(0.5, 3.0, 21):
        wrong = rng.random(20_000) > 1 / (1 + np.exp(-level))
        z = np.exp(level) * np.where(wrong[:, None], [[-1.0, 1.0]], [[1.0, -1.0]])
        made.append((z, np.arange(20_000)))
        lines.append(level)
    monkeypatch.setattr(meta_set, "copies", lambda source: made)
    source = Observation(made[0][0], _graph(20_000))
    fitted = Scale().fit(source, truth)
    for level, (z, _) in zip(lines[2:-2], made[2:-2], strict=True):
        found = fitted.estimate(Observation(z, source.graph)).value
        assert found == pytest.approx(1 / (1 + np.exp(-level)), abs=0.012)


class Scale(meta_set.MetaSet):
    """The logarithm of the largest logit."""

    def score(self, logits):
        return np.array([np.log(logits.max())])


def _graph(size):
    return Graph(features=np.zeros((size, 1)), edges=[[0, 1]])


@pytest.mark.parametrize("make", [Dispersion, GNNEvaluatorLite])
def test_a_copy_that_was_seen_is_estimated_well(town, make):
    g, model = town
    source = Observation(model, g, range(400, 1200))
    labels = g.labels[400:]
    fitted = make().fit(source, labels)
    truth = [(z.argmax(1) == labels[rows]).mean() for z, rows in copies(source)]
    found = [fitted.estimate(Observation(z, _graph(len(z)))).value for z, _ in copies(source)]
    assert np.corrcoef(truth, found)[0, 1] > 0.5
