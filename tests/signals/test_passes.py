from itertools import pairwise

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm, shifts
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.signals import passes as perturb


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(12, degree=4, homophily=0.7, snr=1.0, num_classes=3, num_features=5, seed=3)
    return g.replace(features=g.features * [0.5, 1, 2, 3, 0])


@pytest.fixture(scope="module")
def model(graph):
    return SIGN().fit(graph)


def test_dropout_of_any_predictor_removes_the_same_edges(graph, model):
    fast = perturb.edge_dropout(model, graph, 0.4, 5, seed=2)
    slow = perturb.edge_dropout(lambda g: model(g), graph, 0.4, 5, seed=2)
    shifted = (shifts.drop(0.4)(graph, rng) for rng in [np.random.default_rng(0)] for _ in range(5))
    assert {g.num_edges for g in shifted} == {graph.num_edges - round(0.4 * graph.num_edges)}
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("level", [0.0, 0.5])
def test_noise_on_any_predictor_is_the_shift_of_that_level(graph, level):
    features = []

    def predictor(g):
        features.append(g.features)
        return np.zeros((g.num_nodes, 2))

    list(perturb.feature_noise(predictor, graph, level, 2, np.random.default_rng(3)))
    # The same numbers, in the order of the nodes' keys.
    rng = perturb.OrderedDraws(np.random.default_rng(3), perturb.places(perturb.node_keys(graph)))
    expected = [shifts.noise(level)(graph, rng).features for _ in range(2)]
    np.testing.assert_array_equal(features, expected)


def test_passes_differ_and_repeat_with_the_seed(graph, model):
    for kind in ("feature", "edge", "both"):
        first = list(perturb.passes(model, graph, kind, 4, seed=5))
        again = list(perturb.passes(model, graph, kind, 4, seed=5))
        np.testing.assert_array_equal(first, again)
        assert all((one != other).any() for one, other in pairwise(first))
    half = list(perturb.passes(model, graph, "both", 5, level=0.2, share=0.5, seed=5))
    np.testing.assert_array_equal(
        half[:3], list(perturb.feature_noise(model, graph, 0.2, 3, seed=5))
    )
    np.testing.assert_array_equal(
        half[3:], list(perturb.edge_dropout(model, graph, 0.5, 2, seed=5))
    )


@pytest.mark.parametrize(
    ("kind", "count"), [("feature", 0), ("both", 1), ("nodes", 2), ("edge", 1.5)]
)
def test_bad_passes(graph, model, kind, count):
    with pytest.raises(InputError):
        perturb.passes(model, graph, kind, count)


@pytest.mark.parametrize("level", [-0.1, float("nan"), "x"])
def test_bad_levels(graph, model, level):
    with raises(("range", "wrong-type")):
        perturb.feature_noise(model, graph, level, 1)
    with raises(("range", "wrong-type")):
        perturb.edge_dropout(model, graph, level, 1)
