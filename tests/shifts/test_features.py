import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphtemper import Graph, csbm, shifts
from graphtemper.graph.operators import adjacency


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    g = csbm.sample(2000, degree=5, homophily=0.7, snr=1.0, num_features=5, seed=1)
    return g.replace(features=rng.normal(3.0, [0.5, 1, 2, 4, 8], (2000, 5)))


def test_noise_has_the_stated_size_in_every_column(graph):
    change = shifts.noise(0.7)(graph).features - graph.features
    ratio = change.std(axis=0) / graph.features.std(axis=0)
    np.testing.assert_allclose(ratio, 0.7, rtol=0.06)
    np.testing.assert_allclose(change.mean(axis=0) / graph.features.std(axis=0), 0, atol=0.06)


def test_masked_entries_are_the_column_mean_and_their_share_is_the_level(graph):
    out = shifts.mask(0.3)(graph).features
    changed = out != graph.features
    assert changed.mean() == pytest.approx(0.3, abs=0.02)
    mean = np.broadcast_to(graph.features.mean(axis=0), out.shape)
    np.testing.assert_allclose(out[changed], mean[changed], rtol=1e-5)


def test_mask_stays_sparse_while_less_than_a_tenth_is_filled():
    x = sp.random(300, 40, 0.02, random_state=0, dtype=np.float32, format="csr")
    g = Graph(features=x, edges=[[0, 1]])
    assert sp.issparse(shifts.mask(0.05)(g).features)
    assert isinstance(shifts.mask(0.3)(g).features, np.ndarray)
    assert sp.issparse(shifts.shuffle(0.9)(g).features)
    assert sp.issparse(shifts.drop_columns(0.5)(g).features)


def test_shuffle_moves_rows_among_the_chosen_share(graph):
    out = shifts.shuffle(0.4)(graph).features
    changed = (out != graph.features).any(axis=1).sum()
    assert 0.4 * 2000 - 20 <= changed <= 0.4 * 2000
    np.testing.assert_array_equal(np.sort(out, axis=0), np.sort(graph.features, axis=0))
    # Whole rows move, so the columns stay together.
    rows = {row.tobytes() for row in np.asarray(graph.features)}
    assert all(row.tobytes() in rows for row in out)


def test_scale_keeps_the_mean_and_multiplies_the_deviation(graph):
    out = shifts.scale(2.5)(graph).features
    np.testing.assert_allclose(out.mean(axis=0), graph.features.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(out.std(axis=0), 2.5 * graph.features.std(axis=0), rtol=1e-3)


def test_offset_moves_every_node_alike(graph):
    change = shifts.offset(1.0)(graph).features - graph.features
    assert np.ptp(change, axis=0).max() < 1e-4
    assert np.abs(change).max() > 0.1


def test_drop_columns_zeroes_whole_columns(graph):
    out = shifts.drop_columns(0.4)(graph).features
    assert (out == 0).all(axis=0).sum() == 2


@pytest.mark.parametrize("where", ["random", "region", "low-degree"])
def test_heterogeneous_noise_touches_exactly_half(graph, where):
    out = shifts.heterogeneous(1.5, where)(graph, 4).features
    touched = (out != graph.features).any(axis=1)
    assert touched.sum() == 1000
    ratio = (out - graph.features)[touched].std(axis=0) / graph.features.std(axis=0)
    np.testing.assert_allclose(ratio, 1.5, rtol=0.1)
    if where == "low-degree":
        assert graph.degrees[touched].max() <= graph.degrees[~touched].min()
    if where == "region":
        inner = adjacency(graph)[touched][:, touched]
        whole = connected_components(adjacency(graph))[0]
        assert connected_components(inner)[0] <= whole
        assert connected_components(inner)[0] < 20


def test_region_of_a_graph_in_pieces():
    for edges in ([], [[0, 1], [2, 3], [3, 4]]):
        g = Graph(features=np.arange(9.0)[:, None], edges=np.reshape(edges, (-1, 2)).astype(int))
        for seed in range(20):
            out = shifts.heterogeneous(1.0, "region")(g, seed)
            assert (out.features != g.features).sum() == 4
