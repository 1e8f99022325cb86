"""Natural shifts: the pairs, time, and their summary."""

import json

import numpy as np
import pytest

from graphtemper import Graph, csbm
from graphtemper_research.trials import natural_shifts, pairs
from graphtemper_research.trials.pairs import Pair
from graphtemper_research.trials.trial import METHODS, Source

LABEL_FREE = ("temperature", "estimate", "low", "high", "verdict")


def sample(seed, **other):
    options = {"degree": 6, "homophily": 0.8, "snr": 1.5, "num_features": 5} | other
    return csbm.sample(200, seed=seed, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, quick):
    """Return a run on two graphs of one kind, one of them also split in time."""
    folder = tmp_path_factory.mktemp("natural")
    here, there = str(folder / "here.npz"), str(folder / "there.npz")
    sample(1).save(here)
    sample(2, homophily=0.7).replace(time=np.arange(200) // 2 + 1).save(there)
    chosen = [
        Pair("countries", here, there),
        Pair("countries", here, str(folder / "nowhere.npz")),
        Pair("time", there, there),
    ]
    bench = natural_shifts.bench(chosen)
    return folder, chosen, bench, quick(bench, folder)


def test_one_cell_per_source_and_missing_graphs_are_named(finished):
    folder, _, bench, outcome = finished
    names = sorted(path.name for path in (folder / "cells").iterdir())
    assert names == ["here-SIGN-1.json", "there-SIGN-1.json"]
    assert [(row["source"], row["target"]) for row in outcome.rows] == [
        ("here", "there"),
        ("there", "there, later"),
    ]
    assert [row["nodes"] for row in outcome.rows] == [200, 100]
    assert [row["card_nodes"] for row in outcome.rows] == [100, 50]
    (line,) = [bar for bar in outcome.comparisons if "not on this machine" in bar.quantity]
    assert line.note.endswith("nowhere.npz")
    assert "| here | there |" in bench.page(outcome.to_dict())
    shown = bench.shown(outcome.to_dict())
    assert [row["graph"] for row in shown["SIGN: time"]] == ["there->later"]


def test_finished_sources_are_not_measured_again(finished, from_cells, tmp_path):
    folder, _, bench, first = finished
    again = from_cells(bench, folder)
    assert again.to_dict() == first.to_dict()
    assert [path.suffix for path in again.write(tmp_path)] == [".json", ".csv", ".png"]


@pytest.mark.nightly
def test_target_labels_reach_only_the_scores(finished, monkeypatch):
    """Labels of the later nodes and of the other graph, all changed: no answer changes."""
    folder, chosen, _, _ = finished
    there = Graph.load(folder / "there.npz")
    labels = there.labels.copy()
    later = pairs.later(there)
    labels[later] = 1 - labels[later]
    other = there.replace(labels=labels)
    monkeypatch.setattr(
        pairs, "load_graph", lambda name: other if "there" in name else Graph.load(name)
    )
    for pair in (chosen[0], chosen[2]):
        stem = "here" if pair.group == "countries" else "there"
        cell = json.loads((folder / "cells" / f"{stem}-SIGN-1.json").read_text())
        rows = pairs.measure(Source.answers, [pair], "SIGN", 1, cell["compositions"])
        for one, two in zip(cell["rows"], rows, strict=True):
            if one["method"] != "oracle-T":
                assert [one[key] for key in LABEL_FREE] == [two[key] for key in LABEL_FREE]
            assert one["accuracy"] != two["accuracy"]


def hand_made(verdict, source, atlas, oracle, error, half):
    ece = dict.fromkeys(METHODS, 0.3) | {"source-T": source, "atlas": atlas, "oracle-T": oracle}
    return {f"ece {method}": value for method, value in ece.items()} | {
        "verdict": verdict,
        "accuracy": 0.6,
        "low": 0.6 - error - half,
        "high": 0.6 - error + half,
        "error": error,
        "half_width": half,
        "group": "twitch",
    }


def test_the_bars_on_rows_made_by_hand():
    rows = [
        hand_made("trust", 0.10, 0.05, 0.04, 0.01, 0.02),
        hand_made("trust", 0.05, 0.08, 0.04, 0.03, 0.03),
        hand_made("caution", 0.10, 0.09, 0.05, 0.05, 0.06),
        hand_made("abstain", 0.06, 0.06, 0.05, 0.02, 0.25),
        hand_made("abstain", 0.30, 0.30, 0.05, 0.30, 0.20),
    ]
    bars = {bar.quantity: bar for bar in natural_shifts.compare(rows)}
    mean = bars["mean ECE"]
    assert mean.measured == pytest.approx(0.116)
    assert mean.met
    trusted = bars["share of trusted pairs that are better than source-T"]
    assert trusted.measured == 0.5
    assert not trusted.met
    assert "2 of 5 are trusted; 1 of these" in trusted.note
    order = bars["rank correlation of interval width and error"]
    # Widths rank 1 2 3 5 4, errors 1 3 4 2 5: 1 - 6 (0 + 1 + 1 + 9 + 1) / (5 x 24).
    assert order.measured == pytest.approx(0.4)
    assert not order.met
    assert bars["share of pairs with abstention"].measured == 0.4
    fine = bars["share of pairs with abstention although source-T was fine"]
    assert fine.measured == 0.2
    assert "1 of 2 abstentions" in fine.note
    assert bars["coverage of the 90 % interval"].measured == pytest.approx(0.8)
    silent = bars["error of the accuracy where the verdict is abstain"]
    assert silent.measured == pytest.approx(0.16)
    (group, everything) = natural_shifts.group_means(rows)
    assert group["verdicts"] == everything["verdicts"] == "2/1/2"


def test_bars_without_a_trusted_pair():
    rows = [hand_made("abstain", 0.1, 0.1, 0.1, 0.0, 0.3)] * 2
    bars = {bar.quantity: bar for bar in natural_shifts.compare(rows)}
    trusted = bars["share of trusted pairs that are better than source-T"]
    assert np.isnan(trusted.measured)
    assert trusted.met is None
    assert bars["rank correlation of interval width and error"].met is None
