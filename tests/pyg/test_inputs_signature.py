"""Which arguments a module is called with."""

import numpy as np
import pytest
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Module  # noqa: E402

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


class TakesAnnotated(Spy):
    def forward(self, g: "torch_geometric.data.Data"):  # noqa: F821
        return self.answer(g.x)


class OptionalEdges(Spy):
    def forward(self, x, edge_index=None, edge_weight=None):
        self.inputs = edge_index, edge_weight
        return self.answer(x)


class KeywordOnly(Spy):
    def forward(self, *, edge_index, x):
        return self.answer(x)


@pytest.mark.parametrize(
    "kind", [TakesWeight, TakesData, TakesAnnotated, OptionalEdges, KeywordOnly]
)
def test_signatures(graph, kind):
    logits = predictor(kind())(graph)
    assert np.array_equal(logits[:, 0], graph.features[:, 0])


def test_optional_edges_are_passed(graph):
    module = OptionalEdges()
    predictor(module)(graph)
    assert module.inputs[0] is not None
    assert module.inputs[1] is None


def test_an_adapter_says_how_the_module_is_called(graph):
    module = nn.Sequential("x, edge_index", [(nn.GCNConv(FEATURES, CLASSES), "x, edge_index -> x")])
    with raises("predictor"):
        predictor(module)
    logits = predictor(module, adapter=lambda m, data: m(data.x, data.edge_index))(graph)
    assert logits.shape == (250, CLASSES)


class NeedsMore(Spy):
    def forward(self, x, x_0, edge_index): ...


class TwoOfAKind(Spy):
    def forward(self, data, x): ...


class EdgesOnly(Spy):
    def forward(self, edge_index): ...


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (NeedsMore, "needs 'x_0'"),
        (TwoOfAKind, "is ambiguous"),
        (EdgesOnly, "none of x, x_dict and data"),
        (Module, "none of x, x_dict and data"),
    ],
)
def test_unclear_signatures_are_refused_when_wrapped(kind, says):
    with raises("predictor"):
        predictor(kind())


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (lambda: nn.SAGEConv(4, 2), ("edge_weight", "edge_features", "edge_type", "node_type")),
        (lambda: nn.GCNConv(4, 2), ("edge_type", "node_type")),
        (lambda: nn.RGCNConv(4, 2, 3), ("edge_weight", "edge_features", "node_type")),
        (lambda: nn.GAT(4, 8, 2, 2), ("edge_weight", "edge_type", "node_type")),
        (lambda: Whole(), ()),
    ],
)
def test_what_a_module_never_gets(module, expected):
    assert predictor(module()).unread == expected


class Whole(torch.nn.Module):
    def forward(self, data):
        return data.x
