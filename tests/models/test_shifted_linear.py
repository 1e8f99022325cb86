"""Shifted features of linear models, read through projections and through the shifted matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm, shifts
from graphtemper.errors import InputError
from graphtemper.graph.operators import column_moments
from graphtemper.models import SGC, SIGN
from graphtemper.models.shifted_linear import Readout, saves
from graphtemper.shifts import Shift, compose
from graphtemper.shifts.steps import draw

HALVES = np.random.default_rng(0).random((5, 40)) < 0.5
ROWS = np.array([0, 3, 77, 300, 599])
# These draw the same numbers as the shifts of the matrix.
SAME = [
    shifts.scale(0.4),
    shifts.offset(0.7),
    shifts.shuffle(0.5),
    shifts.blend(0.3),
    shifts.drop_columns(0.4),
    shifts.smooth(0.6),
    shifts.drop(0.5),
    shifts.mask(0.0),
    shifts.noise(0.0),
    compose(shifts.blend(0.4), shifts.drop_columns(0.3), shifts.rewire(0.5), shifts.scale(2.0)),
    compose(shifts.scale(2.0), shifts.smooth(0.5), shifts.shuffle(0.6), shifts.offset(0.5)),
    compose(shifts.shuffle(0.3), shifts.blend(0.2), shifts.blend(0.4)),
]
RANDOM = [
    shifts.noise(1.0),
    shifts.heterogeneous(2.0),
    shifts.heterogeneous(2.0, "region"),
    shifts.heterogeneous(2.0, "low-degree"),
    shifts.mask(0.4),
    compose(shifts.noise(0.8), shifts.blend(0.3)),
    compose(shifts.noise(0.8), shifts.drop_columns(0.4), shifts.scale(1.5)),
    compose(shifts.drop_columns(0.4), shifts.noise(0.8), shifts.shuffle(0.5)),
    compose(shifts.noise(0.8), shifts.mask(0.4), shifts.noise(0.5)),
    compose(shifts.mask(0.4), shifts.smooth(0.5), shifts.noise(0.5)),
    compose(shifts.blend(0.3), shifts.mask(0.4), shifts.offset(0.5)),
]


def _graph(kind):
    graph = csbm.sample(600, 6, 0.8, 1.0, num_classes=3, num_features=40, seed=1)
    rare = np.where(np.abs(graph.features) > 0.8, graph.features + 0.3, 0.0)
    return graph.replace(features=sp.csr_matrix(rare) if kind == "sparse" else rare)


@pytest.fixture(scope="module", params=["dense", "sparse"])
def graph(request):
    return _graph(request.param)


@pytest.fixture(scope="module", params=[SIGN, SGC])
def readout(request, graph):
    model = request.param(hops=2).fit(graph)
    return Readout.of(model.fast_passes(), graph, HALVES)


def _dense(features):
    return features if isinstance(features, np.ndarray) else features.toarray()


@pytest.mark.parametrize("shift", SAME, ids=repr)
def test_what_is_not_noise_equals_the_shifted_matrix(graph, readout, shift):
    drawn, whole = draw(shift, graph, 3), shift(graph, 3)
    found = readout.shifted(drawn, ROWS)
    np.testing.assert_array_equal(drawn.graph.edges, whole.edges)
    np.testing.assert_allclose(found.passes(drawn.graph), readout.model.logits(whole), atol=2e-4)
    np.testing.assert_allclose(found.features, _dense(whole.features)[ROWS], atol=1e-5)
    mean, std = column_moments(whole.features)
    np.testing.assert_allclose(found.moments[0], mean, atol=1e-5)
    # The deviation of blended rows is that of independent ones.
    most = 0.15 if "blend" in shift.families else 1e-5
    np.testing.assert_allclose(found.moments[1], std, rtol=most, atol=1e-6)
    views = found.passes.half_views(drawn.graph, HALVES, mean)
    expected = list(readout.model.half_views(whole, HALVES, mean))
    assert len(expected) == 5
    for mine, theirs in zip(views, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-4)
    keep = np.arange(len(whole.links)) % 3 > 0
    mine, theirs = (
        p.edge_runner(g)(keep) for p, g in ((found.passes, drawn.graph), (readout.model, whole))
    )
    np.testing.assert_allclose(mine, theirs, atol=2e-4)
    np.testing.assert_allclose(
        found.passes.own_view(drawn.graph), readout.model.own_view(whole), atol=2e-4
    )


@pytest.mark.parametrize("shift", RANDOM, ids=repr)
def test_noise_and_masks_have_the_distribution_of_the_shifted_matrix(graph, readout, shift):
    """Covariances over nodes and draws of all projections, and moments of rows and columns."""
    sums, seeds = [0.0, 0.0], 30
    squares, moments = [0.0, 0.0], [0.0, 0.0]
    width = readout.model.num_terms
    for seed in range(seeds):
        drawn, whole = draw(shift, graph, seed), shift(graph, seed)
        found = readout.shifted(drawn, ROWS)
        columns = np.hstack([found.passes.terms, found.passes.half_terms])
        features = _dense(whole.features)
        std = column_moments(features)[1]
        other = features @ readout.weights
        for place, values in enumerate((columns, other)):
            sums[place] = sums[place] + np.cov(values.T) / seeds
        for place, values in enumerate((found.features, features[ROWS])):
            squares[place] += (values**2).mean() / seeds
        for place, values in enumerate((found.moments[1], std)):
            moments[place] = moments[place] + values / seeds
        # Rows that are known are the ones that were projected.
        np.testing.assert_allclose(
            found.features @ readout.weights[:, :width], columns[ROWS, :width], atol=2e-4
        )
    assert np.linalg.norm(sums[0] - sums[1]) < 0.07 * np.linalg.norm(sums[1])
    assert squares[0] == pytest.approx(squares[1], rel=0.1)
    np.testing.assert_allclose(moments[0], moments[1], rtol=0.06, atol=1e-6)


def test_half_of_the_nodes_receives_noise(graph, readout):
    drawn = draw(shifts.heterogeneous(2.0), graph, 5)
    found = readout.shifted(drawn, np.arange(600))
    changed = (found.features != _dense(graph.features)).any(axis=1)
    assert changed.sum() == 300
    clean = readout.columns[:, : readout.model.num_terms]
    np.testing.assert_array_equal((found.passes.terms != clean).any(axis=1), changed)


def test_the_same_seed_gives_the_same_bytes(graph, readout):
    shift = compose(shifts.mask(0.2), shifts.noise(0.5))
    one, two = (readout.shifted(draw(shift, graph, 4), ROWS) for _ in range(2))
    assert one.passes.half_terms.tobytes() == two.passes.half_terms.tobytes()
    other = readout.shifted(draw(shift, graph, 5), ROWS)
    assert one.passes.half_terms.tobytes() != other.passes.half_terms.tobytes()


def test_a_change_of_the_callers_own_is_made_on_the_matrix(graph, readout):
    def double(graph, level, rng):
        return graph.replace(features=graph.features * np.float32(2.0))

    shift = compose(shifts.noise(0.5), Shift("noise", 1.0, double), shifts.scale(0.5))
    drawn = draw(shift, graph, 3)
    assert len(drawn.steps) == 1
    whole = shift(graph, 3)
    np.testing.assert_allclose(
        readout.shifted(drawn, ROWS).passes(graph), readout.model.logits(whole), atol=2e-4
    )

    def narrow(graph, level, rng):
        return Graph(features=graph.features[:, :3], edges=graph.edges)

    with pytest.raises(InputError, match="40 feature columns but the graph has 3"):
        readout.shifted(draw(Shift("narrow", 1.0, narrow), graph), ROWS)


def test_projections_are_used_only_where_they_are_few():
    graph = _graph("dense")
    passes = SIGN(hops=2).fit(graph).fast_passes()
    assert saves(passes, graph, 1)  # 2 x 9 of 40 columns
    assert not saves(passes, graph, 2)
    assert not saves(passes, graph.replace(node_type=np.zeros(600, int)), 1)
