"""What a module gets of a graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Module  # noqa: E402
from torch_geometric.nn import GATv2Conv, GCNConv, GraphConv, models  # noqa: E402

from graphtemper import csbm  # noqa: E402
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


class Attributed(Module):
    def __init__(self, edge_dim=2):
        super().__init__()
        self.layer = GATv2Conv(6, 2, edge_dim=edge_dim)

    def forward(self, x, edge_index, edge_attr=None):
        return self.layer(x, edge_index, edge_attr)


class AttributedData(Attributed):
    def forward(self, data):
        return self.layer(data.x, data.edge_index, data.edge_attr)


class Computes(Attributed):
    """Attributes that the module makes of the features itself."""

    def forward(self, x, edge_index):
        first, second = edge_index
        return self.layer(x, edge_index, (x[first] - x[second])[:, :2])


@pytest.mark.parametrize(
    "make", [Attributed, AttributedData, lambda: models.GAT(6, 4, 2, 2, edge_dim=2)]
)
def test_attributes_that_layers_were_made_for_must_be_in_the_graph(make):
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, num_features=6, seed=1)
    model = predictor(make())
    with raises("predictor"):
        model(graph)
    full = graph.replace(edge_features=np.ones((graph.num_edges, 2), np.float32))
    assert model(full).shape == (60, 2)


@pytest.mark.parametrize("make", [Computes, lambda: Attributed(None)])
def test_modules_that_need_no_attributes_run_without(make):
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, num_features=6, seed=1)
    assert predictor(make())(graph).shape == (60, 2)


def test_negative_weights_are_named_where_a_module_cannot_read_them():
    graph = csbm.sample(60, degree=4, homophily=0.8, snr=1.0, num_features=6, seed=1)
    negative = graph.replace(edge_weight=np.full(graph.num_edges, -1.0, np.float32))
    with raises("not-finite"):
        predictor(GCNConv(6, 2))(negative)
    assert predictor(GraphConv(6, 2))(negative).shape == (60, 2)
