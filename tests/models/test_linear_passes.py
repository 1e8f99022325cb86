"""The fast passes of linear models against real runs of the same weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import disjoint_copies

from graphtemper import csbm
from graphtemper.errors import InputError
from graphtemper.graph.operators import column_moments, operator
from graphtemper.models import SGC, SIGN, LinearPasses
from graphtemper.models.predictor import ForwardPasses, passes_of
from graphtemper.signals.covariances import column_halves

COPIES, PASSES = 100, 30


@pytest.fixture(scope="module")
def tiny():
    g = csbm.sample(12, degree=4, homophily=0.7, snr=1.0, num_classes=3, num_features=5, seed=3)
    return g.replace(features=g.features * [0.5, 1, 2, 3, 0])


def _small(num_classes=3, sparse=False):
    g = csbm.sample(
        120, degree=5, homophily=0.7, snr=1.0, num_classes=num_classes, num_features=9, seed=2
    )
    g = g.replace(features=g.features + 0.5)
    if not sparse:
        return g
    return g.replace(features=sp.csr_matrix(np.where(g.features > 1.0, g.features, 0.0)))


def _models(graph):
    return [
        SIGN(hops=2).fit(graph, range(60)),
        SGC(hops=2, operator="symmetric").fit(graph, range(60)),
        SGC(hops=1, operator="mean").fit(graph, range(60)),
        SIGN(hops=0).fit(graph, range(60)),
    ]


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
    std = level * column_moments(graph.features)[1]
    runs = passes.noisy(disjoint_copies(graph, COPIES), std, PASSES, np.random.default_rng(1))
    return np.vstack([logits.reshape(COPIES, -1) for logits in runs])


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


def test_a_binary_model_draws_half_the_numbers():
    g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    passes = SIGN(hops=2).fit(g).fast_passes()
    std = column_moments(g.features)[1]
    assert passes.noise_factor(std).shape == (3, 6)
    runs = passes.noisy(g, 0.3 * std, 2, np.random.default_rng(0))
    assert all((logits[:, 0] == 0).all() for logits in runs)


def test_noise_on_some_rows_is_that_of_all_rows(tiny):
    passes = passes_of(_with_weights(SIGN(hops=2), tiny))
    std, rows = column_moments(tiny.features)[1], np.array([7, 2])
    whole = passes.noisy(tiny, std, 3, np.random.default_rng(4))
    some = passes.noisy(tiny, std, 3, np.random.default_rng(4), rows=rows)
    for logits, part in zip(whole, some, strict=True):
        np.testing.assert_allclose(part, logits[rows], atol=1e-5)


def test_noise_on_sparse_features_equals_that_on_dense_features():
    g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=1)
    passes = passes_of(SIGN().fit(g))
    sparse = g.replace(features=sp.csr_matrix(g.features))
    std = column_moments(g.features)[1]
    runs = [passes.noisy(graph, std, 2, np.random.default_rng(0)) for graph in (g, sparse)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2, operator="mean"), SIGN(hops=0)])
def test_edge_subsets_equal_real_runs(tiny, model):
    _with_weights(model, tiny)
    fast, slow = passes_of(model).edge_runner(tiny), ForwardPasses(model).edge_runner(tiny)
    for seed in range(5):
        keep = np.random.default_rng(seed).random(tiny.num_edges) < 0.6
        np.testing.assert_allclose(fast(keep), slow(keep), atol=1e-4)


@pytest.mark.parametrize("rows", [None, np.array([7, 2])])
@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2), SIGN(hops=0)])
def test_noise_of_several_sizes_is_made_of_the_same_numbers(tiny, model, rows):
    passes = passes_of(_with_weights(model, tiny))
    std = column_moments(tiny.features)[1]
    narrow = std * [1, 0, 0, 0, 0]  # of lower rank
    both = passes.noisy_in_sizes(
        tiny, [std, 3 * std, narrow], 4, np.random.default_rng(4), rows=rows
    )
    alone = passes.noisy(tiny, std, 4, np.random.default_rng(4), rows=rows)
    clean = passes.logits(tiny)[slice(None) if rows is None else rows]
    for (one, three, less), expected in zip(both, alone, strict=True):
        np.testing.assert_allclose(one, expected, atol=1e-5)
        np.testing.assert_allclose(three - clean, 3 * (one - clean), atol=1e-4)
        if model.hops == 0:  # noise in one column moves all nodes along its weights
            change, direction = less - clean, model.weights_[0, 0]
            aligned = change @ np.outer(direction, direction) / (direction @ direction)
            np.testing.assert_allclose(change, aligned, atol=1e-5)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("rows", [None, np.array([3, 0, 77])])
@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_half_views_equal_real_runs(num_classes, sparse, rows, known):
    g = _small(num_classes, sparse)
    mean = column_moments(g.features)[0]
    halves = column_halves(g.num_features, 3, seed=1)
    for model in _models(g):
        clean = model(g).astype(float) if known else None
        fast = passes_of(model).half_views(g, halves, mean, rows, clean=clean)
        slow = ForwardPasses(model).half_views(g, halves, mean, rows)
        # Own views differ by design where the operator leaves the node itself out.
        same = slice(None) if model.operator == "self-loop" else slice(2)
        for quick, real in zip(fast, slow, strict=True):
            np.testing.assert_allclose(np.array(quick[same]), np.array(real[same]), atol=1e-4)


def test_a_half_view_depends_on_its_half_alone():
    g = _small()
    passes, mean = passes_of(_models(g)[0]), column_moments(g.features)[0]
    half = column_halves(g.num_features, 1, seed=0)
    (before,) = passes.half_views(g, half, mean)
    changed = np.where(half[0], g.features, g.features[::-1] * 3.0)
    (after,) = passes.half_views(g.replace(features=changed), half, mean)
    for read, unread in (("first", "second"), ("own_first", "own_second")):
        np.testing.assert_allclose(getattr(after, read), getattr(before, read), atol=1e-5)
        assert np.abs(getattr(after, unread) - getattr(before, unread)).max() > 0.1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", [SIGN(hops=2), SGC(hops=2, operator="self-loop"), SIGN(hops=0)])
def test_the_own_view_is_the_view_without_edges(model, sparse):
    """Where the operator counts the node itself, it is all that is left without neighbours."""
    g = _small(sparse=sparse)
    fitted = model.fit(g, range(80))
    own = passes_of(fitted).own_view(g)
    np.testing.assert_allclose(own, fitted(g.without_neighbours()), atol=1e-4)


def test_a_model_that_skips_the_node_itself_has_an_own_view_too():
    """An average over no neighbours would be zero, so the node's own features replace it."""
    g = _small()
    fitted = SGC(hops=1, operator="mean").fit(g, range(80))
    expected = g.features @ fitted.weights_.sum(axis=0) + fitted.intercept_
    np.testing.assert_allclose(passes_of(fitted).own_view(g), expected, atol=1e-4)


