"""Means, intervals, differences and ranks, from cells made by hand."""

import json
import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from graphtemper_research.leaderboard.methods import PER_NODE
from graphtemper_research.leaderboard.standings import ALL, Interval, table
from graphtemper_research.leaderboard.tasks import KNOWN
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE


def by_name(rows):
    return {row["method"]: row for row in rows}


def test_means_differences_and_shares(cells):
    found = by_name(table(cells, KNOWN, "SIGN"))
    assert found[SOURCE]["ece"] == pytest.approx(0.165)
    assert found[SOURCE]["ece_source"] == pytest.approx(0.01)
    assert found["GATS"]["against_source"] == pytest.approx(-0.0575)
    assert found[ATLAS]["removed"] == pytest.approx((0.165 - 0.045) / (0.165 - 0.025))
    assert found[ORACLE]["removed"] == pytest.approx(1.0)
    assert found[SOURCE]["removed"] == 0.0
    assert (found["RBS"]["better_cells"], found["RBS"]["cells"]) == (1, 4)


def test_the_best_is_first_and_ranks_leave_the_oracle_out(cells):
    found = table(cells, KNOWN, "SIGN")
    assert [row["method"] for row in found][:3] == [ORACLE, PER_NODE, ATLAS]
    ranks = {row["method"]: row["rank"] for row in found}
    assert ranks[ORACLE] is None
    assert ranks[PER_NODE] == 1.0
    assert ranks[ATLAS] == 2.0
    assert ranks["GATS"] == 3.0
    # source-T: fourth, fifth, fourth, and tied with RBS in the last cell
    assert ranks[SOURCE] == pytest.approx((4 + 5 + 4 + 4.5) / 4)


def test_intervals_are_those_of_student(cells):
    gaps = [-0.06, -0.06, -0.05, -0.06]
    found = by_name(table(cells, KNOWN, "SIGN"))["GATS"]
    low, high = ttest_1samp(gaps, 0.0).confidence_interval(0.9)
    assert found["against_low"] == pytest.approx(low)
    assert found["against_high"] == pytest.approx(high)
    low, high = ttest_1samp([-0.06, -0.055], 0.0).confidence_interval(0.9)
    assert (found["graphs_low"], found["graphs_high"]) == pytest.approx((low, high))
    seeds = by_name(table(cells, KNOWN, "SIGN"))[SOURCE]
    low, high = ttest_1samp([0.15, 0.18], 0.0).confidence_interval(0.9)
    assert (seeds["ece_low"], seeds["ece_high"]) == pytest.approx((low, high))
    assert by_name(table(cells[:1], KNOWN, "SIGN"))[SOURCE]["ece_low"] is None


def test_seeds_with_other_cells_have_a_mean_over_cells_and_no_interval(cells):
    found = by_name(table(cells[:3], KNOWN, "SIGN"))[SOURCE]
    assert found["ece"] == pytest.approx((0.20 + 0.24 + 0.10) / 3)
    assert found["ece_low"] is None


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    spans = [Interval.of(rng.normal(1.0, 2.0, 5)) for _ in range(700)]
    covered = np.mean([span.low <= 1.0 <= span.high for span in spans])
    assert 0.87 < covered < 0.93


def test_a_method_of_some_cells_is_compared_in_those_alone(cells, make_cell):
    other = make_cell("GCN", "a", 1, source=0.2, Tent=0.11, atlas=0.05, per_node=0.05, oracle=0.02)
    tent = by_name(table([*cells, other], KNOWN, ALL))["Tent"]
    assert (tent["cells"], tent["rank"]) == (1, None)
    assert tent["against_source"] == pytest.approx(0.11 - 0.2)
    assert tent["removed"] == pytest.approx(0.09 / 0.18)
    assert by_name(table([*cells, other], KNOWN, ALL))[ATLAS]["cells"] == 5
    assert table(cells, KNOWN, "GAT") == []


def test_a_method_that_was_certain_and_wrong_has_infinite_nll(cells):
    surer = json.loads(json.dumps(cells[0]))
    surer["rows"][-1]["nll"] = None
    assert by_name(table([surer], KNOWN, "SIGN"))[ORACLE]["nll"] == math.inf
