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
