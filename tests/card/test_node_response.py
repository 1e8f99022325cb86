"""The node response: it finds planted weights, learns nothing from nothing, and leaves out well."""

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper import temperature as temperatures
from graphtemper.card import node_response
from graphtemper.card.node_response import FOLDS, NodeRows
from graphtemper.models import SIGN
from graphtemper.signals.node_signals import SIGNALS

NAMES = SIGNALS[:3]
FAMILIES = [frozenset({name}) for name in "abcdef"]


def rows_of(rng, weights, class_terms, count=1500):
    """Draw labels from softmax(z / T_i), T_i as planted, at a mean log temperature of 0."""
    signals = rng.standard_normal((count, len(SIGNALS))).astype(np.float32)
    logits = 2.0 * rng.standard_normal((count, 3)).astype(np.float32)
    log_t = signals[:, : len(weights)] @ weights + class_terms[logits.argmax(axis=1)]
    p = temperatures.apply(logits, np.exp(log_t - log_t.mean()))
    labels = (rng.random((count, 1)) > p.cumsum(axis=1)).sum(axis=1)
    folds = rng.integers(0, FOLDS, count)
    return NodeRows(signals, logits, np.minimum(labels, 2), folds), float(p.max(axis=1).mean())


def fitted(weights, class_terms, seed=1, names=NAMES):
    rng = np.random.default_rng(seed)
    found = [rows_of(rng, np.array(weights), np.array(class_terms)) for _ in FAMILIES]
    rows, accuracies = zip(*found, strict=True)
    # The source's own signals set origin and unit: mean 2 and spread 1/2, say.
    source = NodeRows(
        (0.5 * rng.standard_normal((4000, len(SIGNALS))) + 2.0).astype(np.float32),
        *(rows[0].__dict__[key] for key in ("logits", "labels", "folds")),
    )
    accuracy = float(np.mean(accuracies))
    return node_response.fit(source, rows, FAMILIES, accuracies, accuracy, names), rows


def test_planted_weights_are_found():
    response, rows = fitted([0.4, 0.0, -0.6], [0.3, 0.0, -0.3])
    assert response.helps
    assert response.gain > 5 * response.error
    np.testing.assert_allclose(response.weights / response.scale, [0.4, 0.0, -0.6], atol=0.08)
    np.testing.assert_allclose(response.scale, 0.5, rtol=0.05)
    np.testing.assert_allclose(response.origin, 2.0, atol=0.05)
    terms = response.classes - response.classes.mean()
    np.testing.assert_allclose(terms, [0.3, 0.0, -0.3], atol=0.1)
    item = rows[0]
    found = response.log_temperatures(item.signals, item.logits.argmax(axis=1), 0.0)
    assert found.mean() == pytest.approx(0.0, abs=1e-9)


def test_where_nothing_is_planted_nothing_is_carried():
    response, rows = fitted([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    found = response.log_temperatures(rows[0].signals, rows[0].logits.argmax(axis=1), 0.0)
    assert response.gain < 1e-3
    assert found.std() < 0.1


def test_a_signal_that_changes_its_meaning_with_the_graph_needs_slopes():
    """What lowers confidence where accuracy fell raises it where accuracy rose."""
    rng = np.random.default_rng(2)
    rows, accuracies = [], []
    for index in range(len(FAMILIES)):
        sign = 1.0 if index % 2 else -1.0
        item, _ = rows_of(rng, np.array([0.5 * sign]), np.zeros(3))
        rows.append(item)
        accuracies.append(0.6 if sign > 0 else 0.8)
    source, _ = rows_of(rng, np.zeros(1), np.zeros(3))
    found = node_response.fit(source, rows, FAMILIES, accuracies, 0.7, NAMES[:1])
    assert found.helps
    down, up = (
        float(found.weights[0] + found.slopes[0] * (np.log(a / (1 - a)) - np.log(0.7 / 0.3)))
        for a in (0.6, 0.8)
    )
    assert down > 0.2
    assert up < -0.2


@pytest.mark.nightly
def test_environments_where_the_scored_part_is_all_right():
    """Accuracies are those of two thirds of the nodes, and may be 1 where others are wrong."""
    graph = csbm.sample(400, 10, 0.9, 2.2, num_features=8, seed=2)
    model = SIGN(hops=1).fit(graph, range(200))
    card = SourceCard.build(model, graph, range(200, 400), progress=False)
    assert all(abs(item.gain) < 1.0 for item in card.node_responses.values())
