"""Small versions of the benchmarks, and pages that show what they left."""

import numpy as np
import pytest
from benchmarks import jobs, peers, products

from graphtemper.graph.operators import operator


def test_the_naive_pass_is_a_forward_pass_of_the_model():
    graph = jobs.drawn(600, 3, 1)
    model, _ = jobs.fitted(graph)
    np.testing.assert_allclose(jobs.naive_pass(model, graph), model(graph), atol=1e-4)
    naive = jobs.naive_operator(graph)
    np.testing.assert_allclose(naive.toarray(), operator(graph).toarray(), atol=1e-6)


def test_the_dense_sampler_draws_the_same_law():
    counts = [len(peers.dense_block_model(400, 10, 0.8)) for _ in range(3)]
    assert np.mean(counts) == pytest.approx(400 * 10 / 2, rel=0.06)


@pytest.mark.nightly
def test_peers_find_the_same_optimum():
    rows = peers.temperature_rows(4000)
    assert rows[0].peer == "scikit-learn"
    gap = float(rows[0].note.split()[3].rstrip(","))
    assert gap < 1e-6
    assert {row.what for row in peers.ece_rows(4000)} == {"ECE"}


def test_products_and_their_bandwidth():
    rows = products.product_rows(2000)
    assert {row.peer for row in rows} >= {"SciPy, one thread"}
    (growth,) = products.growth_rows((500, 1000))
    assert growth.what.startswith("growth of cost per edge: ")
    assert products.triad_bandwidth(10_000) > 1e8
