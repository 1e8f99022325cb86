"""Prediction sets, on a small stand-in for a real graph."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper_research.harness.runner import QUICK_COMPOSITIONS
from graphtemper_research.trials import prediction_sets, trial
from graphtemper_research.trials.prediction_sets import (
    BENCH,
    METHODS,
    SCORES,
    SHARE_TARGETS,
)
from graphtemper_research.trials.trial import ATLAS, SOURCE, Source


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    """Return a finished run, and the sources it prepared with the graphs they saw."""
    folder = tmp_path_factory.mktemp("sets")
    graph = csbm.sample(
        1000, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=1
    )
    graph.save(folder / "standin.npz")
    prepared, prepare = [], Source.prepare

    def remember(predictor, known, *arguments, **options):
        prepared.append((known, prepare(predictor, known, *arguments, **options)))
        return prepared[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "prepare", remember)
        outcome = quick(BENCH, folder, [str(folder / "standin.npz")])
    return folder, outcome, prepared


def read(folder):
    return json.loads((folder / "cells" / "standin-SIGN-1.json").read_text())


def test_a_cell_has_every_target_and_method(finished):
    folder, _, _ = finished
    rows = read(folder)["rows"]
    assert len(rows) == (16 + len(SHARE_TARGETS)) * len(METHODS)
    assert [row["method"] for row in rows[: len(METHODS)]] == list(METHODS)
    for row in rows:
        assert row["card_nodes"] == 250
        for kind in SCORES:
            assert 0 <= row[f"{kind} coverage"] <= 1
            assert 1 <= row[f"{kind} size"] <= 3
            assert 0 <= row[f"{kind} singletons"] <= 1
        # Sets of APS and RAPS always hold the prediction.
        assert min(row["aps coverage"], row["raps coverage"]) >= row["accuracy"] - 1e-9


def test_new_class_shares_are_the_ones_named(finished):
    folder, _, _ = finished
    shares = np.array([0.5, 0.2, 0.3])
    equal, reversed_ = (prediction_sets.RESAMPLED[name](shares) for name in SHARE_TARGETS)
    assert equal.tolist() == [1, 1, 1]
    assert reversed_.tolist() == [0.2, 0.5, 0.3]
    nodes = {row["target"]: row["nodes"] for row in read(folder)["rows"]}
    assert nodes["none"] == nodes["noise(1)"] == 250
    assert all(50 < nodes[name] <= 250 for name in SHARE_TARGETS)


def test_target_labels_only_score(finished, monkeypatch):
    """With the scored labels rotated, what needs no labels answers as before."""
    folder, _, ((known, source),) = finished
    graph = Graph.load(folder / "standin.npz")
    _, _, test = trial.split(graph, 1)
    assert (known.labels[test] == -1).all()
    assert known.labels.max() == 2
    labels = graph.labels.copy()
    labels[test] = (labels[test] + 1) % 3
    monkeypatch.setattr(Source, "prepare", lambda *a, **o: source)
    rotated = prediction_sets.measure(graph.replace(labels=labels), "SIGN", 1, QUICK_COMPOSITIONS)
    label_free = {SOURCE, ATLAS}
    changed = 0
    for before, after in zip(read(folder)["rows"], rotated, strict=True):
        if before["method"] not in label_free or before["target"] in SHARE_TARGETS:
            continue
        for key in ("temperature", *(f"{kind} size" for kind in SCORES)):
            assert after[key] == before[key]
        changed += after["aps coverage"] != before["aps coverage"]
    assert changed > 0


def test_the_summary_comes_from_the_cells(finished, tmp_path):
    folder, outcome, _ = finished
    rows = read(folder)["rows"]
    (found,) = (
        row
        for row in outcome.rows
        if (row.get("graph"), row["score"], row.get("method")) == ("standin", "aps", "atlas")
    )
    mine = [
        row["aps coverage"]
        for row in rows
        if row["method"] == "atlas" and row["target"] not in ("none", *SHARE_TARGETS)
    ]
    assert len(mine) == 15
    assert found["coverage"] == pytest.approx(np.mean(mine))
    assert found["lowest"] == min(mine)
    assert found["shortfall"] == pytest.approx(np.mean(np.maximum(0.9 - np.array(mine), 0)))
    assert outcome.comparisons[0].bar == "3"
    text = BENCH.page(outcome.to_dict())
    assert "guaranteed only" in text
    assert text.count("| standin |") == len(SCORES) * len(METHODS)
    assert len(BENCH.shown(outcome.to_dict())) == len(SCORES)
    assert [path.suffix for path in outcome.write(tmp_path)] == [".json"]


def test_the_bar_sees_missing_coverage(finished):
    folder, _, _ = finished
    cell = read(folder)
    for row in cell["rows"]:
        if row["target"] == "none":
            row["aps coverage"] = 0.8
    bar = BENCH.outcome([cell]).comparisons[0]
    assert bar.measured == 2
    assert bar.met is False
