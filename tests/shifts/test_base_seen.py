"""Shifted features seen through projections against the shifted matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import csbm, shifts
from graphtemper.graph.operators import column_moments
from graphtemper.shifts import Shift, compose

WEIGHTS = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
# These draw the same numbers as the shifts of the matrix.
SAME = [
    shifts.scale(0.4),
    shifts.offset(0.7),
    shifts.shuffle(0.5),
    shifts.blend(0.3),
    shifts.drop_columns(0.4),
    shifts.smooth(0.6),
    shifts.drop(0.5),
    shifts.mask(0.4),
    shifts.noise(0.0),
    compose(shifts.blend(0.4), shifts.drop_columns(0.3), shifts.rewire(0.5), shifts.scale(2.0)),
    compose(shifts.scale(2.0), shifts.smooth(0.5), shifts.shuffle(0.6), shifts.offset(0.5)),
    compose(shifts.drop_columns(0.3), shifts.offset(0.5), shifts.drop_columns(0.4)),
    compose(shifts.noise(0.8), shifts.mask(0.4)),
]
RANDOM = [
    shifts.noise(1.0),
    shifts.heterogeneous(2.0),
    shifts.heterogeneous(2.0, "region"),
    shifts.heterogeneous(2.0, "low-degree"),
    compose(shifts.noise(0.8), shifts.blend(0.3)),
    compose(shifts.noise(0.8), shifts.drop_columns(0.4), shifts.scale(1.5)),
    compose(shifts.drop_columns(0.4), shifts.noise(0.8), shifts.shuffle(0.5)),
    compose(shifts.noise(0.8), shifts.mask(0.4), shifts.noise(0.5)),
]


@pytest.fixture(scope="module", params=["dense", "sparse"])
def graph(request):
    graph = csbm.sample(600, 6, 0.8, 1.0, num_classes=3, num_features=40, seed=1)
    rare = np.where(np.abs(graph.features) > 0.8, graph.features + 0.3, 0.0)
    return graph.replace(features=sp.csr_matrix(rare) if request.param == "sparse" else rare)


@pytest.mark.parametrize("shift", SAME, ids=repr)
def test_what_is_not_noise_equals_the_shifted_matrix(graph, shift):
    whole = shift(graph, 3)
    shifted, seen = shift.through(graph, WEIGHTS, 3)
    np.testing.assert_array_equal(shifted.edges, whole.edges)
    np.testing.assert_allclose(seen.columns, whole.features @ WEIGHTS, atol=2e-4)
    mean, std = column_moments(whole.features)
    np.testing.assert_allclose(seen.moments[0][0], mean, atol=1e-5)
    # The deviation of blended rows is that of independent ones.
    most = 0.15 if "blend" in shift.families else 1e-5
    np.testing.assert_allclose(seen.moments[1][0], std, rtol=most, atol=1e-6)


@pytest.mark.parametrize("shift", RANDOM, ids=repr)
def test_noise_has_the_distribution_of_the_shifted_matrix(graph, shift):
    """Covariances over nodes and draws of all projections, and moments of columns."""
    sums, moments, seeds = [0.0, 0.0], [0.0, 0.0], 30
    for seed in range(seeds):
        whole, (_, seen) = shift(graph, seed), shift.through(graph, WEIGHTS, seed)
        for place, values in enumerate((seen.columns, whole.features @ WEIGHTS)):
            sums[place] = sums[place] + np.cov(values.T) / seeds
        for place, values in enumerate((seen.moments[1][0], column_moments(whole.features)[1])):
            moments[place] = moments[place] + values / seeds
    assert np.linalg.norm(sums[0] - sums[1]) < 0.07 * np.linalg.norm(sums[1])
    np.testing.assert_allclose(moments[0], moments[1], rtol=0.1, atol=1e-6)


def test_projections_that_are_known_are_not_computed_again(graph):
    known = (graph.features @ WEIGHTS).astype(np.float32)
    _, seen = shifts.drop(0.5).through(graph, WEIGHTS, 3, known)
    assert seen.columns is known
    _, seen = shifts.scale(2.0).through(graph, WEIGHTS, 3, known + 1.0)
    expected = shifts.scale(2.0)(graph, 3).features @ WEIGHTS
    np.testing.assert_allclose(seen.columns, expected + 2.0, atol=2e-4)
    # Smoothed features are other ones.
    _, seen = shifts.smooth(0.5).through(graph, WEIGHTS, 3, known + 1.0)
    np.testing.assert_allclose(
        seen.columns, shifts.smooth(0.5)(graph, 3).features @ WEIGHTS, atol=2e-4
    )


def test_a_shift_of_the_callers_own_reads_the_features_as_they_are_there(graph):
    def double(graph, level, rng):
        return graph.replace(features=2.0 * graph.features)

    shift = compose(shifts.scale(0.5), Shift("double", 1.0, double), shifts.offset(0.5))
    _, seen = shift.through(graph, WEIGHTS, 3)
    np.testing.assert_allclose(seen.columns, shift(graph, 3).features @ WEIGHTS, atol=2e-4)
