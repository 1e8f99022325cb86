"""The wrapped module is the user's module, or `check` and the conversion refuse it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS, raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Linear, Module, ReLU, Sequential  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from graphtemper import Graph, SourceCard, recalibrate  # noqa: E402
from graphtemper.errors import GraphTemperWarning, ModelError  # noqa: E402
from graphtemper.pyg import Batches, predictor  # noqa: E402

from .data import (  # noqa: E402
    CLASSES,
    FEATURES,
    attributed,
    directed,
    looped,
    model,
    plain,
    repeated,
    weighted,
)


def double():
    data = plain()
    data.x = data.x.double() + 1e-12
    return data


class TakesData(Module):
    """``forward(data)`` that reads some fields next to features and edges."""

    def __init__(self, *fields):
        super().__init__()
        self.conv, self.fields = nn.GCNConv(FEATURES, CLASSES), fields

    def forward(self, data):
        out = self.conv(data.x, data.edge_index, data.edge_weight)
        for field in self.fields:
            out = out + data[field].reshape(data.num_nodes, -1)[:, :1] * torch.arange(CLASSES)
        return out


class ReturnsTuple(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        hidden = self.conv(x, edge_index)
        return hidden, hidden.relu()


class InPlace(Module):
    def __init__(self):
        super().__init__()
        self.layers = Sequential(ReLU(inplace=True), Linear(FEATURES, CLASSES))

    def forward(self, x, edge_index):
        torch.rand(3)  # a module that draws random numbers is run twice
        edge_index.clamp_(max=0)
        return self.layers(x)


class AlwaysDrops(Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.GCNConv(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.conv(F.dropout(x), edge_index)


def gcn():
    return model("GCN", dropout=0.5)


def by_hand(module, data):
    """The call that a user would write."""
    if data.x.dtype == torch.float64:
        module = module.double()
    edge_weight = getattr(data, "edge_weight", None)
    return module(data.x, data.edge_index, *([] if edge_weight is None else [edge_weight]))


AGREE = {
    "plain GCN, in training mode with dropout": (gcn, plain),
    "GIN with batch norm": (lambda: model("GIN", norm="batch"), plain),
    "cached SGC": (lambda: nn.SGConv(FEATURES, CLASSES, K=2, cached=True), plain),
    "float64 model": (lambda: gcn().double(), double),
    "self-loops that GCN adds anyway": (gcn, looped),
    "works in place": (InPlace, plain),
}


@pytest.mark.parametrize("name", AGREE)
def test_wrapped_logits_are_those_of_the_module(name):
    make_module, make_data = AGREE[name]
    module, data = make_module(), make_data()
    before = data.clone()
    agreement = predictor(module).check(data)
    assert agreement.equal_predictions == 1.0
    assert module.training
    assert torch.equal(data.x, before.x)
    assert torch.equal(data.edge_index, before.edge_index)
    logits = predictor(module)(agreement.graph)
    with torch.no_grad():
        own = by_hand(module.eval(), data.clone()).numpy()
    np.testing.assert_allclose(logits, own, atol=1e-5)
    assert "Graph" not in repr(agreement)


def with_positions():
    data = plain()
    data.pos = torch.randn(200, 2)
    return data


@pytest.mark.parametrize("field", ["pos", "y"])
def test_a_model_that_reads_what_a_graph_does_not_show_is_refused(field):
    module = TakesData(field)
    with raises("other-model"):
        predictor(module).check(with_positions())
    assert module.training
    with raises("other-types"):
        Graph.from_pyg(with_positions())


def test_the_difference_is_reported():
    class ReadsOptional(Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.GCNConv(FEATURES, CLASSES)

        def forward(self, x, edge_index, pos=None):
            return self.conv(x, edge_index) + (0.0 if pos is None else pos[:, :1] * torch.arange(3))

    with raises("other-model"):
        predictor(ReadsOptional()).check(with_positions())


def test_what_a_module_does_not_read_may_be_dropped():
    data = with_positions()
    agreement = predictor(Linear(FEATURES, CLASSES)).check(data)
    assert agreement.dropped == ("pos",)
    graph = Graph.from_pyg(data, drop=agreement.dropped)
    assert np.array_equal(graph.edges, agreement.graph.edges)
    # An adapter that leaves the positions out says that they are not read.
    predictor(TakesData("pos"), adapter=lambda m, data: m.conv(data.x, data.edge_index)).check(data)


def test_weights_in_a_single_edge_attribute_count_as_weights():
    data, net = plain(), nn.GCNConv(FEATURES, CLASSES)
    data.edge_attr = 0.1 + 3.0 * torch.rand(data.num_edges, 1)
    own = net(data.x, data.edge_index, data.edge_attr.reshape(-1))
    assert predictor(net).check(data, logits=own).equal_predictions == 1.0


def test_own_logits_may_be_passed():
    data, net = weighted(), nn.GCNConv(FEATURES, CLASSES)
    model = predictor(net)
    weight = data.edge_weight
    assert model.check(data, logits=net(data.x, data.edge_index, weight)).equal_predictions == 1.0
    with raises("other-model"):
        model.check(data, logits=net(data.x, data.edge_index))
    with raises("shape"):
        model.check(data, logits=np.ones((7, 3)))


@pytest.mark.parametrize("role", ["edge_attr", "edge_type", "node_type", "x_dict"])
def test_an_input_that_the_graph_lacks_is_named(role):
    graph = Graph.from_pyg(plain())
    arguments = "x_dict, edge_index_dict" if role == "x_dict" else f"x, edge_index, {role}"
    scope = {"Module": Module}
    exec(f"class Net(Module):\n    def forward(self, {arguments}): return x", scope)
    with raises("predictor"):
        predictor(scope["Net"]())(graph)


def test_batches_that_read_too_few_hops_are_found():
    module = model("GCN")
    assert predictor(module, batches=Batches(hops=2, size=40)).check(plain())
    with raises("other-model"):
        predictor(module, batches=Batches(hops=0, size=10)).check(plain())


def test_half_precision_modules_and_features():
    data = plain()
    data.x = data.x.bfloat16()
    module = model("GCN").bfloat16()
    assert predictor(module).check(data).equal_predictions > 0.95
    data.edge_weight = 3.0 * torch.rand(data.num_edges)
    own = module.eval()(data.x, data.edge_index).detach()
    with raises("other-model"):
        predictor(module).check(data, logits=own)


def test_unstable_and_odd_outputs_are_named_by_check_too():
    with raises("other-model"):
        predictor(AlwaysDrops()).check(plain())
    with raises("not-logits"):
        predictor(ReturnsTuple()).check(plain())
    first = predictor(ReturnsTuple(), adapter=lambda m, data: m(data.x, data.edge_index)[0])
    assert first.check(plain()).equal_predictions == 1.0


def test_tensors_with_gradients_are_accepted():
    data = plain()
    data.x.requires_grad_()

    def with_gradients(module, data):
        with torch.enable_grad():
            return module(data.x, data.edge_index)

    model = predictor(nn.GCNConv(FEATURES, CLASSES), adapter=with_gradients)
    assert model.check(data).equal_predictions == 1.0


def test_an_error_inside_the_module_is_reported_as_that_error():
    data = plain()
    narrow = predictor(nn.GCNConv(FEATURES - 1, CLASSES))
    with pytest.raises(ModelError):
        narrow.check(data)
    with pytest.raises(ModelError) as caught:
        narrow(Graph.from_pyg(data))
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ModelError):
        predictor(TakesData("pos")).check(data)


@pytest.mark.filterwarnings("ignore:in the source", "ignore:.* training mask")  # not trained
def test_card_and_recalibration_take_data_and_check_it(tmp_path):
    small = {"compositions": 0, "shifts": FEW_SHIFTS}
    net = nn.SGConv(FEATURES, CLASSES, K=1)
    model, data = predictor(net), plain()
    card = SourceCard.build(model, data, data.y >= 0, **small)
    same = SourceCard.build(model, Graph.from_pyg(data), data.y >= 0, **small)
    # One pass compares the wrapped module with the module itself.
    assert card.passes == same.passes + 1
    assert replace(card, passes=None).to_json() == replace(same, passes=None).to_json()
    result = recalibrate(model, data, card)
    assert np.array_equal(
        result.probabilities, recalibrate(model, Graph.from_pyg(data), card).probabilities
    )
    for other in (directed(), looped(), repeated()):
        assert recalibrate(model, other, card).probabilities.shape == (200, CLASSES)
    for other in (weighted(), attributed()):  # SGConv reads weights, also given as an attribute
        with pytest.warns(GraphTemperWarning):
            assert recalibrate(model, other, card).probabilities.shape == (200, CLASSES)
    reads_positions, other = predictor(TakesData("pos")), with_positions()
    with raises("other-model"):
        SourceCard.build(reads_positions, other, compositions=0)
    with raises("other-types"):
        recalibrate(model(Graph.from_pyg(data)), other, card)
    for wrong in (lambda: recalibrate(net, data, card), lambda: SourceCard.build(net, data)):
        with raises("predictor"):
            wrong()
