"""The share drift that column means allow, against true changes of the shares."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments
from graphtemper.models import SIGN
from graphtemper.signals.drift import (
    LARGEST_DRIFT,
    DriftBaseline,
    class_separation,
    column_sketch,
)

N = 8000


def _population(share, seed, gap=0.4):
    """Two classes that differ by a gap in each of 40 columns, the second with a given share."""
    rng = np.random.default_rng(seed)
    y = (rng.random(N) < share).astype(np.int64)
    x = gap * y[:, None] + rng.standard_normal((N, 40))
    edges = rng.integers(0, N, (4 * N, 2))
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return Graph(features=x.astype(np.float32), edges=edges, labels=y)


def _measured(graph, predictions):
    std = graph.features.std(axis=0).astype(np.float64)
    rows = np.arange(N)
    return DriftBaseline.measure(graph, rows, graph.labels, predictions, 2, std), std


def _drift(baseline, graph, std):
    return baseline.drift(*column_moments(graph.features), graph.num_nodes, std)


def test_the_drift_is_the_change_of_the_shares_where_only_they_change():
    source = _population(0.2, 1)
    baseline, std = _measured(source, np.zeros(N, dtype=np.int64))
    for share in (0.2, 0.3, 0.4):
        drift = _drift(baseline, _population(share, 2), std)
        assert drift == pytest.approx(share - 0.2, abs=0.03)
    assert _drift(baseline, _population(0.9, 3), std) == LARGEST_DRIFT


def test_nodes_without_a_label_are_the_source_as_well():
    source = _population(0.3, 1)
    x = source.features.copy()
    strange = np.arange(N) >= 0.92 * N  # 8 % of the nodes, and without labels
    x[strange] += 0.5
    graph = source.replace(features=x, labels=np.where(strange, -1, source.labels))
    std, rows = x.std(axis=0).astype(np.float64), np.flatnonzero(~strange)
    given = graph, rows, source.labels[rows], source.labels[rows], 2, std
    baseline = DriftBaseline.measure(*given)
    assert _drift(replace(baseline, apart=None), graph, std) > 0.03
    assert _drift(baseline, graph, std) < 0.01
    assert baseline.drift(*column_moments(x[rows]), rows.size, std) < 0.01
    assert _drift(baseline, graph.replace(features=x + 0.2), std) > 0.1


def test_the_recalls_of_a_constant_prediction():
    source = _population(0.2, 1)
    baseline, _ = _measured(source, np.zeros(N, dtype=np.int64))
    assert baseline.recalls.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "shift",
    [
        shifts.noise(2.0),
        shifts.shuffle(0.8),
        shifts.scale(0.4),
        shifts.scale(2.5),
        shifts.mask(0.7),
        shifts.rewire(0.5),
    ],
)
def test_corruption_with_the_same_nodes_gives_no_drift(shift):
    source = _population(0.3, 1)
    baseline, std = _measured(source, source.labels)
    assert _drift(baseline, shift(source, 5), std) < 0.02


def test_classes_without_a_difference_give_the_largest_drift():
    source = _population(0.3, 1, gap=0.0)
    baseline, std = _measured(source, source.labels)
    offset = source.replace(features=source.features + np.float32(0.1))
    assert _drift(baseline, offset, std) == LARGEST_DRIFT


def test_sparse_and_dense_features_are_alike():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((300, 50)) < 0.2, 1.0, 0.0).astype(np.float32)
    y = rng.integers(3, size=300)
    std = x.std(axis=0).astype(np.float64)
    std[7] = 0.0
    assert class_separation(sp.csr_matrix(x), y, 3, std) == pytest.approx(
        class_separation(x, y, 3, std), rel=1e-5
    )


def test_the_scale_of_a_sketch_does_not_depend_on_the_number_of_columns():
    """The mean square of a difference is that of the columns, within the sketch's error of 12 %."""
    rng = np.random.default_rng(4)
    for width in (10, 5000):
        mean, delta = rng.standard_normal((2, width))
        change = column_sketch(mean + delta, np.ones(width)) - column_sketch(mean, np.ones(width))
        assert (change**2).mean() == pytest.approx((delta**2).mean(), rel=0.5)


def test_share_drift_widens_the_interval():
    g = csbm.sample(1200, degree=6, homophily=0.6, snr=0.4, num_features=20, seed=1)
    keep = np.flatnonzero((g.labels == 0) | (np.arange(1200) % 4 == 0))
    new = np.full(1200, -1)
    new[keep] = np.arange(keep.size)
    edges = new[g.edges]
    g = Graph(
        features=g.features[keep], edges=edges[(edges >= 0).all(axis=1)], labels=g.labels[keep]
    )
    model = SIGN(hops=1).fit(g, range(400))
    card = SourceCard.build(model, g, range(400, g.num_nodes), compositions=0)
    same = recalibrate(model, g, card)
    offset = card.probe.column_std.mean() * 0.3
    shifted = recalibrate(model, g.replace(features=g.features + np.float32(offset)), card)
    width = [r.accuracy.high - r.accuracy.low for r in (same, shifted)]
    assert width[1] > 1.3 * width[0]
