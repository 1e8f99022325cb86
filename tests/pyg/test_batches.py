"""Inference in batches gives the logits of one pass."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch_geometric.nn import models  # noqa: E402

from graphtemper import Graph  # noqa: E402
from graphtemper.pyg import Batches, predictor  # noqa: E402


@pytest.fixture(scope="module")
def lattice():
    """A ring with chords: neighbourhoods stay small, degrees differ."""
    rng = np.random.default_rng(0)
    ring = np.arange(300)
    edges = [np.column_stack([ring, np.roll(ring, -1)])]
    edges.append(np.column_stack([ring[::3], (ring[::3] + 2) % 300]))
    return Graph.from_edges(
        rng.standard_normal((300, 5)), np.concatenate(edges), labels=rng.integers(0, 3, 300)
    )


def nets():
    torch.manual_seed(0)
    yield 2, models.GCN(5, 8, num_layers=2, out_channels=3, norm="batch")
    yield 3, models.GAT(5, 8, num_layers=3, out_channels=3)
    yield 2, models.GraphSAGE(5, 8, num_layers=2, out_channels=3)
    yield 3, nn.SGConv(5, 3, K=3)
    yield 4, nn.APPNP(K=4, alpha=0.2)


@pytest.mark.parametrize("size", [7, 1000])
def test_batches_give_the_logits_of_one_pass(lattice, size):
    for hops, net in nets():
        whole = predictor(net)(lattice)
        parts = predictor(net, batches=Batches(hops=hops, size=size))(lattice)
        np.testing.assert_allclose(parts, whole, atol=1e-5)


def test_one_hop_fewer_gives_other_logits(lattice):
    net = models.GCN(5, 8, num_layers=2, out_channels=3)
    short = predictor(net, batches=Batches(hops=1, size=37))(lattice)
    assert np.abs(short - predictor(net)(lattice)).max() > 1e-3


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, x, edge_index):
        self.sizes.append(len(x))
        return torch.stack([x[:, 0], x[:, 1] - 3.0], dim=1)


def test_batches_hold_only_their_neighbourhood_also_of_sparse_features(lattice):
    net = Counts()
    sparse = lattice.replace(features=sp.csr_matrix(lattice.features))
    logits = predictor(net, batches=Batches(hops=1, size=50))(sparse)
    assert len(net.sizes) == 6
    assert max(net.sizes) < 80
    np.testing.assert_array_equal(logits[:, 0], lattice.features[:, 0])


def test_every_node_gets_logits_even_without_neighbours():
    empty = Graph(features=np.eye(7, 2), edges=np.empty((0, 2), int))
    logits = predictor(Counts(), batches=Batches(hops=3, size=2))(empty)
    np.testing.assert_array_equal(logits[:, 0], empty.features[:, 0])


def test_wrong_batches():
    with raises("range"):
        Batches(hops=-1)
    with raises("range"):
        Batches(hops=1, size=0)
    with raises("wrong-type"):
        predictor(Counts(), batches=1024)
