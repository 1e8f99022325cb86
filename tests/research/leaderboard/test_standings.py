"""Means, intervals, differences and ranks, from cells made by hand."""

import json
import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from graphtemper_research.leaderboard import summary
from graphtemper_research.leaderboard.methods import PER_NODE
from graphtemper_research.leaderboard.section import section
from graphtemper_research.leaderboard.standings import ALL, Interval, table
from graphtemper_research.leaderboard.tasks import KNOWN
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def row(shift, method, ece, **other):
    told = {"nll": 0.5, "brier": 0.2, "accuracy": 0.8, "estimate": None}
    return {"shift": shift, "method": method, "ece": ece} | told | other


def cell(model, graph, seed, **ece):
    """A cell whose methods have one ECE at home and another under both of its shifts."""
    names = {"source": SOURCE, "atlas": ATLAS, "per_node": PER_NODE, "oracle": ORACLE}
    rows = [
        row(shift, names.get(name, name), 0.01 if shift == "none" else value)
        for shift in ("none", "noise(1)", "drop(0.5)")
        for name, value in ece.items()
    ]
    head = {"setting": KNOWN, "model": model, "graph": graph, "seed": seed, "compositions": 0}
    return head | {"code": "x", "rows": rows}


CELLS = [
    cell("SIGN", "a", 1, source=0.20, RBS=0.22, GATS=0.14, atlas=0.05, per_node=0.04, oracle=0.02),
    cell("SIGN", "a", 2, source=0.24, RBS=0.23, GATS=0.18, atlas=0.07, per_node=0.06, oracle=0.04),
    cell("SIGN", "b", 1, source=0.10, RBS=0.11, GATS=0.05, atlas=0.03, per_node=0.02, oracle=0.02),
    cell("SIGN", "b", 2, source=0.12, RBS=0.12, GATS=0.06, atlas=0.03, per_node=0.02, oracle=0.02),
]


def by_name(rows):
    return {row["method"]: row for row in rows}


def test_means_differences_and_shares():
    found = by_name(table(CELLS, KNOWN, "SIGN"))
    assert found[SOURCE]["ece"] == pytest.approx(0.165)
    assert found[SOURCE]["ece_source"] == pytest.approx(0.01)
    assert found["GATS"]["against_source"] == pytest.approx(-0.0575)
    assert found[ATLAS]["removed"] == pytest.approx((0.165 - 0.045) / (0.165 - 0.025))
    assert found[ORACLE]["removed"] == pytest.approx(1.0)
    assert found[SOURCE]["removed"] == 0.0
    assert (found["RBS"]["better_cells"], found["RBS"]["cells"]) == (1, 4)


def test_the_best_is_first_and_ranks_leave_the_oracle_out():
    found = table(CELLS, KNOWN, "SIGN")
    assert [row["method"] for row in found][:3] == [ORACLE, PER_NODE, ATLAS]
    ranks = {row["method"]: row["rank"] for row in found}
    assert ranks[ORACLE] is None
    assert ranks[PER_NODE] == 1.0
    assert ranks[ATLAS] == 2.0
    assert ranks["GATS"] == 3.0
    # source-T: fourth, fifth, fourth, and tied with RBS in the last cell
    assert ranks[SOURCE] == pytest.approx((4 + 5 + 4 + 4.5) / 4)


def test_intervals_are_those_of_student():
    gaps = [-0.06, -0.06, -0.05, -0.06]
    found = by_name(table(CELLS, KNOWN, "SIGN"))["GATS"]
    low, high = ttest_1samp(gaps, 0.0).confidence_interval(0.9)
    assert found["against_low"] == pytest.approx(low)
    assert found["against_high"] == pytest.approx(high)
    seeds = by_name(table(CELLS, KNOWN, "SIGN"))[SOURCE]
    low, high = ttest_1samp([0.15, 0.18], 0.0).confidence_interval(0.9)
    assert (seeds["ece_low"], seeds["ece_high"]) == pytest.approx((low, high))
    assert by_name(table(CELLS[:1], KNOWN, "SIGN"))[SOURCE]["ece_low"] is None


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    spans = [Interval.of(rng.normal(1.0, 2.0, 5)) for _ in range(700)]
    covered = np.mean([span.low <= 1.0 <= span.high for span in spans])
    assert 0.87 < covered < 0.93


def test_methods_of_one_model_are_left_out_of_the_table_of_all():
    other = cell("GCN", "a", 1, source=0.2, Tent=0.1, atlas=0.05, per_node=0.05, oracle=0.02)
    assert "Tent" in by_name(table([*CELLS, other], KNOWN, "GCN"))
    assert "Tent" not in by_name(table([*CELLS, other], KNOWN, ALL))
    assert table(CELLS, KNOWN, "GAT") == []


def test_a_method_that_was_certain_and_wrong_has_infinite_nll():
    surer = json.loads(json.dumps(CELLS[0]))
    surer["rows"][-1]["nll"] = None
    assert by_name(table([surer], KNOWN, "SIGN"))[ORACLE]["nll"] == math.inf


def test_the_prediction_names_who_contradicts_it():
    found = {bar.quantity: bar for bar in summary.outcome(CELLS).comparisons}
    against = found[f"{KNOWN}: source-fitted calibrators with less ECE than source-T, beyond 90 %"]
    assert (against.measured, against.met) == (1, False)
    assert against.note == "GATS (-0.058)" or against.note == "GATS (-0.057)"
    best = found[f"{KNOWN}: share of source-T's excess ECE that the atlas removes"]
    assert best.met is True


def test_the_paragraph_is_made_of_the_files(tmp_path):
    summary.outcome(CELLS).write(tmp_path)
    text = section(tmp_path, "results/")
    assert "![Every calibrator under shift](results/leaderboard.png)" in text
    assert "Mean ECE is 0.165 with source-T and 0.025 with the oracle's" in text
    assert "Against the prediction" in text
    assert "GATS by 0.05" in text
    calm = [
        cell("SIGN", graph, 1, source=0.2, RBS=0.21, atlas=0.1, per_node=0.1, oracle=0.05)
        for graph in ("a", "b")
    ]
    summary.outcome(calm).write(tmp_path)
    assert "None has less ECE than source-T" in section(tmp_path)
