"""What `build` and `learn` warn of, and what they must not warn of."""

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.errors import GraphTemperWarning
from graphtemper.models import SIGN

FEW = {"noise": (0.5, 2.0), "mask": (0.5,), "drop": (0.5,)}
HALF = np.arange(300)


@pytest.fixture(scope="module")
def graph():
    kind = {"homophily": 0.6, "snr": 1.0, "num_classes": 3, "num_features": 60}
    return csbm.sample(600, degree=4, **kind, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    """It knows its training nodes by heart."""
    return SIGN(hops=1, C=100.0).fit(graph, HALF)


@pytest.fixture(scope="module")
def card(model, graph):
    return SourceCard.build(model, graph, range(300, 600), compositions=0, shifts=FEW)


def _build(model, graph, nodes):
    return SourceCard.build(model, graph, nodes, compositions=0, shifts=FEW)


def _masked(graph, rows):
    mask = np.zeros((1, graph.num_nodes), dtype=bool)
    mask[0, rows] = True
    return graph.replace(train_masks=mask)


def test_training_nodes_given_as_card_nodes_are_noticed(model, graph):
    with pytest.warns(GraphTemperWarning, match="100 of the card's 300 nodes are in the graph's"):
        _build(model, _masked(graph, HALF), range(200, 500))
    with pytest.warns(GraphTemperWarning, match="of the other labelled ones; if it was trained"):
        _build(model, graph, HALF)


def test_other_numbers_of_the_classes_are_noticed(card, model, graph):
    turned = graph.replace(labels=(graph.labels + 1) % 3)
    with pytest.warns(GraphTemperWarning, match="if classes had other numbers"):
        _build(model, turned, range(300, 600))
    other = graph.replace(labels=turned.labels, edges=graph.edges[::2])
    with pytest.warns(GraphTemperWarning, match="environment 'May' .*if classes had other numbers"):
        card.learn(model, other, range(300, 600), name="May")


def test_a_model_worse_than_the_most_frequent_class_is_noticed(model, graph):
    often = np.where(np.random.default_rng(0).random(600) < 0.7, 0, graph.labels)
    with pytest.warns(GraphTemperWarning, match="always answering the most frequent class"):
        _build(model, graph.replace(labels=often), range(300, 600))


def test_a_training_mask_is_a_reason_to_warn_only_where_the_model_is_better(card, model, graph):
    again = csbm.sample(
        600, degree=4, homophily=0.6, snr=1.0, num_classes=3, num_features=60, seed=1
    )
    fresh = np.arange(300, 600)
    # The mask of another graph, or of another model: no warning, which would be an error.
    card.learn(model, _masked(again, fresh[:150]), fresh, name="May")
    card.learn(model, _masked(again, fresh), fresh, name="June")
    with pytest.warns(GraphTemperWarning, match="200 nodes of its graph's training mask"):
        card.learn(model, _masked(again, HALF), range(100, 600), name="July")
    with pytest.warns(GraphTemperWarning, match="300 nodes of its graph's training mask"):
        card.learn(model, _masked(again, HALF), HALF, name="August")
