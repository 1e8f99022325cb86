"""Twelve kinds of modules, wrapped against unwrapped: equal logits, or one sentence that refuses.

The expected logits are those of the call that the user writes, on the user's own data.
"""

import numpy as np
import pytest
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from tests.helpers import FEW_SHIFTS  # noqa: E402
from torch.nn import Embedding, Linear, Module  # noqa: E402
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.transforms import ToSparseTensor  # noqa: E402

from graphtemper import Graph, SourceCard, recalibrate  # noqa: E402
from graphtemper.pyg import predictor  # noqa: E402

from .data import (  # noqa: E402
    CLASSES,
    FEATURES,
    attributed,
    coded,
    directed,
    looped,
    plain,
    repeated,
    some_loops,
    weighted,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:in the source", "ignore:.* training mask"
)  # not trained

RELATIONS = 3


def sparse(weights=False, remove=True):
    data = weighted() if weights else directed()
    attr = "edge_weight" if weights else None
    return ToSparseTensor(attr=attr, remove_edge_index=remove, layout=torch.sparse_csr)(data)


def relational():
    data = directed()
    data.edge_type = torch.randint(RELATIONS, (data.num_edges,))
    return data


def typed():
    data = relational()
    data.node_type = torch.randint(2, (data.num_nodes,))
    return data


def hetero():
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(90, FEATURES), torch.randn(40, 4)
    data["paper"].y = torch.randint(CLASSES, (90,))
    data["paper"].train_mask = torch.rand(90) < 0.5
    for kind, ends, count in (
        (("author", "writes", "paper"), (40, 90), 200),
        (("paper", "by", "author"), (90, 40), 150),
        (("paper", "cites", "paper"), (90, 90), 120),
    ):
        data[kind].edge_index = torch.stack([torch.randint(end, (count,)) for end in ends])
    return data


def in_another_order():
    data, other = hetero(), HeteroData()
    for kind in ("paper", "author", *reversed(data.edge_types)):
        other[kind].update(data[kind])
    return other


