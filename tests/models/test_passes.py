"""The one way to take a pass: fast passes against real runs of the same weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import TwoLayers, disjoint_copies

from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.errors import InputError
from graphtemper.graph.operators import column_moments, gaussian_factor, operator
from graphtemper.models import SGC, SIGN, Passes, linear_passes
from graphtemper.models.passes import Columns, ForwardPasses, Noise, ProjectedPasses, passes_of
from graphtemper.signals import passes as perturb

COPIES, PASSES = 100, 30
FEW = {"noise": (0.5, 2.0), "mask": (0.5,), "rewire": (0.5,)}


def _small(num_classes=3, sparse=False):
    g = csbm.sample(
        120, degree=5, homophily=0.7, snr=1.0, num_classes=num_classes, num_features=9, seed=2
    )
    g = g.replace(features=g.features + 0.5)
    if not sparse:
        return g
    return g.replace(features=sp.csr_matrix(np.where(g.features > 1.0, g.features, 0.0)))


MODELS = {
    "SIGN": lambda graph: SIGN(hops=2).fit(graph, range(60)),
    "SGC symmetric": lambda graph: SGC(hops=2, operator="symmetric").fit(graph, range(60)),
    "SGC mean": lambda graph: SGC(hops=1, operator="mean").fit(graph, range(60)),
    "no hops": lambda graph: SIGN(hops=0).fit(graph, range(60)),
    "two layers": TwoLayers,
    "three layers": lambda graph: TwoLayers(graph, layers=3),
}


def _changes(graph):
    rng = np.random.default_rng(1)
    columns = Columns(rng.random(graph.num_features) < 0.5, column_moments(graph.features)[0])
    keep = rng.random(graph.num_edges) < 0.6
    return [
        {},
        {"keep": keep},
        {"columns": columns},
        {"columns": columns, "keep": keep},
        {"alone": True},
        {"alone": True, "columns": columns},
    ]


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_fast_passes_equal_real_runs(make, sparse, num_classes):
    graph = _small(num_classes, sparse)
    model = make(graph)
    fast, slow = passes_of(model), ForwardPasses(model)
    assert isinstance(fast, ProjectedPasses)
    for change in _changes(graph):
        # Own views differ by design where the operator leaves the node itself out.
        if "alone" in change and getattr(model, "operator", "self-loop") != "self-loop":
            continue
        np.testing.assert_allclose(fast.run(graph, **change), slow.run(graph, **change), atol=2e-4)


def test_a_model_that_skips_the_node_itself_has_an_own_view_too():
    """An average over no neighbours would be zero, so the node's own features replace it."""
    graph = _small()
    fitted = SGC(hops=1, operator="mean").fit(graph, range(80))
    expected = graph.features @ fitted.weights_.sum(axis=0) + fitted.intercept_
    np.testing.assert_allclose(passes_of(fitted).run(graph, alone=True), expected, atol=1e-4)


def test_a_view_of_some_columns_depends_on_these_alone():
    graph = _small()
    passes, columns = passes_of(MODELS["SIGN"](graph)), _changes(graph)[2]["columns"]
    before = passes.run(graph, columns=columns)
    for half, same in ((columns.read, True), (~columns.read, False)):
        other = graph.replace(features=np.where(half, graph.features, 3.0 * graph.features[::-1]))
        after = passes.run(other, columns=columns)
        assert (np.abs(after - before).max() < 1e-4) == same


@pytest.fixture(scope="module")
def tiny():
    g = csbm.sample(12, degree=4, homophily=0.7, snr=1.0, num_classes=3, num_features=5, seed=3)
    return g.replace(features=g.features * [0.5, 1, 2, 3, 0])


def _with_weights(model, graph, num_classes=3):
    # Weights that are correlated across hops, so that the cross-hop covariance is large.
    rng = np.random.default_rng(0)
    terms = len(model.hops_used)
    shared = rng.normal(size=(1, graph.num_features, num_classes))
    model.weights_ = shared + 0.5 * rng.normal(size=(terms, graph.num_features, num_classes))
    model.intercept_ = rng.normal(size=num_classes)
    return model


def _true_covariance(model, graph, level, *, cross_hop=True):
    """Cov of vec(logits) under noise: sum over hops k, l of (S^k S^l^T) x (W_k^T V W_l)."""
    matrix = operator(graph, model.operator).toarray().astype(float)
    power = [np.linalg.matrix_power(matrix, k) for k in model.hops_used]
    variance = np.diag((level * column_moments(graph.features)[1]) ** 2)
    weights = model.weights_
    return sum(
        np.kron(power[k] @ power[m].T, weights[k].T @ variance @ weights[m])
        for k in range(len(power))
        for m in range(len(power))
        if cross_hop or k == m
    )


