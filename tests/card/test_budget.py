"""A card and a recalibration within a number of forward passes."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import Graph, SourceCard, csbm, recalibrate, shifts
from graphtemper.card import atlas, budget
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.signals.views import num_passes

NODES = np.arange(150, 300)
FEW = {"noise": (0.5, 2.0), "mask": (0.3, 0.8), "rewire": (0.2, 0.8), "drop": (0.5,)}


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)


class Counting:
    """A predictor without fast passes that counts them."""

    def __init__(self, graph):
        self.model, self.calls = SIGN(hops=1).fit(graph, range(150)), 0
        self.num_nodes = graph.num_nodes

    def __call__(self, graph):
        # Models are recognised by calls on tiny graphs, which nobody counts.
        self.calls += graph.num_nodes / self.num_nodes if graph.num_nodes > 6 else 0
        return self.model(graph)


@pytest.fixture
def model(graph):
    return Counting(graph)


def test_the_default_atlas_costs_at_most_500_passes_and_a_target_12():
    edges_only = [atlas.moves_edges_only(shift) for shift in atlas.plan()]
    assert sum(edges_only[:62]) == 21
    plan = budget.spend(budget.CARD_BUDGET, edges_only, 70)
    assert plan.passes <= 500
    assert plan.shifts > 80
    assert num_passes(plan.splits) <= budget.TARGET_BUDGET


def test_what_is_spent_is_in_the_card_and_in_the_result(graph, model):
    card = SourceCard.build(model, graph, NODES, shifts=FEW, compositions=30, budget=100)
    assert card.passes == model.calls <= 100
    assert 7 < len(card.atlas) < 37
    assert SourceCard.from_json(card.to_json()).passes == card.passes
    assert f"{card.passes} forward passes" in card.summary()
    model.calls = 0
    result = recalibrate(model, shifts.noise(1.0)(graph, seed=7), card, NODES, per_node=True)
    assert result.passes == model.calls == result.to_dict()["passes"] <= 12


def test_a_budget_that_is_too_small_names_the_smallest_useful_one(graph, model):
    with raises("too-few"):
        SourceCard.build(model, graph, NODES, shifts=FEW, compositions=5, budget=58)
    card = SourceCard.build(model, graph, NODES, shifts=FEW, compositions=5, budget=59)
    assert len(card.atlas) == 7
    with raises("too-few"):
        recalibrate(model, graph, card, budget=10)
    recalibrate(model, graph, card, budget=11)


@pytest.mark.parametrize("bad", [0, -3, 2.5, "cheap", True])
def test_a_budget_is_a_number_of_passes(graph, model, bad):
    with raises(("range", "wrong-type")):
        SourceCard.build(model, graph, NODES, shifts=FEW, compositions=0, budget=bad)


def test_models_with_fast_passes_are_measured_thoroughly(graph, model):
    fast = model.model
    default, thorough = (
        SourceCard.build(fast, graph, NODES, shifts=FEW, compositions=0, budget=passes)
        for passes in (None, "thorough")
    )
    assert default.to_json() == thorough.to_json()
    assert default.passes is None
    assert recalibrate(fast, graph, default, NODES).passes is None


def test_a_thorough_card_takes_a_thorough_target(graph, model):
    card = SourceCard.build(
        model, graph, NODES, shifts=FEW, compositions=0, budget="thorough", seed=1
    )
    assert card.passes == model.calls
    model.calls = 0
    assert recalibrate(model, graph, card, NODES).passes == model.calls == num_passes(4)
    with pytest.raises(InputError):
        recalibrate(model, graph, card, NODES, budget=12)


def test_logits_that_were_made_elsewhere_are_compared_with_a_clean_pass(graph, model):
    card = SourceCard.build(model, graph, NODES, shifts=FEW, compositions=0, budget=80)
    target = shifts.rewire(0.4)(graph, seed=3)
    expected = recalibrate(model, target, card, NODES)
    logits, model.calls = model.model(target), 0
    result = recalibrate(model, target, card, NODES, logits=logits)
    assert result.passes == model.calls == expected.passes
    np.testing.assert_array_equal(result.probabilities, expected.probabilities)
    with raises("not-logits"):
        recalibrate(model, target, card, NODES, logits=logits[:-1])
    with raises("conflict"):
        recalibrate(logits, target, card, NODES, logits=logits)


def test_other_environments_are_paid_from_the_budget(graph, model):
    other = csbm.sample(300, degree=6, homophily=0.6, snr=1.0, num_features=6, seed=2)
    given = {"shifts": FEW, "compositions": 30, "budget": 120}
    alone = SourceCard.build(model, graph, NODES, **given)
    model.calls = 0
    card = SourceCard.build(model, graph, NODES, environments=[other], **given)
    assert card.passes == model.calls <= 120
    assert len(card.atlas) < len(alone.atlas)
    assert len(card.environments) == 1
    model.calls = 0
    thorough = {"shifts": FEW, "compositions": 0, "budget": "thorough"}
    assert (
        SourceCard.build(model, graph, NODES, environments=[other], **thorough).passes
        == model.calls
    )


def test_environments_are_checked_before_the_atlas_is_surveyed(graph, model):
    wide = csbm.sample(300, degree=6, homophily=0.6, snr=1.0, num_features=7, seed=2)
    copy = Graph(features=graph.features.copy(), edges=graph.edges, labels=graph.labels)
    strange = copy.replace(labels=np.full(300, 4))
    for bad, error in (
        (wide, "other-features"),
        ((copy, NODES[:50]), "foreign"),
        ((strange, range(150)), "range"),
        ((copy, range(5)), "too-few"),
    ):
        model.calls = 0
        with raises(error):
            SourceCard.build(model, graph, NODES, shifts=FEW, compositions=0, environments=[bad])
        assert model.calls <= 4
