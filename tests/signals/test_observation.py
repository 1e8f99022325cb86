import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm, temperature
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_classes=3, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    return SIGN().fit(graph, range(100))


def test_results_are_of_the_selected_nodes_and_logits_are_raw(graph, model):
    nodes = [7, 3, 150]
    observation = Observation(model, graph, nodes, temperature=2.0)
    np.testing.assert_array_equal(observation.logits, model(graph)[nodes])
    np.testing.assert_array_equal(observation.all_logits, model(graph))
    np.testing.assert_allclose(
        observation.probabilities, temperature.apply(model(graph)[nodes], 2.0)
    )
    assert (observation.predictions == model(graph)[nodes].argmax(axis=1)).all()
    assert observation.num_nodes == 3
    assert observation.num_classes == 3
    assert observation.neighbours.shape == (3, 200)
    assert (np.asarray(observation.neighbours.sum(axis=1)).ravel() == graph.degrees[nodes]).all()


def test_the_predictor_never_receives_labels_or_masks(graph):
    received = []

    def spy(g):
        received.append((g.labels, g.train_masks, g.val_masks, g.test_masks))
        return np.zeros((g.num_nodes, 2))

    masks = np.ones((1, 200), bool)
    observation = Observation(
        spy, graph.replace(train_masks=masks, val_masks=masks, test_masks=masks)
    )
    observation.votes("both", 4)
    _ = observation.logits
    assert len(received) == 5
    assert all(part is None for parts in received for part in parts)


def test_the_predictor_runs_when_it_is_observed_and_once_per_result(graph):
    calls = []

    def predictor(g):
        calls.append(g)
        return np.zeros((g.num_nodes, 2))

    observation = Observation(predictor, graph)
    assert len(calls) == 1
    for _ in range(2):
        _ = (
            observation.logits,
            observation.probabilities,
            observation.predictions,
            observation.num_classes,
        )
        observation.votes("edge", 3, share=0.2)
        observation.votes("edge", 3, share=0.2, level=9.0)  # the level does not concern edges
    assert len(calls) == 4


def test_votes_count_the_passes_of_the_selected_nodes(graph, model):
    votes = Observation(model, graph, range(20, 60)).votes("feature", 5, level=0.5)
    assert votes.shape == (40, 3)
    assert (votes.sum(axis=1) == 5).all()
    assert (np.count_nonzero(votes, axis=1) > 1).any()


def test_logits_alone(graph, model):
    observation = Observation(model(graph), graph)
    np.testing.assert_array_equal(observation.logits, Observation(model, graph).logits)
    assert not observation.has_model
    with raises("missing"):
        observation.votes("edge")


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_temperature(graph, model, bad):
    with raises("range"):
        Observation(model, graph, temperature=bad)