def _deviation(sample, mean, covariance):
    """Largest error of the sample mean and covariance, in standard errors."""
    spread = np.diag(covariance)
    centred = sample - mean
    estimate = centred.T @ centred / len(sample)
    error = np.sqrt((np.outer(spread, spread) + covariance**2) / len(sample))
    in_mean = np.abs(centred.mean(axis=0)) / np.sqrt(spread / len(sample))
    return in_mean.max(), (np.abs(estimate - covariance) / error).max()


def _noisy_sample(passes, graph, level):
    """Return 3000 draws of vec(logits): passes over a graph of disjoint copies."""
    noise = Noise(level * column_moments(graph.features)[1], np.random.default_rng(1))
    many = disjoint_copies(graph, COPIES)
    return np.vstack([passes.run(many, noise=noise).reshape(COPIES, -1) for _ in range(PASSES)])


@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2, operator="mean"), SIGN(hops=0)])
def test_noise_has_the_mean_and_covariance_of_noise_on_the_features(tiny, model):
    _with_weights(model, tiny)
    mean = model(tiny).ravel().astype(float)
    covariance = _true_covariance(model, tiny, 0.6)
    # 666 distinct entries: 5 standard errors are exceeded with probability 4e-4.
    for passes in (passes_of(model), ForwardPasses(model)):
        in_mean, in_covariance = _deviation(_noisy_sample(passes, tiny, 0.6), mean, covariance)
        assert in_mean < 5
        assert in_covariance < 5


def test_the_comparison_would_notice_missing_cross_hop_covariance(tiny):
    model = _with_weights(SIGN(hops=2), tiny)
    mean = model(tiny).ravel().astype(float)
    wrong = _true_covariance(model, tiny, 0.6, cross_hop=False)
    assert _deviation(_noisy_sample(passes_of(model), tiny, 0.6), mean, wrong)[1] > 10


@pytest.mark.parametrize("sparse", [False, True])
def test_noise_through_a_network_has_the_moments_of_real_noise(sparse):
    graph = _small(sparse=sparse)
    model = TwoLayers(graph)
    fast, slow = (_noisy_sample(p, graph, 0.9) for p in (passes_of(model), ForwardPasses(model)))
    draws = COPIES * PASSES
    # 360 logits: 5 standard errors are exceeded with probability 2e-4.
    error = np.sqrt((fast.var(axis=0) + slow.var(axis=0)) / draws)
    assert (np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 5 * error + 1e-4).all()
    assert abs(np.log(fast.std(axis=0) / slow.std(axis=0))).max() < 6 * np.sqrt(2 / draws)


def test_a_binary_model_draws_half_the_numbers():
    g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    passes, std = passes_of(SIGN(hops=2).fit(g)), column_moments(g.features)[1]
    assert gaussian_factor(passes.weights, std).shape == (3, 6)
    assert (passes.run(g, noise=Noise(std, np.random.default_rng(0)))[:, 0] == 0).all()


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
        return linear_passes(np.stack([self.first, self.second]), self.bias, hops_used=(0, 1))


def test_a_fast_model_of_a_user_answers_like_the_same_model_with_real_passes():
    graph = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    sign = SIGN(hops=1).fit(graph, range(200))
    fast, slow = Fast(sign), Slow(sign)
    card = SourceCard.build(fast, graph, range(200, 400), shifts=FEW, compositions=0)
    assert fast.calls <= len(card.atlas) + 5
    fast.calls = 0
    own, real, bundled = (recalibrate(model, graph, card) for model in (fast, slow, sign))
    assert fast.calls <= 3
    assert slow.calls > 15
    assert own.temperature == pytest.approx(bundled.temperature, rel=1e-4)
    # Real passes draw other noise, so their estimate differs within its error.
    assert own.accuracy.low < real.accuracy.value < own.accuracy.high


def test_passes_of_a_users_own_class_are_used():
    graph = _small()

    class Silent:
        """Passes that do not run the model at all."""

        thread_safe, cheap = False, True

        def run(self, graph, *, keep=None, columns=None, noise=None, alone=False):
            return np.full((graph.num_nodes, 2), 0.0 if keep is None else keep.sum())

    class Model:
        def __call__(self, graph):
            raise AssertionError("the model was run")

        def fast_passes(self):
            return Silent()

    assert isinstance(Silent(), Passes)
    (run,) = perturb.passes(Model(), graph, "edge", 1, share=0.5)
    assert run[0, 0] == graph.num_edges - round(0.5 * graph.num_edges)


