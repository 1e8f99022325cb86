"""Orders in which neighbours lie near each other: when they are used, and that nothing changes."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, csbm
from graphtemper.graph import operators, ordering


def chain(seed=0, num_nodes=6000, reach=30):
    """Return a graph whose links join numbers close to each other, and one with mixed numbers."""
    rng = np.random.default_rng(seed)
    low = np.repeat(np.arange(num_nodes - reach), 4)
    edges = np.column_stack([low, low + rng.integers(1, reach, low.size)])
    mixed = rng.permutation(num_nodes)[edges]
    x = rng.standard_normal((num_nodes, 3)).astype(np.float32)
    return (Graph(features=x, edges=np.unique(np.sort(pairs), axis=0)) for pairs in (edges, mixed))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(operators, "_WORTH_ORDER", 0)
    monkeypatch.setattr(ordering, "WINDOW", 100)
    monkeypatch.setattr(ordering, "_BALL_SIZE", 400)


def test_only_a_hidden_order_is_worth_finding():
    ordered, mixed = chain()
    random = csbm.sample(6000, 10, 0.8, 1.0, seed=1)
    matrices = [operators.operator(graph) for graph in (ordered, mixed, random)]
    assert [ordering.nearby(matrix) is not None for matrix in matrices] == [False, True, False]
    order = ordering.nearby(matrices[1]).order
    both = sp.csr_matrix(matrices[1][order][:, order])
    before, after = ordering.share_nearby(matrices[1]), ordering.share_nearby(both)
    assert before < 0.2
    assert after > 0.9


@pytest.mark.parametrize("kind", ["mean", "symmetric", "self-loop"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_products_have_the_same_bits_in_any_order(kind, threads, engine, monkeypatch):
    if engine == "reference":
        monkeypatch.setattr(operators, "kernels", lambda: None)
    monkeypatch.setattr(operators, "num_cores", lambda: threads)
    monkeypatch.setattr(operators, "_WORTH_THREADS", 0)
    _, mixed = chain()
    matrix = operators.operator(mixed, kind)
    assert ordering.known(matrix) is not None
    for columns in (mixed.features, mixed.features[:, 0], mixed.features.astype(np.float64)):
        product = operators.multiply(matrix, columns)
        assert product.tobytes() == (matrix @ columns).tobytes()


def test_an_order_is_forgotten_with_its_matrix():
    _, mixed = chain()
    key = id(operators.operator(mixed))
    assert key in ordering._known
    del mixed
    gc.collect()
    assert key not in ordering._known


def test_a_graph_without_edges_has_no_order():
    assert ordering.nearby(sp.csr_matrix((5, 5), dtype=np.float32)) is None
