"""What a module gets of a graph."""

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Module  # noqa: E402
from torch_geometric.nn import models  # noqa: E402

from graphtemper.pyg import predictor  # noqa: E402

FEATURES, CLASSES = 6, 3


class Spy(Module):
    """Record the inputs of each call."""

    def answer(self, x):
        return torch.stack([x[:, 0], -x[:, 0], x[:, 1]], dim=1)


class TakesWeight(Spy):
    def forward(self, x, edge_index, edge_weight):
        self.inputs = edge_index, edge_weight
        return self.answer(x)


class TakesData(Spy):
    def forward(self, data):
        self.inputs = data
        return self.answer(data.x)


def test_every_edge_comes_in_both_directions_once_and_sorted(graph):
    module = TakesWeight()
    predictor(module)(graph)
    edge_index, edge_weight = module.inputs
    pairs = edge_index.T.numpy()
    both = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    assert np.array_equal(pairs, np.unique(both, axis=0))
    assert edge_weight.shape == (2 * graph.num_edges,)
    assert (edge_weight == 1).all()


def test_data_has_features_and_edges_and_never_labels(graph):
    module = TakesData()
    masked = graph.replace(train_masks=np.ones((1, 250), bool))
    predictor(module)(masked)
    assert set(module.inputs.keys()) == {"x", "edge_index"}
    assert module.inputs.is_undirected()
    assert module.inputs.is_coalesced()


def test_sparse_features_and_double_weights(graph):
    module = models.GCN(FEATURES, 16, num_layers=2, out_channels=CLASSES).double()
    dense = predictor(module)(graph)
    sparse = predictor(module)(graph.replace(features=sp.csr_matrix(graph.features)))
    assert np.array_equal(dense, sparse)