def test_a_subclass_that_predicts_in_its_own_way_is_really_run():
    class Clipped(SIGN):
        def __call__(self, graph):
            return np.clip(super().__call__(graph), -0.1, 0.1)

    class Renamed(SIGN):
        pass

    graph = _small()
    assert isinstance(passes_of(Renamed(hops=1).fit(graph)), ProjectedPasses)
    clipped = passes_of(Clipped(hops=1).fit(graph))
    noise = Noise(column_moments(graph.features)[1], np.random.default_rng(0))
    assert np.abs(clipped.run(graph, noise=noise)).max() <= 0.11


def test_a_model_that_is_not_fitted():
    with pytest.raises(InputError):
        passes_of(SIGN())


@pytest.mark.parametrize("wrong", [lambda self: 3, "passes"])
def test_a_declaration_that_is_not_one(wrong):
    class Model:
        fast_passes = wrong

        def __call__(self, graph):
            return np.zeros((graph.num_nodes, 2))

    with pytest.raises(InputError):
        passes_of(Model())


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros((2, 4))},
        {"weights": np.zeros((3, 4, 2))},
        {"intercept": np.zeros(3)},
        {"intercept": np.zeros((2, 1))},
        {"hops_used": (1, 0)},
        {"hops_used": ()},
        {"hops_used": (0, -1)},
        {"operator": "sum"},
    ],
)
def test_weights_that_do_not_fit_together(change):
    fields = {"weights": np.zeros((2, 4, 2)), "intercept": np.zeros(2), "hops_used": (0, 1)}
    with pytest.raises(InputError):
        linear_passes(**fields | change)


def test_other_columns_than_those_fitted_on():
    graph = _small()
    passes = passes_of(SIGN().fit(graph))
    with pytest.raises(InputError):
        passes.run(graph.replace(features=graph.features[:, :4]))


def test_every_forward_pass_is_one_call_on_the_nodes_of_the_graph():
    graph, sizes = _small(), []

    def model(graph):
        sizes.append(graph.num_nodes)
        return np.asarray(graph.features)[:, :3] * 2.0

    passes = ForwardPasses(model)
    for change in _changes(graph):
        passes.run(graph, **change)
    assert sizes == [graph.num_nodes] * 6


@pytest.mark.parametrize("fast", [False, True])
def test_a_model_that_needs_an_edge_is_run_on_copies_without_any(fast):
    graph = _small()
    model = TwoLayers(graph)

    def check(graph):
        if not graph.num_edges:
            raise ValueError("no edges")

    def finish(projected, graph):
        check(graph)
        return model.finish(projected, graph)

    def called(graph):
        check(graph)
        return model(graph)

    expected = passes_of(model).run(graph, alone=True)
    passes = ProjectedPasses(model.weights[0], finish) if fast else ForwardPasses(called)
    np.testing.assert_allclose(passes.run(graph, alone=True), expected, atol=1e-5)
    columns = _changes(graph)[2]["columns"]
    expected = passes_of(model).run(graph, alone=True, columns=columns)
    np.testing.assert_allclose(passes.run(graph, alone=True, columns=columns), expected, atol=1e-5)
    if not fast:  # copies would lack the weights of edges
        weighted = graph.replace(edge_weight=np.ones(graph.num_edges))
        assert not passes.run(weighted, alone=True).any()


def test_unchanged_features_are_not_copied():
    sparse = Graph(features=sp.csr_matrix(np.eye(3)), edges=[[0, 1]])
    seen = []

    def predictor(graph):
        seen.append(graph.features)
        return np.zeros((graph.num_nodes, 2))

    ForwardPasses(predictor).run(sparse, keep=np.array([False]))
    assert seen[0] is sparse.features


def test_products_that_are_kept_belong_to_their_graph_and_columns():
    one, other = _small(), _small()
    other = other.replace(features=other.features[::-1].copy())
    model = TwoLayers(one)
    passes, columns = passes_of(model), _changes(one)[2]["columns"]
    halves = [None, columns, Columns(~columns.read, columns.mean)]
    for graph in (one, other, one):
        for half in (*halves, *halves[::-1]):
            expected = ForwardPasses(model).run(graph, columns=half)
            np.testing.assert_allclose(passes.run(graph, columns=half), expected, atol=2e-4)
