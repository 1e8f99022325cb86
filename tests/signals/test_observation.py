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


def test_results_are_of_the_selected_nodes_at_the_source_temperature(graph, model):
    nodes = [7, 3, 150]
    observation = Observation(model, graph, nodes, temperature=2.0)
    np.testing.assert_allclose(observation.logits, model(graph)[nodes] / 2.0)
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


def test_the_predictor_runs_once_per_result(graph):
    calls = []

    def predictor(g):
        calls.append(g)
        return np.zeros((g.num_nodes, 2))

    observation = Observation(predictor, graph)
    assert not calls
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


class Counted:
    """A predictor that counts its calls."""

    def __init__(self, model):
        self.model, self.calls = model, 0

    def __call__(self, graph):
        self.calls += 1
        return self.model(graph)


@pytest.mark.parametrize("from_logits", [False, True])
def test_another_temperature_gives_the_same_bytes_as_a_new_observation(graph, model, from_logits):
    predictor = model(graph) if from_logits else model
    nodes = range(20, 90)
    first = Observation(predictor, graph, nodes, temperature=0.7, seed=3)
    _ = first.probabilities, first.predictions  # cached at 0.7; must not leak into the other
    other = first.at(1.9)
    new = Observation(predictor, graph, nodes, temperature=1.9, seed=3)
    assert (other.temperature, other.seed, other.has_model) == (1.9, 3, not from_logits)
    assert first.temperature == 0.7
    for name in ("all_logits", "logits", "probabilities", "all_predictions", "predictions"):
        np.testing.assert_array_equal(getattr(other, name), getattr(new, name), err_msg=name)


@pytest.mark.parametrize("which_first", ["original", "other"])
def test_another_temperature_runs_nothing_twice(graph, model, which_first):
    predictor = Counted(model)
    original = Observation(predictor, graph, range(50))
    other = original.at(2.0)
    pair = (original, other) if which_first == "original" else (other, original)
    for observation in pair:
        _ = observation.logits
        observation.votes("edge", 3)
    assert predictor.calls == 1 + 3
    for name in ("graph", "nodes", "predictor", "neighbours", "column_moments", "own_moments"):
        assert getattr(original, name) is getattr(other, name), name
    assert original.votes("edge", 3) is other.votes("edge", 3)


def test_logits_at_temperature_one_are_those_of_the_model(graph, model):
    observation = Observation(model, graph, temperature=3.0)
    np.testing.assert_array_equal(observation.at(1.0).all_logits, model(graph))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_temperature(graph, model, bad):
    with raises("range"):
        Observation(model, graph, temperature=bad)
    with raises("range"):
        Observation(model, graph).at(bad)
