import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper import Graph, csbm
from graphtemper.graph.graph import select_nodes


def small(**changes):
    values = {
        "features": np.arange(8.0).reshape(4, 2),
        "edges": [[0, 1], [1, 2], [3, 1]],
        "labels": [0, 1, -1, 1],
        "train_masks": np.array([[True, False, False, True]]),
        "name": "small",
        "class_names": ["yes", "no"],
    }
    return Graph(**(values | changes))


def test_counts_and_degrees():
    g = small()
    assert (g.num_nodes, g.num_edges, g.num_features, g.num_classes) == (4, 3, 2, 2)
    assert g.degrees.tolist() == [1, 3, 1, 1]
    assert g.edges.tolist() == [[0, 1], [1, 2], [1, 3]]
    assert g.labelled.tolist() == [0, 1, 3]


def test_a_graph_cannot_be_edited():
    g = small()
    with pytest.raises(ValueError):
        g.features[0, 0] = 9
    with pytest.raises(ValueError):
        g.edges[0, 0] = 2


def test_the_callers_array_stays_writable():
    features = np.zeros((4, 2), np.float32)
    small(features=features)
    features[0, 0] = 1


def test_one_node_and_no_edges_are_graphs():
    g = Graph(features=[[1.0]], edges=[])
    assert (g.num_nodes, g.num_edges, g.num_classes) == (1, 0, 0)
    assert g.degrees.tolist() == [0]


def test_replace_checks_what_changed():
    g = small()
    assert g.replace(labels=None).labels is None
    assert g.replace(edges=[[2, 0]]).edges.tolist() == [[0, 2]]
    with raises("edges"):
        g.replace(edges=[[2, 2]])
    with raises("too-few"):
        g.replace(features=np.zeros((3, 2)))
    with raises("choice"):
        g.replace(weight=1)
    with raises("shape"):
        g.replace(features=1.0)
    with raises("shape"):
        g.replace(features=[[1.0], [1.0, 2.0]])
    with raises("range"):
        g.replace(labels=[0, 1, -1, 2])
    with raises("range"):
        g.replace(class_names=("only",))
    assert g.replace(labels=[0, 1, -1, 2], class_names=None).num_classes == 3


def test_replace_keeps_no_stale_column_names():
    g = small(feature_names=["left", "right"])
    assert g.replace(features=np.ones((4, 2))).feature_names == ("left", "right")
    with raises("other-features"):
        g.replace(features=np.ones((4, 1)))
    assert g.replace(features=np.ones((4, 1)), feature_names=["one"]).feature_names == ("one",)
    assert g.replace(features=np.ones((4, 1)), feature_names=None).feature_names is None


def test_names_may_come_from_any_iterable():
    assert small(class_names=np.array(["a", "b"])).class_names == ("a", "b")
    assert small(class_names=(name for name in "ab")).class_names == ("a", "b")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_from_edges_cleans_any_list(pairs):
    g = Graph.from_edges(np.zeros((7, 1)), np.array(pairs, dtype=int).reshape(-1, 2))
    assert {frozenset(e) for e in g.edges.tolist()} == {frozenset(p) for p in pairs if p[0] != p[1]}
    assert len(set(map(tuple, g.edges.tolist()))) == g.num_edges


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        ([True, False], "too-few"),
        ([0, 4], "foreign"),
        ([0.5], "wrong-type"),
        ([], "empty"),
        ([False] * 4, "empty"),
        ([[0]], "shape"),
        ([0, [1]], "shape"),
    ],
)
def test_bad_node_selections(nodes, error):
    with raises(error):
        select_nodes(nodes, 4)


def test_a_subgraph_keeps_what_is_between_its_nodes():
    graph = csbm.sample(200, 6, 0.8, 1.5, num_features=5, seed=3).replace(
        time=np.arange(200),
        environment=np.arange(200) % 7 - 1,
        class_names=("no", "yes"),
        val_masks=np.arange(200) % 3 == 0,
    )
    nodes = np.random.default_rng(0).choice(200, 60, replace=False)
    part = graph.subgraph(nodes)
    inside = {int(node): place for place, node in enumerate(nodes)}
    expected = {
        tuple(sorted((inside[a], inside[b])))
        for a, b in graph.edges.tolist()
        if a in inside and b in inside
    }
    assert {tuple(edge) for edge in part.edges.tolist()} == expected
    assert (part.features == graph.features[nodes]).all()
    assert (part.labels == graph.labels[nodes]).all()
    assert part.time.tolist() == nodes.tolist()
    assert part.environment.tolist() == (nodes % 7 - 1).tolist()
    assert part.class_names == ("no", "yes")
    assert part.val_masks.tolist() == [(nodes % 3 == 0).tolist()]
    mask = np.isin(np.arange(200), nodes)
    assert graph.subgraph(mask).time.tolist() == sorted(nodes.tolist())
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert (sparse.subgraph(nodes).features != sp.csr_matrix(part.features)).nnz == 0


def test_a_node_is_selected_once():
    with raises("repeated"):
        small().subgraph([2, 1, 2])


def test_columns_have_the_names_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, 2.0], "rate": [0.5, 0.1]})
    assert Graph(features=table, edges=[]).feature_names == ("age", "rate")
    assert Graph(features=table, edges=[], feature_names=["a", "b"]).feature_names == ("a", "b")
    assert Graph(features=pandas.DataFrame(np.eye(2)), edges=[]).feature_names is None
