"""Arrays that do not make a graph."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph
from graphtemper.errors import (
    EdgesError,
    EmptyError,
    ForeignError,
    GraphTemperWarning,
    NoLabelsError,
    NotFiniteError,
    RangeError,
    ShapeError,
    TooFewError,
    WrongTypeError,
)
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
        ({"features": np.zeros((0, 2))}, EmptyError),
        ({"features": np.zeros(4)}, ShapeError),
        ({"features": [["a", "b"]] * 4}, WrongTypeError),
        ({"features": np.array([[0, 1], [2, np.nan], [0, 0], [0, 0]])}, NotFiniteError),
        ({"features": np.full((4, 2), 1e300)}, NotFiniteError),
        ({"features": sp.csr_matrix(np.diag([1, np.inf, 1, 1]))}, NotFiniteError),
        ({"edges": [[0, 1, 2]]}, ShapeError),
        ({"edges": [[0.0, 1.0]]}, WrongTypeError),
        ({"edges": [[0, 1], [1, 4]]}, EdgesError),
        ({"edges": [[-1, 1]]}, EdgesError),
        ({"edges": [[0, 10**9]]}, EdgesError),
        ({"edges": [[0, 1], [2, 2]]}, EdgesError),
        ({"edges": [[0, 1], [1, 2], [1, 0]]}, EdgesError),
        ({"labels": [0, 1]}, ShapeError),
        ({"labels": [0, 1, -2, 0]}, RangeError),
        ({"labels": [0, 1, 99, 0]}, RangeError),
        ({"labels": [0.0, 1.0, 0.0, 1.0]}, WrongTypeError),
        ({"train_masks": [[True, False]]}, ShapeError),
        ({"val_masks": [[0, 1, 1, 0]]}, WrongTypeError),
        ({"feature_names": ["one"]}, ShapeError),
        ({"features": [[1.0, 2.0], [1.0]]}, ShapeError),
        ({"features": np.ones((4, 2), complex)}, WrongTypeError),
        ({"features": sp.csr_matrix(np.ones((4, 2), complex))}, WrongTypeError),
        ({"features": sp.coo_array(np.ones(4))}, ShapeError),
        ({"features": [["1", "2"]] * 4}, WrongTypeError),
        ({"edges": [[0, 1], [1]]}, ShapeError),
        ({"labels": [[0], [1, 2], 0, 0]}, ShapeError),
        ({"labels": np.array([2**64 - 1, 0, 0, 0], np.uint64)}, RangeError),
        ({"train_masks": [[True], [True, False]]}, ShapeError),
        ({"class_names": 3}, WrongTypeError),
        ({"class_names": "yes"}, WrongTypeError),
        ({"class_names": np.array(3)}, WrongTypeError),
        ({"class_names": ["a"]}, RangeError),
        ({"class_names": []}, RangeError),
    ],
)
def test_bad_arrays_name_the_key_and_the_first_bad_entry(changes, error):
    with pytest.raises(error) as caught:
        small(**changes)
    assert "\n" not in str(caught.value)


def test_unlabelled_nodes_of_a_mask_are_left_out_and_counted():
    graph = small()
    with pytest.warns(GraphTemperWarning):
        nodes, labels = select_labelled(graph, [False, True, True, True])
    assert nodes.tolist() == [1, 3]
    assert labels.tolist() == [1, 1]
    for nodes in ([1, 2], [False, False, True, False]):
        with pytest.raises(NoLabelsError):
            select_labelled(graph, nodes)


def test_a_mask_may_be_one_of_the_target_type():
    papers = np.array([1, 3, 4])
    for mask in ([True, False, True], [False, True, False, False, True]):
        assert select_nodes(mask, 5, papers).tolist() == [1, 4]
    assert select_nodes(None, 5, papers).tolist() == papers.tolist()
    with pytest.raises(TooFewError):
        select_nodes([True] * 4, 5, papers)
    for nodes in ([3, 2], [True] * 5):
        with pytest.raises(ForeignError):
            select_nodes(nodes, 5, papers)
