import numpy as np
import pytest

from graphtemper_research.graphs import datasets

pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research.gats import protocol
from graphtemper_research.gats.protocol import BENCH
from graphtemper_research.harness import frame

BY_NAME = {method.name: method for method in protocol.METHODS}


def row_of(method, ece):
    return {"method": method, "ece": ece} | dict.fromkeys(
        ("degree_ece", "accuracy", "nll", "seconds"), 1.0
    )


def graph_of(name):
    if datasets.find(name) is None:
        pytest.skip(f"{name}.npz is not on this machine (set GRAPHTEMPER_DATA)")
    return protocol.row_normalised(datasets.load(name))


def test_splits_are_stratified_and_apart():
    labels = np.repeat([-1, 0, 1, 2], [50, 100, 400, 1000])
    parts = protocol.split(labels, seed=1)
    assert np.bincount(labels[parts.train]).tolist() == [10, 40, 100]
    assert np.bincount(labels[parts.calibration]).tolist() == [5, 20, 50]
    together = np.concatenate([parts.train, parts.calibration, parts.test])
    assert np.array_equal(np.sort(together), np.arange(50, 1550))
    assert not np.array_equal(parts.test, protocol.split(labels, seed=2).test)


def test_rows_are_normalised_and_empty_ones_stay():
    graph = graph_of("citeseer")
    sums = np.asarray(graph.features.sum(axis=1)).ravel()
    assert set(np.unique(sums.round(5))) == {0.0, 1.0}


def test_one_split_of_cora_in_seconds():
    graph = graph_of("cora")
    names = ("uncalibrated", "TemperatureScaling()", "EnsembleTemperature()", "RBS(2 or 3 bins)")
    methods = [BY_NAME[name] for name in names]
    rows = list(protocol.run_split(graph, "cora", 0, methods, epochs=80))
    raw, scaled, mixed, _ = rows
    assert all(row["accuracy"] == raw["accuracy"] > 78 for row in rows)
    # The published finding: a GCN is under-confident here, and one temperature mends most of it.
    assert raw["ece"] > 10
    assert scaled["ece"] < 0.6 * raw["ece"]
    assert mixed["nll"] < raw["nll"]
    page = BENCH.page(BENCH.outcome([{"graph": "cora", "split": 0, "rows": rows}]).to_dict())
    assert "## cora\n" in page
    assert f"{raw['ece']:.2f} ± 0.00" in page


def test_splits_that_were_not_trained_are_left_out_of_the_comparison():
    """The mean of two splits, 14 and 40, is too large; that of the trained one is as published."""
    cells = [
        {"graph": "cora", "split": split, "rows": [row_of("uncalibrated", ece)]}
        for split, ece in enumerate((14.0, 40.0))
    ]
    outcome = BENCH.outcome(cells)
    (row,) = outcome.rows
    assert (row["splits"], row["ece"], row["spread"]) == (2, 27.0, 13.0)
    assert (row["trained_splits"], row["trained_ece"]) == (1, 14.0)
    assert not protocol.within(row)
    assert protocol.within(row, "trained_")
    (bar,) = outcome.comparisons
    assert bar.met
    assert "## cora, trained\n" in BENCH.page(outcome.to_dict())


@pytest.mark.slow
@pytest.mark.parametrize("name", protocol.GRAPHS)
def test_in_distribution_figures(name):
    """Two splits: every checked method within two deviations of a published or re-run mean."""
    graph = graph_of(name)
    methods = [BY_NAME[method] for method in protocol.CHECKED]
    rows = [row for seed in (1, 2) for row in protocol.run_split(graph, name, seed, methods)]
    for method in methods:
        mean, spread = method.reference[name].rerun
        found = frame.average(frame.select(rows, method=method.name), "ece")
        assert found < mean + 2 * max(spread, 1.0), method.name
