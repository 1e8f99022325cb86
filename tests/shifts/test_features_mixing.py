import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm, shifts


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(400, degree=6, homophily=0.7, snr=1.0, num_features=5, seed=2)


def test_a_blend_is_a_mixture_with_one_other_node(graph):
    mixed = shifts.blend(0.3)(graph, 4).features
    partner = (mixed - 0.7 * graph.features) / 0.3
    distance = ((partner[:, None, :] - graph.features[None, :, :]) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    assert distance.min(axis=1).max() < 1e-6
    assert sorted(nearest) == list(range(400))
    np.testing.assert_allclose(mixed.mean(axis=0), graph.features.mean(axis=0), atol=1e-5)


def test_smoothing_is_the_mean_of_the_neighbours():
    g = Graph(features=[[0.0], [2.0], [6.0], [9.0]], edges=[[0, 1], [1, 2]])
    assert shifts.smooth(1.0)(g).features.ravel().tolist() == [2.0, 3.0, 2.0, 9.0]
    assert shifts.smooth(1.0)(g, 1).features.tolist() == shifts.smooth(1.0)(g, 2).features.tolist()


@pytest.mark.parametrize(
    ("shift", "least", "stays"),
    [
        (shifts.blend(0.4), 1.0, True),
        (shifts.smooth(0.4), 3.0, True),
        (shifts.smooth(0.4), 1.0, False),  # most entries would be stored
    ],
    ids=repr,
)
def test_sparse_stays_sparse_unless_smoothing_fills_it(graph, shift, least, stays):
    dense = graph.replace(features=np.where(graph.features > least, 1.0, 0.0))
    sparse = dense.replace(features=sp.csr_matrix(dense.features))
    assert sparse.features.nnz > 0
    mixed = shift(sparse, 3).features
    assert sp.issparse(mixed) == stays
    found = mixed.toarray() if stays else mixed
    np.testing.assert_allclose(found, shift(dense, 3).features, atol=1e-6)


@pytest.mark.parametrize("hub", [False, True])
def test_smoothing_gives_the_same_bytes_for_sparse_and_dense_features(hub):
    """Rows of hubs are summed in double precision, whichever features they have."""
    count, rng = 17_000 if hub else 300, np.random.default_rng(4)
    edges = csbm.sample(count, degree=8, homophily=0.7, snr=1.0, seed=3).edges
    if hub:
        star = np.column_stack([np.zeros(count - 1, int), np.arange(1, count)])
        edges = np.unique(np.vstack([star, edges]), axis=0)
    values = np.where(rng.random((count, 30)) < 0.02, rng.standard_normal((count, 30)), 0.0)
    sparse = Graph(features=sp.csr_matrix(values), edges=edges)
    found = shifts.smooth(0.4)(sparse).features
    assert isinstance(found, np.ndarray)
    expected = shifts.smooth(0.4)(Graph(features=values, edges=edges)).features
    assert (found == expected).all()