def by_type():
    class Sage(Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.SAGEConv((-1, -1), CLASSES)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    data, module = hetero(), nn.to_hetero(Sage(), hetero().metadata())
    module(data.x_dict, data.edge_index_dict)
    return module


def batched():
    data = plain()
    data.batch = torch.zeros(data.num_nodes, dtype=torch.long)
    return data


class Weighted(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


class WeightedData(Weighted):
    def forward(self, data):
        return self.conv(data.x, data.edge_index, data.edge_weight)


class Attributes(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.GATv2Conv(FEATURES, CLASSES, edge_dim=2)

    def forward(self, x, edge_index, edge_attr):
        return self.conv(x, edge_index, edge_attr)


class AttributesData(Attributes):
    def forward(self, data):
        return self.conv(data.x, data.edge_index, data.edge_attr)


class Codes(Module):
    def __init__(self):
        super().__init__()
        self.code, self.conv = Embedding(4, 2), nn.GATv2Conv(FEATURES, CLASSES, edge_dim=2)

    def forward(self, data):
        return self.conv(data.x, data.edge_index, self.code(data.edge_attr))


class Sparse(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.GCNConv(FEATURES, CLASSES)

    def forward(self, x, adj_t):
        return self.conv(x, adj_t)


class SparseData(Sparse):
    def forward(self, data):
        return self.conv(data.x, data.adj_t)


class Relational(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.RGCNConv(FEATURES, CLASSES, num_relations=RELATIONS)

    def forward(self, x, edge_index, edge_type):
        return self.conv(x, edge_index, edge_type)


class Typed(Relational):
    def __init__(self):
        super().__init__()
        self.kind = Embedding(2, CLASSES)

    def forward(self, x, edge_index, edge_type, node_type):
        return self.conv(x, edge_index, edge_type) + self.kind(node_type)


class Hetero(Module):
    def __init__(self, data, pick=True):
        super().__init__()
        sizes = {kind: data[kind].x.shape[1] for kind in data.node_types}
        self.conv = nn.HGTConv(sizes, 8, data.metadata(), heads=2)
        self.head, self.pick = Linear(8, CLASSES), pick

    def forward(self, x_dict, edge_index_dict):
        out = self.conv(x_dict, edge_index_dict)
        return self.head(out["paper"]) if self.pick else {"paper": self.head(out["paper"])}


class HeteroWhole(Hetero):
    def forward(self, data):
        return self.head(self.conv(data.x_dict, data.edge_index_dict)["paper"])


class Batched(Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.GCNConv(FEATURES, CLASSES), nn.GraphNorm(CLASSES)

    def forward(self, x, edge_index, batch):
        return self.norm(self.conv(x, edge_index), batch)


def sage():
    return nn.GraphSAGE(FEATURES, 16, num_layers=2, out_channels=CLASSES)


def by_adapter(module, data):
    return module.conv(data.x, data.edge_index, data.edge_attr)


# name: data, module, and the user's own call
KINDS = {
    "plain": (plain, sage, lambda m, d: m(d.x, d.edge_index)),
    "directed": (directed, sage, lambda m, d: m(d.x, d.edge_index)),
    "weights, required": (weighted, Weighted, lambda m, d: m(d.x, d.edge_index, d.edge_weight)),
    "weights, symmetric": (
        lambda: weighted(symmetric=True),
        Weighted,
        lambda m, d: m(d.x, d.edge_index, d.edge_weight),
    ),
    "weights, optional": (
        weighted,
        lambda: nn.GCNConv(FEATURES, CLASSES),
        lambda m, d: m(d.x, d.edge_index, d.edge_weight),
    ),
    "weights, forward(data)": (weighted, WeightedData, lambda m, d: m(d)),
    "attributes": (attributed, Attributes, lambda m, d: m(d.x, d.edge_index, d.edge_attr)),
    "attributes, forward(data)": (attributed, AttributesData, lambda m, d: m(d)),
    "attributes, codes": (coded, Codes, lambda m, d: m(d)),
    "self-loops": (looped, sage, lambda m, d: m(d.x, d.edge_index)),
    "some self-loops": (some_loops, sage, lambda m, d: m(d.x, d.edge_index)),
    "multi-edges": (repeated, sage, lambda m, d: m(d.x, d.edge_index)),
    "adj_t": (sparse, Sparse, lambda m, d: m(d.x, d.adj_t)),
    "adj_t with weights": (lambda: sparse(weights=True), Sparse, lambda m, d: m(d.x, d.adj_t)),
    "adj_t, forward(data)": (sparse, SparseData, lambda m, d: m(d)),
    "adj_t next to edge_index": (
        lambda: sparse(weights=True, remove=False),
        SparseData,
        lambda m, d: m(d),
    ),
    "relations": (relational, Relational, lambda m, d: m(d.x, d.edge_index, d.edge_type)),
    "node types": (typed, Typed, lambda m, d: m(d.x, d.edge_index, d.edge_type, d.node_type)),
    "hetero": (hetero, lambda: Hetero(hetero()), lambda m, d: m(d.x_dict, d.edge_index_dict)),
    "hetero, dictionary of logits": (
        hetero,
        lambda: Hetero(hetero(), pick=False),
        lambda m, d: m(d.x_dict, d.edge_index_dict)["paper"],
    ),
    "hetero, forward(data)": (hetero, lambda: HeteroWhole(hetero()), lambda m, d: m(d)),
    "hetero, types in another order": (
        in_another_order,
        lambda: Hetero(in_another_order()),
        lambda m, d: m(d.x_dict, d.edge_index_dict),
    ),
    "to_hetero": (hetero, by_type, lambda m, d: m(d.x_dict, d.edge_index_dict)["paper"]),
    "batch": (batched, Batched, lambda m, d: m(d.x, d.edge_index, d.batch)),
    "adapter": (attributed, Attributes, by_adapter),
}


@pytest.mark.parametrize("name", KINDS)
def test_wrapped_logits_equal_the_users_own(name):
    make_data, make_module, call = KINDS[name]
    data, module = make_data(), make_module().eval()
    with torch.no_grad():
        own = call(module, data.clone()).numpy()
    model = predictor(module, adapter=by_adapter if name == "adapter" else None)
    agreement = model.check(data)
    assert agreement.equal_predictions == 1.0
    graph = agreement.graph
    for converted in (graph, Graph.from_pyg(data)):
        np.testing.assert_allclose(model(converted)[graph.classified], own, atol=1e-5)
    # What to_pyg writes is again the user's data.
    back = graph.to_pyg()
    assert isinstance(back, Data | HeteroData)
    if "adj_t" not in name:  # to_pyg writes edge_index
        assert model.check(back).equal_predictions == 1.0


def test_nodes_of_hetero_data_are_those_of_the_classified_type(tmp_path):
    torch.manual_seed(0)
    data, module = hetero(), Hetero(hetero())
    model, mask = predictor(module), torch.arange(90) >= 30
    options = {"compositions": 0, "shifts": FEW_SHIFTS, "budget": 120}
    SourceCard.build(model, data, mask, **options).save(tmp_path / "card.json")
    card = SourceCard.load(tmp_path / "card.json")
    graph = Graph.from_pyg(data)
    assert card.num_nodes == 60
    expected = recalibrate(model, graph, card, graph.classified[mask.numpy()])
    # A graph in deployment has no labels that would tell which type is classified.
    del data["paper"].y
    result = recalibrate(model, data, card, mask)
    assert result.nodes.tolist() == expected.nodes.tolist()
    np.testing.assert_array_equal(result.probabilities, expected.probabilities)
    with raises("foreign"):
        recalibrate(model, data, card, [3])
    data["paper", "likes", "paper"].edge_index = data["paper", "cites", "paper"].edge_index
    with raises("other-types"):
        recalibrate(model, data, card)


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, torch.compile])
def test_a_module_that_was_compiled_or_made_parallel_is_called_itself(graph, wrap):
    module = torch.nn.Linear(graph.num_features, 3)
    np.testing.assert_array_equal(predictor(wrap(module))(graph), predictor(module)(graph))
    assert predictor(torch.nn.DataParallel(wrap(module))).module is module
