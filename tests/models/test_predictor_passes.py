"""Who takes the passes of a model: the model itself if it declares them, else real runs."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.errors import InputError
from graphtemper.graph.operators import column_moments, operator
from graphtemper.models import GCN, SGC, SIGN, FirstLayerPasses, LinearPasses, Passes
from graphtemper.models.predictor import ForwardPasses, declared_passes, passes_of
from graphtemper.signals import passes as perturb
from graphtemper.signals.covariances import column_halves


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)


@pytest.fixture(scope="module")
def sign(graph):
    return SIGN(hops=1).fit(graph, range(200))


class Slow:
    """A user's linear model that counts its calls."""

    def __init__(self, fitted):
        self.first, self.second = fitted.weights_.astype(np.float32)
        self.bias, self.calls = fitted.intercept_.astype(np.float32), 0

    def __call__(self, graph):
        self.calls += 1
        around = operator(graph, "self-loop") @ (graph.features @ self.second)
        return graph.features @ self.first + around + self.bias


class Fast(Slow):
    """The same model, which declares its passes."""

    def fast_passes(self):
        return LinearPasses(np.stack([self.first, self.second]), self.bias, hops_used=(0, 1))


def _gcn(graph, kind=GCN):
    """Return a GCN with some weights; training one takes torch."""
    rng = np.random.default_rng(0)
    model = kind(hidden=4, layers=2)
    model.layers_ = [
        (rng.standard_normal(shape, np.float32), np.ones(shape[1], np.float32))
        for shape in ((graph.num_features, 4), (4, 2))
    ]
    return model


def _linear(graph, kind=SIGN):
    return kind(hops=1).fit(graph, range(200))


@pytest.fixture(scope="module")
def built(graph, sign):
    """The card of a fast model of a user, and how often building it called the model."""
    model = Fast(sign)
    card = SourceCard.build(model, graph, range(200, 400), compositions=0)
    return card, model.calls


def test_building_a_card_calls_a_fast_model_once_per_environment(built):
    card, calls = built
    # And a few times for the source and the fingerprint.
    assert calls <= len(card.atlas) + 10


def test_a_fast_model_answers_like_the_same_model_with_real_passes(graph, sign, built):
    card, _ = built
    slow, fast = Slow(sign), Fast(sign)
    results = [recalibrate(model, graph, card) for model in (fast, slow, sign)]
    assert fast.calls <= 3
    assert slow.calls > 30
    own, real, bundled = results
    assert own.temperature == pytest.approx(bundled.temperature, rel=1e-4)
    # Real passes draw other noise, so their estimate differs within its error.
    assert own.accuracy.low < real.accuracy.value < own.accuracy.high


def test_passes_of_a_users_own_class_are_used(graph):
    class Silent:
        """Passes that do not run the model at all."""

        thread_safe = False

        def noisy(self, graph, std, passes, rng, *, clean=None, rows=None):
            count = graph.num_nodes if rows is None else len(rows)
            return (np.ones((count, 2)) for _ in range(passes))

        def half_views(self, graph, halves, column_mean, rows=None):
            raise NotImplementedError

        def edge_runner(self, graph):
            return lambda keep: np.full((graph.num_nodes, 2), keep.sum())

        def own_view(self, graph):
            raise NotImplementedError

    class Model:
        def __call__(self, graph):
            raise AssertionError("the model was run")

        def fast_passes(self):
            return Silent()

    model = Model()
    assert isinstance(Silent(), Passes)
    assert isinstance(passes_of(model), Silent)
    rows = np.array([3, 1])
    runs = list(perturb.feature_noise(model, graph, 0.3, 2, rows=rows))
    assert [run.shape for run in runs] == [(2, 2), (2, 2)]
    (run,) = perturb.edge_dropout(model, graph, 0.5, 1)
    assert run[0, 0] == graph.num_edges - round(0.5 * graph.num_edges)