def test_other_columns_than_those_fitted_on():
    g = _small()
    passes = passes_of(SIGN().fit(g))
    with pytest.raises(InputError, match="9 feature columns but the graph has 4"):
        passes.own_view(g.replace(features=g.features[:, :4]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros((2, 4))}, "weights must have shape"),
        ({"weights": np.zeros((3, 4, 2))}, "weights must have shape"),
        ({"intercept": np.zeros(3)}, "weights must have shape"),
        ({"intercept": np.zeros((2, 1))}, "weights must have shape"),
        ({"hops_used": (1, 0)}, "must increase"),
        ({"hops_used": ()}, "must increase"),
        ({"hops_used": (0, -1)}, "hops_used"),
        ({"operator": "sum"}, "unknown operator 'sum'"),
    ],
)
def test_weights_that_do_not_fit_together(change, message):
    fields = {"weights": np.zeros((2, 4, 2)), "intercept": np.zeros(2), "hops_used": (0, 1)}
    with pytest.raises(InputError, match=message):
        LinearPasses(**fields | change)


def test_weights_that_change_in_place_are_noticed():
    """Projected features are shared between passes, for the same weights only."""
    graph = _small()
    model = SIGN(hops=1).fit(graph, range(60))
    before = model(graph) - model.intercept_.astype(np.float32)
    model.weights_ *= 2.0
    after = model(graph) - model.intercept_.astype(np.float32)
    np.testing.assert_allclose(after, 2.0 * before, rtol=1e-5, atol=1e-5)
