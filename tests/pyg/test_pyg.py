"""PyG's own models, trained for real on cora, then used through `predictor`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from tests.helpers import real_graph  # noqa: E402
from torch.nn import Linear, Module  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch_geometric.nn import models  # noqa: E402
from torch_geometric.transforms import SIGN  # noqa: E402

from graphtemper import temperature  # noqa: E402
from graphtemper.pyg import predictor  # noqa: E402

WIDTH = 16


class Encoded(Module):
    """A linear map, a layer that keeps the width, a linear map."""

    def __init__(self, features, classes):
        super().__init__()
        self.first, self.last = Linear(features, WIDTH), Linear(WIDTH, classes)
        self.layer = self.make()

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x).relu(), 0.3, training=self.training)
        return self.last(self.between(x, edge_index))


class APPNP(Encoded):
    def make(self):
        return nn.APPNP(K=4, alpha=0.1)

    def between(self, x, edge_index):
        return self.layer(x, edge_index)


class FAConv(Encoded):
    def make(self):
        return nn.FAConv(WIDTH, eps=0.3)

    def between(self, x, edge_index):
        return self.layer(self.layer(x, x, edge_index), x, edge_index)


class SignNet(Module):
    """Reads the powers that PyG's SIGN transform puts into a Data."""

    def __init__(self, features, classes):
        super().__init__()
        self.parts = torch.nn.ModuleList(Linear(features, classes) for _ in range(3))

    def forward(self, data):
        return sum(part(data[key]) for part, key in zip(self.parts, ("x", "x1", "x2"), strict=True))


def basic(name, **options):
    return lambda graph, classes: getattr(models, name)(
        graph.num_features, WIDTH, num_layers=2, out_channels=classes, dropout=0.3, **options
    )


def own(kind):
    return lambda graph, classes: kind(graph.num_features, classes)


def linkx(graph, classes):
    return models.LINKX(graph.num_nodes, graph.num_features, WIDTH, classes, num_layers=1)


MODELS = {
    "GCN": basic("GCN"),
    "GAT": basic("GAT", heads=2),
    "SGConv": lambda graph, classes: nn.SGConv(graph.num_features, classes, K=2, cached=True),
    "SIGN": own(SignNet),
    "APPNP": own(APPNP),
    "FAConv": own(FAConv),
    "LINKX": linkx,
}


@pytest.fixture(scope="module")
def cora():
    return real_graph("cora")


def train(module, data, run, nodes, epochs=25):
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(epochs):
        optimiser.zero_grad()
        F.cross_entropy(run(module, data)[nodes], data.y[nodes]).backward()
        optimiser.step()


@pytest.mark.parametrize("name", MODELS)
def test_a_trained_model_answers_as_its_own_eval_pass(cora, name):
    data = cora.to_pyg()
    order = np.random.default_rng(1).permutation(cora.num_nodes)
    train_nodes, val, test = np.split(order, [1400, 2000])
    adapter, run = None, lambda module, data: module(data.x, data.edge_index)
    if name == "SIGN":
        data = SIGN(2)(data)  # once for training; the adapter does it for the graph at hand
        adapter, run = (lambda module, data: module(SIGN(2)(data))), Module.__call__
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = MODELS[name](cora, cora.num_classes)
        train(module, data, run, train_nodes)
        weights = {key: value.clone() for key, value in module.state_dict().items()}
        state = torch.get_rng_state()
        model = predictor(module, adapter=adapter)
        logits = model(cora.replace(labels=None))
        assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in module.modules())
    assert all(torch.equal(value, weights[key]) for key, value in module.state_dict().items())
    module.eval()
    with torch.no_grad():
        expected = run(module, data).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())
    accuracy = (logits.argmax(axis=1) == cora.labels)[test].mean()
    assert accuracy > 0.55  # the largest class has 30 %
    # One temperature, fitted where nothing was trained, never makes the NLL there worse.
    fitted = temperature.fit(logits[val], cora.labels[val])
    assert nll(logits[val], cora.labels[val], fitted) <= nll(logits[val], cora.labels[val], 1.0)


def nll(logits, labels, divisor):
    p = temperature.apply(logits, divisor)
    return -np.log(p[np.arange(len(labels)), labels]).mean()
