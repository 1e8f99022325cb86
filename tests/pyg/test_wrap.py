import sys

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.base

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")

from torch.nn import Dropout, Linear, Module, ReLU, Sequential  # noqa: E402
from torch_geometric.nn import models  # noqa: E402

from graphtemper import Graph, SourceCard, csbm, recalibrate  # noqa: E402
from graphtemper.card import atlas  # noqa: E402
from graphtemper.errors import InputError, MissingExtraError  # noqa: E402
from graphtemper.pyg import Batches, predictor  # noqa: E402
from graphtemper.temperature.scaling import apply  # noqa: E402

FEATURES, CLASSES = 6, 3


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        250, degree=6, homophily=0.8, snr=1.0, num_classes=CLASSES, num_features=FEATURES, seed=0
    )


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Small tensors gain nothing from threads, and wait long where the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def model(name, **options):
    return getattr(models, name)(FEATURES, 16, num_layers=2, out_channels=CLASSES, **options)


def mlp(*last):
    return Sequential(Linear(FEATURES, 8), ReLU(), Dropout(0.5), Linear(8, CLASSES), *last)


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
    with pytest.raises(InputError, match="adapter"):
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
        (EdgesOnly, "neither x nor data"),
        (Module, "neither x nor data"),
    ],
)
def test_unclear_signatures_are_refused_when_wrapped(kind, says):
    with pytest.raises(InputError, match=f"{says}.*adapter"):
        predictor(kind())


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


def test_sparse_features_and_double_weights(graph):
    module = model("GCN").double()
    dense = predictor(module)(graph)
    sparse = predictor(module)(graph.replace(features=sp.csr_matrix(graph.features)))
    assert np.array_equal(dense, sparse)


def test_probabilities_are_named_and_converted_on_request(graph):
    module = mlp()
    honest = apply(predictor(module)(graph))
    for last, kind in (
        (torch.nn.Softmax(dim=1), "probabilities"),
        (torch.nn.LogSoftmax(dim=1), "log-probabilities"),
    ):
        other = Sequential(module, last)
        with pytest.raises(InputError, match=f"returns {kind}, not logits; pass returns='{kind}'"):
            predictor(other)(graph)
        np.testing.assert_allclose(apply(predictor(other, returns=kind)(graph)), honest, atol=1e-6)
        with pytest.raises(InputError, match=f"does not return {kind} but logits"):
            predictor(module, returns=kind)(graph)
    half = Sequential(module, torch.nn.Softmax(dim=1)).bfloat16()
    with pytest.raises(InputError, match="returns probabilities"):
        predictor(half)(graph)


def test_a_probability_of_zero_stays_finite(graph):
    sure = predictor(
        mlp(),
        adapter=lambda _, data: torch.eye(3)[torch.zeros(data.num_nodes, dtype=torch.long)],
        returns="probabilities",
    )(graph)
    assert np.isfinite(sure).all()
    assert (apply(sure)[:, 0] == 1.0).all()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: (x, x), "returned tuple, not a tensor"),
        (lambda x: x.numpy(), "returned ndarray, not a tensor"),
        (lambda x: x[:-1], r"shape \(249, 6\) for 250 nodes"),
        (lambda x: x[:, 0], r"shape \(250,\), one number per node"),
        (lambda x: x[:, :1], r"shape \(250, 1\), one number per node"),
        (lambda x: x[None], r"shape \(1, 250, 6\)"),
        (lambda x: x.argmax(1, keepdim=True).expand(-1, 3), "not real numbers"),
        (lambda x: x.index_fill(0, torch.tensor([7]), torch.inf), "not finite at node 7"),
    ],
)
def test_wrong_outputs_are_named(graph, answer, says):
    with pytest.raises(InputError, match=says):
        predictor(mlp(), adapter=lambda _, data: answer(data.x))(graph)


def test_nan_weights_are_named(graph):
    module = model("GCN")
    with torch.no_grad():
        module.convs[1].bias[0] = torch.nan
    with pytest.raises(InputError, match=r"weight 'convs\.1\.bias' holds NaN"):
        predictor(module)(graph)