def test_bundled_models_declare_their_passes(graph):
    models = _linear(graph), _linear(graph, SGC), _gcn(graph)
    kinds = [type(passes_of(model)) for model in models]
    assert kinds == [LinearPasses, LinearPasses, FirstLayerPasses]
    assert all(passes_of(model).thread_safe for model in models)
    assert not passes_of(lambda graph: graph.features).thread_safe


@pytest.mark.parametrize(("base", "make"), [(SIGN, _linear), (GCN, _gcn)])
def test_a_subclass_that_predicts_in_its_own_way_is_really_run(graph, base, make):
    class Clipped(base):
        def __call__(self, graph):
            return np.clip(super().__call__(graph), -0.1, 0.1)

    class Renamed(base):
        pass

    assert declared_passes(make(graph, Renamed)) is not None
    clipped = make(graph, Clipped)
    assert declared_passes(clipped) is None
    std = column_moments(graph.features)[1]
    runs = passes_of(clipped).noisy(graph, std, 3, np.random.default_rng(0))
    assert all(np.abs(logits).max() <= 0.11 for logits in runs)


@pytest.mark.parametrize("model", [SIGN(), GCN()])
def test_a_model_that_is_not_fitted(model):
    with pytest.raises(InputError, match="not fitted"):
        passes_of(model)


@pytest.mark.parametrize("wrong", [lambda self: 3, "passes"])
def test_a_declaration_that_is_not_one(wrong):
    class Model:
        fast_passes = wrong

        def __call__(self, graph):
            return np.zeros((graph.num_nodes, 2))

    with pytest.raises(InputError, match="fast_passes of Model"):
        passes_of(Model())


def test_forward_passes_count_their_runs(graph, sign):
    model = Slow(sign)
    passes = ForwardPasses(model)
    mean, std = column_moments(graph.features)
    list(passes.noisy(graph, std, 5, np.random.default_rng(0)))
    assert model.calls == 5
    list(passes.half_views(graph, column_halves(graph.num_features, 2, seed=0), mean))
    assert model.calls == 5 + 8
    run = passes.edge_runner(graph)
    run(np.zeros(graph.num_edges, bool))
    assert model.calls == 14


def test_forward_passes_at_some_rows(graph, sign):
    passes, rows = ForwardPasses(sign), np.array([5, 2])
    mean, std = column_moments(graph.features)
    for whole, some in zip(
        passes.noisy(graph, std, 2, np.random.default_rng(3)),
        passes.noisy(graph, std, 2, np.random.default_rng(3), rows=rows),
        strict=True,
    ):
        np.testing.assert_array_equal(some, whole[rows])
    half = column_halves(graph.num_features, 1, seed=0)
    (whole,), (some,) = (passes.half_views(graph, half, mean, part) for part in (None, rows))
    for one, other in zip(whole, some, strict=True):
        np.testing.assert_array_equal(other, one[rows])


def test_no_noise_leaves_the_graph_as_it_is():
    sparse = Graph(features=sp.csr_matrix(np.eye(3)), edges=[[0, 1]])
    graphs = []

    def predictor(graph):
        graphs.append(graph)
        return np.zeros((graph.num_nodes, 2))

    list(ForwardPasses(predictor).noisy(sparse, np.zeros(3), 2, np.random.default_rng(0)))
    assert [graph is sparse for graph in graphs] == [True, True]


def test_a_model_that_needs_an_edge_has_an_own_view_of_zeros(graph, sign):
    def needs_edges(graph):
        if not graph.num_edges:
            raise ValueError("no edges")
        return sign(graph)

    own = ForwardPasses(needs_edges).own_view(graph)
    assert own.shape == (graph.num_nodes, 2)
    assert not own.any()


def test_an_own_view_depends_on_no_neighbour(graph, sign):
    few_edges = graph.replace(edges=graph.edges[:3])
    for model in (sign, _gcn(graph), Slow(sign)):
        own, other = (passes_of(model).own_view(g) for g in (graph, few_edges))
        np.testing.assert_allclose(own, other, atol=1e-5)
