"""Calls of a predictor: its output is checked, and its errors are not hidden."""

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import Graph, SourceCard, csbm
from graphtemper.errors import InputError
from graphtemper.models.predictor import predict


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_classes=3, seed=1)


def test_logits_are_read_only_float64(graph):
    logits = predict(lambda g: np.asfortranarray(g.features[:, :3], dtype=np.float32), graph)
    assert logits.dtype == np.float64
    assert not logits.flags.writeable
    np.testing.assert_array_equal(logits, graph.features[:, :3])


def nan_at_17(graph):
    logits = np.zeros((graph.num_nodes, 2))
    logits[17, 1] = np.nan
    return logits


def write_dense(graph):
    graph.features[0, 0] = 1.0


def write_sparse(graph):
    graph.features.data[0] = 1.0


def swap_sparse(graph):
    graph.features.data = graph.features.data * 2
    return np.zeros((graph.num_nodes, 2))


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (nan_at_17, "node 17"),
        (lambda g: np.zeros((g.num_nodes + 1, 2)), "shape"),
        (lambda g: np.zeros(g.num_nodes), r"\[0, g\]"),
        (lambda g: np.zeros((g.num_nodes, 1)), "shape"),
        (lambda g: np.full((g.num_nodes, 4), "a"), "real numbers"),
        (lambda g: np.eye(4)[np.arange(g.num_nodes) % 4], "probabilities"),
        (write_dense, "copy"),
    ],
)
def test_bad_predictors(graph, predictor, message):
    with pytest.raises(InputError):
        predict(predictor, graph)


def swap_rows(graph):
    """Write to memory that is shared in spite of its flags, as torch.from_numpy does."""
    address = graph.features.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    shared = np.ctypeslib.as_array(address, graph.features.shape)
    shared[[0, 1]] = shared[[1, 0]]
    return np.arange(2.0 * graph.num_nodes).reshape(-1, 2)


def test_a_model_that_swaps_rows_is_refused_before_it_sees_a_graph(graph):
    before = graph.features.copy()
    with raises("changed-graph"):
        SourceCard.build(swap_rows, graph, range(100))
    np.testing.assert_array_equal(graph.features, before)
    with raises("changed-graph"):
        predict(swap_rows, graph.replace(features=before.copy()))


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_no_logits(graph, kind):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="sparse tensor"):
        predict(lambda g: getattr(torch.eye(g.num_nodes, 3), kind)(), graph)


@pytest.mark.parametrize("predictor", [write_sparse, swap_sparse])
def test_predictors_that_change_sparse_features(predictor):
    g = Graph(features=sp.csr_matrix(np.eye(3)), edges=[[0, 1]])
    with pytest.raises(InputError):
        predict(predictor, g)


def test_a_predictors_own_errors_pass_through(graph):
    def broken(graph):
        raise ValueError("out of memory")

    with pytest.raises(ValueError):
        predict(broken, graph)
