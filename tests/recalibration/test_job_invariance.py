"""Answers hardly depend on the numbers of nodes, edges and classes."""

import numpy as np
import pytest

from graphtemper import Graph, SourceCard, csbm, recalibrate, shifts
from graphtemper.models import SIGN

LEVELS = {"noise": (0.5, 1.5), "rewire": (0.2, 0.6), "drop": (0.5,), "mask": (0.5,)}


def _sample(size, seed, homophily=0.8):
    return csbm.sample(size, 6, homophily, 1.0, num_classes=3, num_features=6, seed=seed)


def _build(predictor, source):
    nodes = np.arange(150, 300)
    return SourceCard.build(predictor, source, nodes, compositions=0, shifts=LEVELS, progress=False)


def _turned(graph, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    edges = np.argsort(order)[graph.edges]
    edges = edges[rng.permutation(len(edges))]
    flipped = rng.random(len(edges)) < 0.5
    edges[flipped] = edges[flipped][:, ::-1]
    return Graph(features=graph.features[order], edges=edges), order


@pytest.fixture(scope="module")
def source():
    return _sample(300, 1)


@pytest.fixture(scope="module")
def model(source):
    return SIGN(hops=1).fit(source, range(150))


@pytest.fixture(scope="module", params=["fast passes", "called"])
def used(request, model, source):
    predictor = model if request.param == "fast passes" else lambda g: model(g)
    return predictor, _build(predictor, source)


@pytest.mark.parametrize("per_node", [False, True])
def test_renumbered_nodes_and_reordered_edges_have_nearly_the_same_answer(used, per_node):
    """Draws go by the number of a node, so answers move, but by less than what they state."""
    predictor, card = used
    for seed in range(3):
        target = shifts.noise(0.4 * seed)(_sample(600, 50 + seed, 0.7), 3).replace(labels=None)
        other, order = _turned(target, seed)
        one, two = (recalibrate(predictor, g, card, per_node=per_node) for g in (target, other))
        half = (one.accuracy.high - one.accuracy.low) / 2.0
        assert two.accuracy.value == pytest.approx(one.accuracy.value, abs=half / 2.0)
        np.testing.assert_array_equal(
            two.probabilities.argmax(axis=1), one.probabilities[order].argmax(axis=1)
        )


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_renamed_classes_have_nearly_the_same_answer(classes):
    source = csbm.sample(300, 6, 0.8, 1.0, num_classes=classes, num_features=6, seed=1)
    model = SIGN(hops=1).fit(source, range(150))
    order = np.roll(np.arange(classes), 1)
    renamed = source.replace(labels=np.argsort(order)[source.labels])
    # Callables: fast passes draw noise of the logits, class by class.
    cards = _build(lambda g: model(g), source), _build(lambda g: model(g)[:, order], renamed)
    one, two = (card.class_profile.counts for card in cards)
    thirds = one.reshape(classes, -1, classes)[order][:, :, order]
    np.testing.assert_array_equal(two, thirds.reshape(two.shape))
    for seed in range(3):
        target = csbm.sample(300, 6, 0.7, 0.8, classes, 6, seed=60 + seed).replace(labels=None)
        one = recalibrate(lambda g: model(g), target, cards[0])
        two = recalibrate(lambda g: model(g)[:, order], target, cards[1])
        assert two.accuracy.value == pytest.approx(one.accuracy.value, abs=0.003)
        np.testing.assert_allclose(two.probabilities, one.probabilities[:, order], atol=0.01)
