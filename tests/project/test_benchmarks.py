"""Small versions of the benchmarks, and pages that show what they left."""

import numpy as np
import pytest
from benchmarks import jobs, peers, products

from graphtemper.graph.operators import operator
from graphtemper_research.numbers import costs
from graphtemper_research.numbers.tables import Results


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


def test_the_graph_of_documents_is_sparse_and_learnable():
    graph = jobs.words(400, 300)
    assert graph.features.nnz / np.prod(graph.features.shape) < 0.25
    model = jobs.SIGN(hops=1).fit(graph, range(200))
    assert (model(graph)[200:].argmax(axis=1) == graph.labels[200:]).mean() > 0.5


@pytest.mark.nightly
def test_small_modules_and_a_sample(tmp_path, monkeypatch):
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    from benchmarks import modules

    few = {"shifts": {"noise": (1.0,), "drop": (0.5,), "scale": (0.5,)}, "compositions": 0}
    monkeypatch.setattr("graphtemper_research.trials.pyg_modules.EPOCHS", 5)
    row = modules.measure("drawn", "GCN", **few)
    assert row["card_passes"] <= 500
    assert row["passes"] <= 12
    large = modules.on_a_sample(num_nodes=8000, degree=3, at_source=300, sample=120, **few)
    assert large["sampled"]
    low, value, high = large["accuracy"]
    assert 0.0 <= low < value < high <= 1.0
    sizes = {"num_nodes": 8000, "degree": 3, "at_source": 300, "sample": 120}
    both = modules.sample_and_all(seeds=2, **sizes, **few)
    assert all(np.isfinite(item["z"]) and item["nodes"] == 120 for item in both["rows"])
    for rows in ([row], [large], [both]):
        modules.write(rows, tmp_path / "modules.json")
    results = Results(tmp_path)
    page = costs.modules(results)
    assert page.count("| drawn | GCN |") == page.count("| million | SAGE |") == 1
    assert len(costs.sample_and_all(results).splitlines()) == 2 + 2 + 2
