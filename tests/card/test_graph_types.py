"""Cards of graphs with weights, attributes and types: stored, and compared with the target's."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS, raises

from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.card.graph_types import GraphTypes
from graphtemper.errors import GraphTemperWarning
from graphtemper.models import SIGN


@pytest.fixture(scope="module")
def typed():
    graph = csbm.sample(200, degree=6, homophily=0.9, snr=1.0, num_features=4, seed=0)
    return graph.replace(edge_type=np.arange(graph.num_edges) % 2)


def test_a_type_that_the_source_does_not_have_is_refused(typed, tmp_path):
    model = SIGN(hops=1).fit(typed, range(100))
    card = SourceCard.build(model, typed, range(100, 200), compositions=0, shifts=FEW_SHIFTS)
    path = tmp_path / "card.json"
    card.save(path)
    loaded = SourceCard.load(path)
    assert loaded.types.edge == (0, 1)
    assert recalibrate(model, typed, loaded, range(50)).probabilities.shape == (50, 2)
    with raises("other-types"):
        recalibrate(model, typed.replace(edge_type=np.full(typed.num_edges, 7)), loaded)
    path.write_text(path.read_text().replace('"edge":[0,1]', '"edge":[0,-1]'))
    with raises("damaged"):
        SourceCard.load(path)


def test_bundled_models_refuse_a_target_type(typed):
    several = typed.replace(node_type=np.arange(200) % 2, target_type=0)
    with raises("other-types"):
        SIGN().fit(several)


def small(**fields):
    return Graph(features=np.eye(3), edges=[[0, 1], [1, 2]], **fields)


HELD = {
    "edge_weight": [1.0, 2.0],
    "edge_features": np.ones((2, 3)),
    "edge_type": [0, 1],
    "node_type": [0, 1, 1],
}


@pytest.mark.parametrize("name", HELD)
def test_a_target_must_have_what_the_source_had_unless_it_is_not_read(name):
    source, plain = small(**HELD), small()
    types = GraphTypes.of(source)
    types.check(source)
    without = source.replace(**{name: None})
    with raises("other-types"):
        types.check(without)
    types.check(without, unread=(name,))
    with pytest.warns(GraphTemperWarning):
        GraphTypes.of(without).check(source)
    GraphTypes.of(without).check(source, unread=(name,))
    with pytest.warns(GraphTemperWarning) as told:
        GraphTypes.of(plain).check(source)
    assert len(told) == len(HELD)
    with raises("other-types"):
        types.check(object())  # a graph on disk holds features and edges only


def test_attributes_of_another_shape_are_refused():
    types = GraphTypes.of(small(edge_features=np.ones((2, 3))))
    for other in (np.ones((2, 4)), np.ones(2)):
        with raises("other-types"):
            types.check(small(edge_features=other))
        types.check(small(edge_features=other), unread=("edge_features",))


def test_named_types_are_compared_by_name():
    arcs = {"edges": [[0, 1], [1, 0]], "directed": True}
    kinds = {"node_type": [0, 1], "edge_type": [0, 1], "node_type_names": ["a", "b"]}
    names = ["a__to__b", "b__to__a"]
    source = Graph(features=np.eye(2), edge_type_names=names, **arcs, **kinds)
    types = GraphTypes.of(source)
    turned = source.replace(edge_type_names=names[::-1], edges=[[1, 0], [0, 1]])
    types.check(turned, unread=("edge_type",))
    with raises("other-types"):
        types.check(source.replace(edge_type_names=["a__to__b", "b__by__a"]))


def test_a_card_keeps_what_the_source_had(typed):
    several = {"node_type_names": ["a", "b"], "edge_type_names": ["x", "y"]}
    one = small(**HELD, **several, target_type=1)
    assert GraphTypes.of(one).target_name == "b"
    model = SIGN(hops=1).fit(typed, range(100))
    card = SourceCard.build(model, typed, range(100, 200), compositions=0, shifts=FEW_SHIFTS)
    for graph in (small(), small(**HELD), one, small(edge_features=[0, 1])):
        types = GraphTypes.of(graph)
        assert replace(card, types=types).types == types


def test_missing_weights_are_refused_before_they_are_read(typed, tmp_path):
    weighted = typed.replace(edge_weight=np.linspace(0.5, 2.0, typed.num_edges))
    model = SIGN(hops=1).fit(weighted, range(100))
    built = SourceCard.build(model, weighted, range(100, 200), compositions=0, shifts=FEW_SHIFTS)
    built.save(tmp_path / "card.json")
    card = SourceCard.load(tmp_path / "card.json")
    with raises("other-types"):
        recalibrate(model, typed, card)
    with raises("other-types"):
        card.learn(model, typed)
    # SIGN does not read types, and logits read nothing.
    recalibrate(model, weighted.replace(edge_type=None), card)
    recalibrate(model(weighted), typed.replace(edge_type=None), card)


def test_weights_that_a_plain_source_had_not_are_told_to_models_that_read_them(typed):
    plain = typed.replace(edge_type=None)
    model = SIGN(hops=1).fit(plain, range(100))
    card = SourceCard.build(model, plain, range(100, 200), compositions=0, shifts=FEW_SHIFTS)
    weighted = typed.replace(edge_weight=np.linspace(0.5, 2.0, typed.num_edges))
    with pytest.warns(GraphTemperWarning) as told:
        recalibrate(model, weighted, card)
    assert len(told) == 1
    recalibrate(model, typed, card)  # SIGN does not read types
    recalibrate(model(weighted), weighted, card)


def test_another_order_of_edge_types_is_told():
    source = GraphTypes(edge_names=("cites", "writes", "near"))
    source.check(SimpleNamespace(edge_type_names=("cites", "near")))
    turned = SimpleNamespace(edge_type_names=("writes", "cites"))
    with pytest.warns(GraphTemperWarning):
        source.check(turned)
    source.check(turned, unread=("edge_type",))
