"""Arrays that do not make a graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import Graph
from graphtemper.errors import GraphTemperWarning
from graphtemper.graph import select_labelled, select_nodes


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


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"features": np.zeros((0, 2))}, "empty"),
        ({"features": np.zeros(4)}, "shape"),
        ({"features": [["a", "b"]] * 4}, "wrong-type"),
        ({"features": np.array([[0, 1], [2, np.nan], [0, 0], [0, 0]])}, "not-finite"),
        ({"features": sp.csr_matrix(np.diag([1, np.inf, 1, 1]))}, "not-finite"),
        ({"edges": [[0, 1, 2]]}, "shape"),
        ({"edges": [[0.0, 1.0]]}, "wrong-type"),
        ({"edges": [[0, 1], [1, 4]]}, "edges"),
        ({"edges": [[0, 1], [2, 2]]}, "edges"),
        ({"edges": [[0, 1], [1, 2], [1, 0]]}, "edges"),
        ({"labels": [0, 1]}, "shape"),
        ({"labels": [0, 1, -2, 0]}, "range"),
        ({"labels": [0.0, 1.0, 0.0, 1.0]}, "wrong-type"),
        ({"train_masks": [[True, False]]}, "shape"),
        ({"val_masks": [[0, 1, 1, 0]]}, "wrong-type"),
        ({"feature_names": ["one"]}, "shape"),
        ({"features": [[1.0, 2.0], [1.0]]}, "shape"),
        ({"features": sp.csr_matrix(np.ones((4, 2), complex))}, "wrong-type"),
        ({"features": sp.coo_array(np.ones(4))}, "shape"),
        ({"labels": np.array([2**64 - 1, 0, 0, 0], np.uint64)}, "range"),
        ({"class_names": "yes"}, "wrong-type"),
        ({"class_names": ["a"]}, "range"),
    ],
)
def test_bad_arrays_name_the_key_and_the_first_bad_entry(changes, error):
    with raises(error) as caught:
        small(**changes)
    assert "\n" not in str(caught.value)


def test_unlabelled_nodes_of_a_mask_are_left_out_and_counted():
    graph = small()
    with pytest.warns(GraphTemperWarning):
        nodes, labels = select_labelled(graph, [False, True, True, True])
    assert nodes.tolist() == [1, 3]
    assert labels.tolist() == [1, 1]
    for nodes in ([1, 2], [False, False, True, False]):
        with raises("no-labels"):
            select_labelled(graph, nodes)


def test_a_mask_may_be_one_of_the_target_type():
    papers = np.array([1, 3, 4])
    for mask in ([True, False, True], [False, True, False, False, True]):
        assert select_nodes(mask, 5, papers).tolist() == [1, 4]
    assert select_nodes(None, 5, papers).tolist() == papers.tolist()
    with raises("too-few"):
        select_nodes([True] * 4, 5, papers)
    for nodes in ([3, 2], [True] * 5):
        with raises("foreign"):
            select_nodes(nodes, 5, papers)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_ends_of_edges_may_be_smaller_integers_than_the_number_of_nodes(kind):
    nodes = 70_000
    for directed in (False, True):
        graph = Graph(
            features=np.ones((nodes, 1)), edges=np.array([[0, 1]], kind), directed=directed
        )
        assert graph.edges.tolist() == [[0, 1]]
    assert select_nodes(np.array([3, 5], kind), nodes).tolist() == [3, 5]


def _written(matrix, **arrays):
    """Return a sparse matrix whose arrays were written to after it was built."""
    for name, (place, value) in arrays.items():
        getattr(matrix, name)[place] = value
    return matrix


def _sparse(kind):
    return sp.random(50, 8, 0.3, kind, random_state=0)


@pytest.mark.parametrize(
    "features",
    [
        _written(_sparse("csr"), indices=(0, -3)),
        _written(_sparse("csr"), indices=(0, 10**8)),
        _written(_sparse("csr"), indptr=(5, 10**4)),
        _written(_sparse("csr"), indptr=(5, 10**6)),
        _written(_sparse("csr"), indptr=(-1, 10**6)),
        _written(_sparse("csc"), indices=(0, 10**8)),
        _written(_sparse("coo"), row=(0, 10**8)),
        _written(_sparse("bsr"), indices=(0, 10**8)),
    ],
)
def test_sparse_features_whose_indices_leave_them_are_refused(features):
    with raises("content", "malformed sparse"):
        Graph(features=features, edges=[])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_sparse_features_of_every_format_are_read(kind):
    given = _sparse(kind)
    found = Graph(features=given, edges=[]).features
    np.testing.assert_array_equal(found.toarray(), given.toarray().astype(np.float32))
