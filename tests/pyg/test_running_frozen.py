"""The state of a module during a call and after it."""

import numpy as np
import pytest
from tests.helpers import raises

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Linear, Module  # noqa: E402

from graphtemper import Graph, csbm  # noqa: E402
from graphtemper.pyg import predictor  # noqa: E402

from .data import CLASSES, FEATURES, mlp, model  # noqa: E402


def test_mixed_training_flags_come_back_even_after_an_error(graph):
    module = mlp()
    module[2].eval()
    flags = [part.training for part in module.modules()]
    assert len(set(flags)) == 2
    predictor(module)(graph)
    assert [part.training for part in module.modules()] == flags
    with pytest.raises(RuntimeError):
        predictor(module)(graph.replace(features=np.ones((250, FEATURES + 1))))
    assert [part.training for part in module.modules()] == flags
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("layer", [nn.GCNConv, nn.SGConv])
def test_a_layer_that_cached_the_source_graph_sees_the_target(graph, layer):
    module = layer(FEATURES, CLASSES, cached=True)
    source = csbm.sample(
        250, degree=3, homophily=0.2, snr=1.0, num_classes=3, num_features=FEATURES, seed=9
    )
    data = source.to_pyg()
    cached = module(data.x, data.edge_index).detach()
    fresh = layer(FEATURES, CLASSES)
    fresh.load_state_dict(module.state_dict())
    np.testing.assert_allclose(predictor(module)(graph), predictor(fresh)(graph), atol=1e-6)
    # The caches are restored: the module returns the source's logits for any graph.
    target = graph.to_pyg()
    assert module.cached
    assert torch.equal(module(target.x, target.edge_index), cached) == (layer is nn.SGConv)


def test_nan_weights_are_named(graph):
    module = model("GCN")
    with torch.no_grad():
        module.convs[1].bias[0] = torch.nan
    with raises("predictor"):
        predictor(module)(graph)


def test_weights_without_values_are_named(graph):
    with raises("not-fitted"):
        predictor(nn.GCNConv(-1, CLASSES))(graph)


class AlwaysDrops(Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)  # training=True is the default


class DrawsInVain(Module):
    def forward(self, x):
        torch.rand(3)
        return x


def test_dropout_that_ignores_evaluation_mode_is_named(graph):
    state = torch.get_rng_state()
    with raises("other-model"):
        predictor(AlwaysDrops())(graph)
    assert np.array_equal(predictor(DrawsInVain())(graph), graph.features)
    assert torch.equal(torch.get_rng_state(), state)


def test_devices_without_values_are_named(graph):
    with raises("predictor"):
        predictor(Linear(FEATURES, CLASSES, device="meta"))(graph)
    data = graph.to_pyg()
    data.x = data.x.to("meta")
    with raises("predictor"):
        Graph.from_pyg(data)
