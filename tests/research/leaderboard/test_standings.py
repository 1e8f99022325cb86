"""Means, intervals, differences and ranks, from cells made by hand."""

import json
import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from graphtemper_research.leaderboard.methods import PER_NODE
from graphtemper_research.leaderboard.standings import ALL, Interval, holm, table
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


def test_intervals_and_p_values_are_those_of_student_over_graphs(cells):
    found = by_name(table(cells, KNOWN, "SIGN"))
    test = ttest_1samp([-0.06, -0.055], 0.0)  # the means of the graphs a and b
    low, high = test.confidence_interval(0.9)
    gats = found["GATS"]
    assert (gats["against_low"], gats["against_high"]) == pytest.approx((low, high))
    assert (gats["p"], gats["graphs"]) == (pytest.approx(test.pvalue), 2)
    low, high = ttest_1samp([0.15, 0.18], 0.0).confidence_interval(0.9)
    seeds = found[SOURCE]
    assert (seeds["ece_low"], seeds["ece_high"]) == pytest.approx((low, high))
    assert by_name(table(cells[:1], KNOWN, "SIGN"))[SOURCE]["ece_low"] is None
    assert by_name(table(cells[:2], KNOWN, "SIGN"))["GATS"]["p"] is None


def test_a_difference_its_interval_and_its_sign_are_of_the_same_mean(make_cell):
    """Two graphs with many cells in which a method wins, three with one in which it loses."""
    same = {"source": 0.2, "atlas": 0.05, "per_node": 0.05, "oracle": 0.02}
    many = [
        make_cell(model, graph, seed, RBS=0.19, **same)
        for model in ("SIGN", "GCN", "SGC")
        for graph in "ab"
        for seed in (1, 2, 3)
    ]
    few = [make_cell("SIGN", name, 1, RBS=0.22 + 0.001 * n, **same) for n, name in enumerate("cde")]
    row = by_name(table([*many, *few], KNOWN, ALL))["RBS"]
    assert row["against_source"] == pytest.approx((-0.01 - 0.01 + 0.02 + 0.021 + 0.022) / 5)
    assert row["against_low"] < row["against_source"] < row["against_high"]


def test_p_values_are_corrected_for_all_methods_but_the_references(cells):
    found = by_name(table(cells, KNOWN, "SIGN"))
    tested = {name: row["p"] for name, row in found.items() if row["holm"] is not None}
    assert set(tested) == {"RBS", "GATS", ATLAS, PER_NODE}
    smallest = min(tested, key=tested.get)
    assert found[smallest]["holm"] == pytest.approx(min(4 * tested[smallest], 1.0))


def test_holms_steps_are_those_of_closed_testing():
    """Slow path: reject what every Bonferroni test of an intersection around it rejects."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = rng.uniform(size=5) ** 3
        slow = [
            max(
                min(1.0, len(others) * min(p[list(others)]))
                for size in range(1, 6)
                for others in combinations(range(5), size)
                if one in others
            )
            for one in range(5)
        ]
        assert holm(p) == pytest.approx(slow)


def test_nothing_is_significant_by_chance_more_often_than_stated():
    rng = np.random.default_rng(2)
    wrong = [
        min(holm([ttest_1samp(rng.normal(size=8), 0.0).pvalue for _ in range(12)])) <= 0.1
        for _ in range(150)
    ]
    assert np.mean(wrong) < 0.18


def test_families_have_means_of_their_own(cells):
    found = by_name(table(cells, KNOWN, "SIGN"))[SOURCE]
    by_hand = {"ece none": 0.01, "ece noise(1)": 0.165, "ece drop(0.5)": 0.165}
    assert {key: found[key] for key in by_hand} == pytest.approx(by_hand)


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
