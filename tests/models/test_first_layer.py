"""A GCN's passes on projected columns against real runs of the same weights."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import disjoint_copies

from graphtemper import csbm
from graphtemper.graph.operators import column_moments
from graphtemper.models import GCN
from graphtemper.models.predictor import ForwardPasses
from graphtemper.signals.covariances import column_halves

COPIES, PASSES = 50, 30
DRAWS = COPIES * PASSES


def _graph(sparse):
    g = csbm.sample(40, degree=5, homophily=0.7, snr=1.0, num_classes=3, num_features=7, seed=2)
    scaled = g.features * np.array([0.5, 1, 2, 3, 0, 1, 1], dtype=np.float32) + 0.5
    return g.replace(
        features=sp.csr_matrix(np.where(scaled > 0.8, scaled, 0)) if sparse else scaled
    )


def _model(graph, layers):
    rng = np.random.default_rng(0)
    widths = [graph.num_features, *[6] * (layers - 1), graph.num_classes]
    model = GCN(hidden=6, layers=layers)
    model.layers_ = [
        (rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1]).astype(np.float32))
        for shape in pairwise(widths)
    ]
    return model


@pytest.fixture(params=[(1, False), (2, False), (2, True), (3, True)], ids=str)
def case(request):
    layers, sparse = request.param
    graph = _graph(sparse)
    return _model(graph, layers), graph


@pytest.mark.parametrize("rows", [None, np.array([3, 0, 17])])
def test_half_views_equal_those_of_real_runs(case, rows):
    model, graph = case
    mean = column_moments(graph.features)[0]
    halves = column_halves(graph.num_features, 3, seed=1)
    fast = model.fast_passes().half_views(graph, halves, mean, rows)
    slow = ForwardPasses(model).half_views(graph, halves, mean, rows)
    for quick, real in zip(fast, slow, strict=True):
        np.testing.assert_allclose(np.array(quick), np.array(real), atol=2e-4)


def test_edge_subsets_equal_real_runs(case):
    model, graph = case
    fast, slow = model.fast_passes().edge_runner(graph), ForwardPasses(model).edge_runner(graph)
    for seed in range(3):
        keep = np.random.default_rng(seed).random(graph.num_edges) < 0.6
        np.testing.assert_allclose(fast(keep), slow(keep), atol=2e-4)


def test_noise_has_the_moments_of_real_noise(case):
    model, graph = case
    std = column_moments(graph.features)[1] * 0.9
    samples = []
    for passes in (model.fast_passes(), ForwardPasses(model)):
        runs = passes.noisy(disjoint_copies(graph, COPIES), std, PASSES, np.random.default_rng(1))
        samples.append(np.vstack([logits.reshape(COPIES, -1) for logits in runs]))
    fast, slow = samples
    # 120 logits: 5 standard errors are exceeded with probability 1e-4.
    error = np.sqrt((fast.var(axis=0) + slow.var(axis=0)) / DRAWS)
    assert (np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 5 * error + 1e-4).all()
    spread = fast.std(axis=0) / slow.std(axis=0)
    assert abs(np.log(spread)).max() < 5 * np.sqrt(2 / DRAWS)


def test_noise_on_some_rows_is_that_of_all_rows(case):
    model, graph = case
    std, rows = column_moments(graph.features)[1], np.array([7, 2])
    passes = model.fast_passes()
    whole = passes.noisy(graph, std, 2, np.random.default_rng(4))
    some = passes.noisy(graph, std, 2, np.random.default_rng(4), rows=rows)
    for logits, part in zip(whole, some, strict=True):
        np.testing.assert_array_equal(part, logits[rows])


def test_the_own_view_is_the_view_of_a_graph_without_edges(case):
    model, graph = case
    own = model.fast_passes().own_view(graph)
    np.testing.assert_array_equal(own, ForwardPasses(model).own_view(graph))
