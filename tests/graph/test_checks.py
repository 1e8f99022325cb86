"""Arrays that do not make a graph."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph
from graphtemper.errors import GraphTemperWarning, InputError
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
    ("changes", "message"),
    [
        ({"features": np.zeros((0, 2))}, "features is empty"),
        ({"features": np.zeros(4)}, r"features must be a real \(N, F\) array"),
        ({"features": [["a", "b"]] * 4}, "features must be a numeric"),
        ({"features": np.array([[0, 1], [2, np.nan], [0, 0], [0, 0]])}, r"features\[1, 1\] is nan"),
        ({"features": np.full((4, 2), 1e300)}, r"features\[0, 0\] is 1e\+300"),
        ({"features": sp.csr_matrix(np.diag([1, np.inf, 1, 1]))}, r"features\[1, 1\] is inf"),
        ({"edges": [[0, 1, 2]]}, "edges must have shape"),
        ({"edges": [[0.0, 1.0]]}, "edges must be integers"),
        ({"edges": [[0, 1], [1, 4]]}, r"edges\[1, 1\] is 4, outside the nodes 0..3"),
        ({"edges": [[-1, 1]]}, r"edges\[0, 0\] is -1"),
        ({"edges": [[0, 10**9]]}, r"edges\[0, 1\] is 1000000000"),
        ({"edges": [[0, 1], [2, 2]]}, r"edges\[1\] is a self-loop at node 2"),
        ({"edges": [[0, 1], [1, 2], [1, 0]]}, r"edges\[2\] repeats the edge 0-1"),
        ({"labels": [0, 1]}, r"labels must have shape \(4,\)"),
        ({"labels": [0, 1, -2, 0]}, r"labels\[2\] is -2"),
        ({"labels": [0, 1, 99, 0]}, r"labels\[2\] is 99"),
        ({"labels": [0.0, 1.0, 0.0, 1.0]}, "labels must be integers"),
        ({"train_masks": [[True, False]]}, r"train_masks must have shape \(S, 4\)"),
        ({"val_masks": [[0, 1, 1, 0]]}, "val_masks must be boolean"),
        ({"feature_names": ["one"]}, "feature_names has 1 entries for 2 columns"),
        ({"features": [[1.0, 2.0], [1.0]]}, "features cannot be read as an array"),
        ({"features": np.ones((4, 2), complex)}, "features must be .* real numbers, not complex"),
        ({"features": sp.csr_matrix(np.ones((4, 2), complex))}, "real numbers, not complex"),
        ({"features": sp.coo_array(np.ones(4))}, r"\(N, F\) array, but has shape \(4,\)"),
        ({"features": [["1", "2"]] * 4}, "features must be a numeric"),
        ({"edges": [[0, 1], [1]]}, "edges cannot be read as an array"),
        ({"labels": [[0], [1, 2], 0, 0]}, "labels cannot be read as an array"),
        ({"labels": np.array([2**64 - 1, 0, 0, 0], np.uint64)}, r"labels\[0\] is 184467.*int64"),
        ({"train_masks": [[True], [True, False]]}, "train_masks cannot be read as an array"),
        ({"class_names": 3}, "class_names must be a list of names, not int"),
        ({"class_names": "yes"}, "class_names must be a list of names, not str"),
        ({"class_names": np.array(3)}, "class_names must be a list of names"),
        ({"class_names": ["a"]}, r"labels\[1\] is 1, which has no name: class_names has 1 entries"),
        ({"class_names": []}, r"labels\[0\] is 0, which has no name"),
    ],
)
def test_bad_arrays_name_the_key_and_the_first_bad_entry(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        small(**changes)
    assert "\n" not in str(caught.value)


def test_unlabelled_nodes_of_a_mask_are_left_out_and_counted():
    graph = small()
    with pytest.warns(GraphTemperWarning, match=r"node 2 has no label \(1 of 3 chosen ones\)"):
        nodes, labels = select_labelled(graph, [False, True, True, True])
    assert nodes.tolist() == [1, 3]
    assert labels.tolist() == [1, 1]
    for nodes in ([1, 2], [False, False, True, False]):
        with pytest.raises(InputError, match="node 2 has no label"):
            select_labelled(graph, nodes)


def test_a_mask_may_be_one_of_the_target_type():
    papers = np.array([1, 3, 4])
    for mask in ([True, False, True], [False, True, False, False, True]):
        assert select_nodes(mask, 5, papers).tolist() == [1, 4]
    assert select_nodes(None, 5, papers).tolist() == papers.tolist()
    with pytest.raises(InputError, match="4 entries but the graph has 5 nodes, 3 of them of the"):
        select_nodes([True] * 4, 5, papers)
    for nodes in ([3, 2], [True] * 5):
        with pytest.raises(InputError, match="is not of the target type"):
            select_nodes(nodes, 5, papers)
