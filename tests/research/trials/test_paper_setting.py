"""The paper's table with the atlas in it."""

import json

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper_research.paper import real_graphs
from graphtemper_research.trials import paper_setting

LABEL_FREE = ("temperature", "estimate", "low", "high", "verdict")


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(320, degree=6, homophily=0.8, snr=1.5, num_features=5, seed=1)


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory, quick):
    folder = tmp_path_factory.mktemp("paper")
    graph.save(folder / "standin.npz")
    return folder, quick(paper_setting.BENCH, folder, [str(folder / "standin.npz")])


def test_the_row_and_its_bar(finished, tmp_path):
    folder, outcome = finished
    (row,) = outcome.rows
    assert row["excess"] == pytest.approx(row["ece atlas"] - row["ece oracle-T"])
    assert row["printed"] is None
    assert row["nodes"] == 80
    bar, every = outcome.comparisons
    assert bar.met == (row["excess"] <= 0.005)
    assert every.met == bar.met
    assert "| standin |" in paper_setting.BENCH.page(outcome.to_dict())
    assert outcome.write(tmp_path)[0].name == "paper_setting.json"
    cell = json.loads((folder / "cells" / "standin.json").read_text())
    assert [row["method"] for row in cell["rows"]] == list(paper_setting.METHODS)


def test_peers_are_scored_as_in_the_table(graph, finished, monkeypatch):
    """The same split, model and noise as `real_graphs`, so that the columns can stand together."""
    folder, _ = finished
    cell = json.loads((folder / "cells" / "standin.json").read_text())
    mine = {row["method"]: row["ece"] for row in cell["rows"]}
    (split,) = real_graphs.splits(graph, 1)
    monkeypatch.setattr(real_graphs, "NOISE_LEVELS", (1.0,))
    monkeypatch.setattr(real_graphs, "OTHER_DRAWS", 0)
    monkeypatch.setattr(real_graphs, "REWIRE_LEVELS", ())
    table = real_graphs._trial(graph, split, 0)["noise", 1.0]["corrected"]
    for name, theirs in (
        ("uncalibrated", "uncalibrated"),
        ("STAC", "STAC"),
        ("oracle-T", "oracle"),
    ):
        assert mine[name] == pytest.approx(table[theirs]["ece"], abs=1e-6)
    # The card rounds the source temperature to its sampling error.
    assert mine["source-T"] == pytest.approx(table["source-T"]["ece"], abs=0.015)


def test_target_labels_reach_only_the_scores(graph, finished):
    folder, _ = finished
    cell = json.loads((folder / "cells" / "standin.json").read_text())
    (split,) = real_graphs.splits(graph, 1)
    labels = graph.labels.copy()
    labels[split.test] = 1 - labels[split.test]
    rows = paper_setting.measure(graph.replace(labels=labels), 1, cell["compositions"])
    for one, other in zip(cell["rows"], rows, strict=True):
        if one["method"] != "oracle-T":
            assert [one[key] for key in LABEL_FREE] == [other[key] for key in LABEL_FREE]
        assert one["accuracy"] != other["accuracy"]


def test_splits_are_averaged():
    def row(method, split, ece):
        fixed = {"method": method, "split": split, "ece": ece, "accuracy": 0.6, "estimate": 0.5}
        return fixed | {"verdict": "trust", "nodes": 10}

    rows = [
        row(method, split, 0.1 + 0.02 * split + (0.01 if method == "atlas" else 0.0))
        for split in range(3)
        for method in paper_setting.METHODS
    ]
    found = paper_setting.BENCH.outcome(
        [{"graph": "minesweeper", "splits": 3, "compositions": 70, "code": "", "rows": rows}],
        ["questions"],
    )
    (only,) = found.rows
    assert only["ece atlas"] == pytest.approx(0.13)
    assert only["excess"] == pytest.approx(0.01)
    assert only["printed"] == 0.128
    assert not found.comparisons[0].met
    assert [bar.note for bar in found.comparisons[2:3]] == ["questions"]
    assert np.isfinite(only["STAC estimate"])