def test_weights_without_values_are_named(graph):
    with pytest.raises(InputError, match="has no values yet"):
        predictor(nn.GCNConv(-1, CLASSES))(graph)


def test_wrong_arguments():
    with pytest.raises(InputError, match=r"wraps a torch\.nn\.Module, not function"):
        predictor(lambda x: x)
    with pytest.raises(InputError, match="returns must be one of"):
        predictor(mlp(), returns="scores")


def test_a_pyg_data_is_not_a_graph(graph):
    with pytest.raises(InputError, match=r"not Data; Graph\.from_pyg\(data\) converts"):
        predictor(mlp())(graph.to_pyg())


class AlwaysDrops(Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)  # training=True is the default


class DrawsInVain(Module):
    def forward(self, x):
        torch.rand(3)
        return x


def test_dropout_that_ignores_evaluation_mode_is_named(graph):
    state = torch.get_rng_state()
    with pytest.raises(InputError, match="AlwaysDrops answers differently each time"):
        predictor(AlwaysDrops())(graph)
    assert np.array_equal(predictor(DrawsInVain())(graph), graph.features)
    assert torch.equal(torch.get_rng_state(), state)


def test_devices_without_values_are_named(graph):
    with pytest.raises(InputError, match="'weight' is on the device 'meta'"):
        predictor(Linear(FEATURES, CLASSES, device="meta"))(graph)
    data = graph.to_pyg()
    data.x = data.x.to("meta")
    with pytest.raises(InputError, match="x of the PyG data is on the device 'meta'"):
        Graph.from_pyg(data)


def test_a_module_with_other_classes_is_refused_by_card_and_target(graph, monkeypatch):
    few = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
    monkeypatch.setattr(atlas, "LEVELS", few)
    narrow, right, wide = (predictor(Linear(FEATURES, k)) for k in (2, 3, 4))
    with pytest.raises(InputError, match="label"):
        SourceCard.build(narrow, graph, compositions=0)
    card = SourceCard.build(right, graph, compositions=0)
    assert card.predictor == "Linear"
    for other in (narrow, wide):
        with pytest.raises(InputError, match="another model"):
            recalibrate(other, graph, card)
        with pytest.raises(InputError, match=r"for 3 classes but the model gives \d"):
            recalibrate(other(graph), graph, card)


def test_params_as_in_scikit_learn(graph):
    wrapped = predictor(model("GCN"), batches=Batches(hops=2))
    assert list(wrapped.get_params()) == ["module", "adapter", "returns", "batches"]
    again = sklearn.base.clone(wrapped)
    assert again.module is not wrapped.module
    assert np.array_equal(again(graph), wrapped(graph))


def lightning_like():
    """A LightningModule, or one in all but name: hooks and a trainer next to forward."""
    try:
        from pytorch_lightning import LightningModule as Base
    except ImportError:
        Base = Module

    class Lit(Base):
        def __init__(self):
            super().__init__()
            self.net = model("GCN", dropout=0.5)

        def forward(self, data):
            return self.net(data.x, data.edge_index)

        def training_step(self, data, index):
            return torch.nn.functional.cross_entropy(self(data), data.y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    return Lit()


def test_a_lightning_module_after_training(graph):
    lit = lightning_like()
    data = graph.to_pyg()
    optimiser = lit.configure_optimizers()
    for _ in range(30):
        optimiser.zero_grad()
        lit.training_step(data, 0).backward()
        optimiser.step()
    logits = predictor(lit)(graph)
    assert lit.training
    assert (logits.argmax(axis=1) == graph.labels).mean() > 0.5


def test_a_lightning_trainer_leaves_a_module_that_can_be_wrapped(graph, tmp_path):
    lightning = pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    lit = lightning_like()
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(
        lit, torch.utils.data.DataLoader([graph.to_pyg()], collate_fn=lambda items: items[0])
    )
    logits = predictor(lit)(graph)
    assert (logits.argmax(axis=1) == graph.labels).mean() > 0.5


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "graphtemper.pyg")
    with pytest.raises(MissingExtraError, match=r"pip install 'graphtemper\[pyg\]'"):
        __import__("graphtemper.pyg")
