import sys

import numpy as np
import pytest
import sklearn.base
from tests.helpers import FEW_SHIFTS, raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Linear, Module  # noqa: E402

from graphtemper import SourceCard, recalibrate  # noqa: E402
from graphtemper.errors import MissingExtraError  # noqa: E402
from graphtemper.pyg import Batches, predictor  # noqa: E402

from .data import CLASSES, FEATURES, mlp, model  # noqa: E402


@pytest.mark.parametrize("name", ["GCN", "GAT", "GraphSAGE", "GIN"])
def test_pyg_models_give_the_logits_of_a_plain_eval_pass(graph, name):
    module = model(name, dropout=0.5)
    data = graph.to_pyg()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(20):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(data.x, data.edge_index), data.y)
        loss.backward()
        optimiser.step()
    before = [parameter.grad.clone() for parameter in module.parameters()]
    first, second = predictor(module)(graph), predictor(module)(graph)
    assert module.training
    assert all(part.training for part in module.modules())
    after = [parameter.grad for parameter in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    module.eval()
    with torch.no_grad():
        expected = module(data.x, data.edge_index).numpy()
    assert first.shape == (250, CLASSES)
    assert first.dtype == np.float32
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first, expected, atol=1e-5)
    assert (first.argmax(1) == graph.labels).mean() > 0.5


def test_a_plain_torch_mlp_ignores_the_edges(graph):
    module = mlp()
    logits = predictor(module)(graph)
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(np.array(graph.features))).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_wrong_arguments():
    with raises("predictor"):
        predictor(lambda x: x)
    with raises("choice"):
        predictor(mlp(), returns="scores")


def test_a_pyg_data_is_not_a_graph(graph):
    with raises("wrong-type"):
        predictor(mlp())(graph.to_pyg())


@pytest.mark.filterwarnings("ignore:in the source:graphtemper.errors.GraphTemperWarning")
def test_a_module_with_other_classes_is_refused_by_card_and_target(graph):
    small = {"compositions": 0, "shifts": FEW_SHIFTS}
    narrow, right, wide = (predictor(Linear(FEATURES, k)) for k in (2, 3, 4))
    with raises("range"):
        SourceCard.build(narrow, graph, graph.labelled, **small)
    card = SourceCard.build(right, graph, graph.labelled, **small)
    assert card.predictor == "Linear"
    for other in (narrow, wide):
        with raises("other-model"):
            recalibrate(other, graph, card)
        with raises("other-classes"):
            recalibrate(other(graph), graph, card)


def test_params_as_in_scikit_learn(graph):
    wrapped = predictor(model("GCN"), batches=Batches(hops=2))
    assert list(wrapped.get_params()) == ["module", "adapter", "returns", "batches"]
    again = sklearn.base.clone(wrapped)
    assert again.module is not wrapped.module
    assert np.array_equal(again(graph), wrapped(graph))


class Lit(Module):
    """A LightningModule in all but name: hooks next to forward."""

    def __init__(self):
        super().__init__()
        self.net = model("GCN", dropout=0.5)

    def forward(self, data):
        return self.net(data.x, data.edge_index)

    def training_step(self, data, index):
        return torch.nn.functional.cross_entropy(self(data), data.y)


def test_a_lightning_module_after_training(graph):
    lit = Lit()
    data = graph.to_pyg()
    optimiser = torch.optim.Adam(lit.parameters(), lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        lit.training_step(data, 0).backward()
        optimiser.step()
    logits = predictor(lit)(graph)
    assert lit.training
    assert (logits.argmax(axis=1) == graph.labels).mean() > 0.5


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "graphtemper.pyg")
    with pytest.raises(MissingExtraError):
        __import__("graphtemper.pyg")
