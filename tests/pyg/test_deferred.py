"""Passes through a module's first matrices against passes over changed features."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.helpers import answer_bytes
from torch_geometric.nn import GCNConv, SGConv, TAGConv
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.errors import InputError
from graphtemper.models.passes import Columns, ForwardPasses, Noise, passes_of
from graphtemper.pyg import predictor

HALF = np.arange(12) % 2 == 0


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=12, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "make",
    [
        lambda: GCN(12, 16, 2, 2),
        lambda: GAT(12, 16, 2, 2),
        lambda: GraphSAGE(12, 8, 2, 2),
        lambda: GraphSAGE(12, 8, 2, 2, aggr="sum"),
        lambda: GIN(12, 8, 2, 2, train_eps=True),
        lambda: SGConv(12, 2, K=2),
        lambda: TAGConv(12, 2, K=2),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_pass_through_matrices_is_a_pass_over_the_features(graph, make, sparse):
    torch.manual_seed(0)
    model = predictor(make())
    if sparse:
        graph = graph.replace(features=sp.csr_matrix(np.maximum(graph.features, 0.0)))
    fast, slow = passes_of(model), ForwardPasses(model)
    assert type(fast).__name__ == "ModulePasses"
    columns = Columns(HALF, np.asarray(graph.features.mean(axis=0), np.float64).ravel())
    keep = np.random.default_rng(1).random(graph.num_edges) > 0.3
    for change in ({}, {"columns": columns}, {"columns": columns, "alone": True}, {"keep": keep}):
        np.testing.assert_allclose(fast.run(graph, **change), slow.run(graph, **change), atol=1e-5)
    assert not model.maps.refused
    _same_noise(fast, slow, graph)


def _same_noise(fast, slow, graph):
    first, second = (
        np.array([passes.run(graph, noise=noise) for _ in range(300)])
        for passes, noise in (
            (fast, Noise(np.full(12, 0.4), np.random.default_rng(0))),
            (slow, Noise(np.full(12, 0.4), np.random.default_rng(3))),
        )
    )
    np.testing.assert_allclose(first.std(axis=0).mean(), second.std(axis=0).mean(), rtol=0.03)
    error = second.std() / np.sqrt(300)
    assert np.abs(first.mean(axis=0) - second.mean(axis=0)).mean() < 2.0 * error


class Residual(torch.nn.Module):
    """Two matrices read the same features, so that their noise is joint."""

    def __init__(self):
        super().__init__()
        self.conv, self.skip = GCNConv(12, 2), torch.nn.Linear(12, 2)

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(x, training=self.training)
        return self.conv(x, edge_index) + self.skip(x)


def test_noise_is_joint_over_all_matrices(graph):
    torch.manual_seed(0)
    module = Residual()
    with torch.no_grad():
        module.skip.weight.copy_(-module.conv.lin.weight)
    model = predictor(module)
    _same_noise(passes_of(model), ForwardPasses(model), graph)


class Squares(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 2)

    def forward(self, x):
        return self.layer(x * x)


class Computed(Squares):
    def forward(self, x):
        return x @ (2.0 * self.layer.weight).t()


class Centred(Squares):
    def forward(self, x):
        return self.layer(x - x.mean(dim=0))


class Weighted(Squares):
    """Weights per column are no weights of rows."""

    def forward(self, x):
        return self.layer(x * torch.arange(12.0))


@pytest.mark.parametrize(
    "make",
    [
        Squares,
        Computed,
        Centred,
        Weighted,
        lambda: GraphSAGE(12, 8, 2, 2, aggr="max"),
        lambda: GraphSAGE(12, 16, 2, 2),  # sums of rows have fewer columns than products
    ],
)
def test_a_module_that_reads_features_in_another_way_is_called_on_them(graph, make):
    torch.manual_seed(0)
    model = predictor(make())
    passes = passes_of(model)
    assert isinstance(passes, ForwardPasses)
    np.testing.assert_array_equal(passes.run(graph), model(graph))


class TurnsAway(torch.nn.Module):
    """Reads features in another way on graphs with many edges."""

    def __init__(self, columns=12, most=2500):
        super().__init__()
        self.layer, self.most = torch.nn.Linear(columns, 2), most

    def forward(self, x, edge_index):
        return self.layer(x if edge_index.shape[1] < self.most else torch.clamp(x, -1e9, 1e9))


def test_a_module_that_turns_out_to_read_features_otherwise_is_called_on_them(graph):
    model = predictor(TurnsAway(most=100))
    passes = passes_of(model)
    columns = Columns(HALF, np.zeros(12))
    expected = ForwardPasses(model).run(graph, columns=columns)
    np.testing.assert_array_equal(passes.run(graph, columns=columns), expected)
    assert model.maps.refused


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_noisy_passes_of_a_copy_are_the_same(graph, copied):
    torch.manual_seed(0)
    model = predictor(GCN(12, 8, 2, 2))

    def noisy(one):
        return passes_of(one).run(graph, noise=Noise(np.ones(12), np.random.default_rng(0)))

    np.testing.assert_array_equal(noisy(copied(model)), noisy(model))


@pytest.mark.parametrize("kind", [GCN, GraphSAGE])
def test_a_card_of_any_module_stays_within_its_budget(graph, kind):
    torch.manual_seed(0)
    module = kind(12, 8, 2, 2)
    rows, forward = [], module.forward
    module.forward = lambda x, edge_index: rows.append(len(x)) or forward(x, edge_index)
    model = predictor(module)
    few = {"noise": (0.5, 2.0), "mask": (0.5,), "rewire": (0.5,)}
    given = {"shifts": few, "compositions": 40, "budget": 120}

    def spent():
        """Passes in rows of the graph, without those over the tiny graphs of checks."""
        count = sum(size for size in rows if size > 6) / graph.num_nodes
        rows.clear()
        return count

    card = SourceCard.build(model, graph.to_pyg(), range(100, 300), **given)
    assert spent() == card.passes <= 120
    with pytest.raises(InputError):
        SourceCard.build(model, graph, range(100, 300), shifts=few, compositions=0, budget=5)
    rows.clear()
    expected = recalibrate(model, graph, card, range(100, 300))
    assert spent() == expected.passes <= 12
    # On a Data, the module itself runs once, and the pass that is compared with it is used.
    result = recalibrate(model, graph.to_pyg(), card, range(100, 300))
    assert spent() == result.passes <= 12
    result, expected = (replace(item, passes=None) for item in (result, expected))
    assert answer_bytes(result) == answer_bytes(expected)
    known = recalibrate(model, graph.to_pyg(), card, range(100, 300), logits=model(graph))
    assert answer_bytes(replace(known, passes=None)) == answer_bytes(expected)
