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
    fast = perturb.passes(model, graph, "edge", 5, share=0.4, seed=2)
    slow = perturb.passes(lambda g: model(g), graph, "edge", 5, share=0.4, seed=2)
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

    rng = np.random.default_rng(3)
    list(perturb.passes(predictor, graph, "feature", 2, level=level, seed=rng))
    rng = np.random.default_rng(3)
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
        half[:3], list(perturb.passes(model, graph, "feature", 3, level=0.2, seed=5))
    )
    np.testing.assert_array_equal(
        half[3:], list(perturb.passes(model, graph, "edge", 2, share=0.5, seed=5))
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
        perturb.passes(model, graph, "feature", 1, level=level)
    with raises(("range", "wrong-type")):
        perturb.passes(model, graph, "edge", 1, share=level)


def test_links_are_held_out_with_the_stated_probability(graph):
    keys, rng = perturb.link_keys(graph), np.random.default_rng(1)
    shares = np.mean([~perturb.kept_links(keys, 0.3, rng) for _ in range(400)], axis=0)
    assert abs(shares.mean() - 0.3) < 0.01
    assert np.abs(shares - 0.3).max() < 0.12  # five standard errors: every link alike
    assert (~perturb.kept_links(keys, 0.0, rng)).sum() == 1
    assert not perturb.kept_links(keys, 1.0, rng).any()


def test_graphs_that_share_a_link_hold_it_out_together(graph):
    fewer = graph.keep_links(np.arange(len(graph.links)) % 3 > 0)
    kept = [
        perturb.kept_links(perturb.link_keys(g), 0.3, np.random.default_rng(2))
        for g in (graph, fewer)
    ]
    np.testing.assert_array_equal(kept[0][np.arange(len(graph.links)) % 3 > 0], kept[1])
