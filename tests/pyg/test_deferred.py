"""Passes through a module's first matrices against passes over changed features."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.helpers import answer_bytes
from torch_geometric.nn import GCNConv, SGConv, TAGConv
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.errors import InputError
from graphtemper.models.predictor import ForwardPasses
from graphtemper.pyg import predictor

HALF = np.arange(12) % 2 == 0


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=12, seed=1)


def reader_of(model, graph, half=None):
    mean = np.asarray(graph.features.mean(axis=0), np.float64).ravel()
    return model.deferred(graph, mean, half), mean, np.full(12, 0.4)


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
    reader, mean, noise = reader_of(model, graph)
    slow = ForwardPasses(model)
    np.testing.assert_allclose(reader.logits(), model(graph), atol=1e-5)
    views = next(slow.half_views(graph, HALF[None], mean))
    both = reader.logits(columns=HALF, copies=np.arange(graph.num_nodes))
    np.testing.assert_allclose(both[:300], views.first, atol=1e-5)
    np.testing.assert_allclose(both[300:], views.own_first, atol=1e-5)
    keep = np.random.default_rng(1).random(graph.num_edges) > 0.3
    np.testing.assert_allclose(reader.logits(keep), slow.edge_runner(graph)(keep), atol=1e-5)
    draws = noise, np.random.default_rng(0)
    fast = np.array([reader.logits(noise=draws) for _ in range(300)])
    forward = np.array([*slow.noisy(graph, noise, 300, np.random.default_rng(3))])
    np.testing.assert_allclose(fast.std(axis=0).mean(), forward.std(axis=0).mean(), rtol=0.03)
    error = forward.std() / np.sqrt(300)
    assert np.abs(fast.mean(axis=0) - forward.mean(axis=0)).mean() < 2.0 * error


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [GCN, GraphSAGE])  # one matrix, and two
def test_products_of_a_half_that_was_announced_are_those_of_the_half(graph, kind, sparse):
    torch.manual_seed(0)
    model = predictor(kind(12, 8, 2, 2))
    if sparse:
        graph = graph.replace(features=sp.csr_matrix(np.maximum(graph.features, 0.0)))
    plain, mean, _ = reader_of(model, graph)
    reader, _, _ = reader_of(model, graph, np.arange(12) < 5)
    for columns in (None, np.arange(12) < 5, HALF):
        expected = plain.logits(columns=columns)
        np.testing.assert_allclose(reader.logits(columns=columns), expected, atol=1e-5)
    first = next(ForwardPasses(model).half_views(graph, (np.arange(12) < 5)[None], mean)).first
    np.testing.assert_allclose(reader.logits(columns=np.arange(12) < 5), first, atol=1e-5)


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
    reader, _, noise = reader_of(model, graph)
    draws = noise, np.random.default_rng(0)
    fast = np.array([reader.logits(noise=draws) for _ in range(300)])
    slow = np.array([*ForwardPasses(model).noisy(graph, noise, 300, np.random.default_rng(3))])
    np.testing.assert_allclose(fast.std(axis=0).mean(), slow.std(axis=0).mean(), rtol=0.03)


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
    model = predictor(make())
    assert model.deferred(graph, np.zeros(12)) is None


@pytest.mark.parametrize("kind", [GCN, GraphSAGE])
def test_a_card_of_any_module_stays_within_its_budget(graph, kind):
    torch.manual_seed(0)
    module = kind(12, 8, 2, 2)
    calls, forward = [], module.forward
    module.forward = lambda x, edge_index: calls.append(len(x)) or forward(x, edge_index)
    model = predictor(module)
    few = {"noise": (0.5, 2.0), "mask": (0.5,), "rewire": (0.5,)}
    card = SourceCard.build(model, graph, range(100, 300), shifts=few, compositions=40, budget=120)
    assert len(calls) <= card.passes <= 120
    with pytest.raises(InputError, match="a budget of 5 passes is too small") as refused:
        SourceCard.build(model, graph, range(100, 300), shifts=few, compositions=0, budget=5)
    least = int(re.search(r"useful budget is (\d+)", str(refused.value))[1])
    smallest = SourceCard.build(
        model, graph, range(100, 300), shifts=few, compositions=0, budget=least
    )
    assert smallest.passes == least
    calls.clear()
    expected = recalibrate(model, graph, card, range(100, 300))
    assert len(calls) <= 12
    # On a Data, the module itself runs once, and the pass that is compared with it is used.
    calls.clear()
    result = recalibrate(model, graph.to_pyg(), card, range(100, 300))
    whole = [size for size in calls if size >= graph.num_nodes]
    assert sum(1.5 if size > graph.num_nodes else 1 for size in whole) <= result.passes <= 12
    assert answer_bytes(result) == answer_bytes(expected)
    calls.clear()
    given = recalibrate(model, graph.to_pyg(), card, range(100, 300), logits=model(graph))
    assert len(calls) <= 12
    assert answer_bytes(given) == answer_bytes(expected)
