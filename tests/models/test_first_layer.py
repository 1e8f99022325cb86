"""A GCN's passes on projected columns against real runs of the same weights."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import csbm
from graphtemper.graph.moments import column_moments
from graphtemper.models import GCN
from graphtemper.models.first_layer import has_first_layer
from graphtemper.signals import neighbours as witness
from graphtemper.signals import passes as perturb
from graphtemper.signals.split_views import column_halves, feature_views

DRAWS = 1500


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


def test_half_views_equal_those_of_real_runs(case):
    model, graph = case
    mean = column_moments(graph.features)[0]
    halves = column_halves(graph.num_features, 3, seed=1)
    fast = feature_views(model, graph, halves, mean)
    slow = feature_views(lambda g: model(g), graph, halves, mean)
    for quick, real in zip(fast, slow, strict=True):
        np.testing.assert_allclose(np.array(quick), np.array(real), atol=2e-4)


def test_edge_dropout_equals_that_of_real_runs(case):
    model, graph = case
    fast = perturb.edge_dropout(model, graph, 0.4, 3, seed=5)
    slow = perturb.edge_dropout(lambda g: model(g), graph, 0.4, 3, seed=5)
    for quick, real in zip(fast, slow, strict=True):
        np.testing.assert_allclose(quick, real, atol=2e-4)


def test_noise_has_the_moments_of_real_noise(case):
    model, graph = case
    std = column_moments(graph.features)[1] * 1.5
    sets = []
    for predictor in (model, lambda g: model(g)):
        runs = perturb.feature_noise(predictor, graph, 0.6, DRAWS, seed=1, column_std=std)
        sets.append(np.stack([z.ravel() for z in runs]))
    fast, slow = sets
    # 120 logits: 5 standard errors are exceeded with probability 1e-4.
    error = np.sqrt((fast.var(axis=0) + slow.var(axis=0)) / DRAWS)
    assert (np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 5 * error + 1e-4).all()
    spread = fast.std(axis=0) / slow.std(axis=0)
    assert abs(np.log(spread)).max() < 5 * np.sqrt(2 / DRAWS)


def test_a_subclass_with_its_own_prediction_is_really_run(case):
    model, graph = case

    class Doubled(GCN):
        def __call__(self, graph):
            return 2 * super().__call__(graph)

    other = Doubled(hidden=6, layers=model.layers)
    other.layers_ = model.layers_
    assert has_first_layer(model)
    assert not has_first_layer(other)
    kept = next(perturb.edge_dropout(other, graph, 0.0, 1))
    np.testing.assert_allclose(kept, 2 * model(graph), rtol=1e-5)


def test_the_own_view_is_the_view_of_a_graph_without_edges(case):
    model, graph = case
    alone = sp.identity(graph.num_nodes, np.float32, format="csr")
    own = witness.own_view(model, graph)
    np.testing.assert_allclose(own, model.finish(model.project(graph.features), alone), rtol=1e-5)
