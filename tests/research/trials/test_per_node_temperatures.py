"""The evaluation of one temperature per node: every method is scored, by the measures."""

import numpy as np
import pytest

from graphtemper import csbm, metrics, shifts
from graphtemper import temperature as temperatures
from graphtemper_research.harness.frame import AVERAGE
from graphtemper_research.harness.selective import error_auroc
from graphtemper_research.trials import per_node_temperatures, shifted_targets
from graphtemper_research.trials.per_node_temperatures import (
    ALL,
    BENCH,
    GLOBAL,
    METHODS,
    PART,
    PER_NODE,
    named,
)
from graphtemper_research.trials.shifted_targets import title
from graphtemper_research.trials.trial import ORACLE, SCORES

SHIFTS = (None, shifts.noise(1.0), shifts.shuffle(0.5), shifts.heterogeneous(1.5))


@pytest.fixture(scope="module")
def cell():
    graph = csbm.sample(1000, degree=6, homophily=0.8, snr=0.5, num_features=16, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shifted_targets, "SHIFTS", SHIFTS)
        rows = per_node_temperatures.measure(graph, "SIGN", 1, compositions=0)
    head = {"graph": "csbm", "model": "SIGN", "seed": 1, "compositions": 0, "code": "x"}
    return head | {"rows": rows}


def test_every_method_answers_on_every_shift(cell):
    wanted = [(title(shift), method) for shift in SHIFTS for method in METHODS]
    assert [(row["shift"], row["method"]) for row in cell["rows"]] == wanted
    assert all(row.keys() >= {*SCORES, "brier", "auroc", "family"} for row in cell["rows"])


def test_one_temperature_for_all_ranks_nodes_as_the_oracle_does_in_a_binary_graph(cell):
    by_shift = {}
    for row in cell["rows"]:
        by_shift.setdefault(row["shift"], {})[row["method"]] = row
    for rows in by_shift.values():
        one, oracle = rows[named(GLOBAL, "known")], rows[ORACLE]
        assert one["auroc"] == pytest.approx(oracle["auroc"], abs=1e-6)
        assert one["nll"] >= oracle["nll"] - 1e-9
    none = by_shift["none"]
    assert none[named(PER_NODE, "known")] == none[named(PER_NODE, "unknown")] | {
        "method": named(PER_NODE, "known")
    }


def test_doing_nothing_is_the_plain_softmax(cell):
    found = [row for row in cell["rows"] if row["method"] == "uncalibrated"]
    assert [row["temperature"] for row in found] == [1.0] * len(SHIFTS)


def test_scores_are_those_of_the_measures():
    rng = np.random.default_rng(1)
    logits, labels = rng.standard_normal((50, 3)), rng.integers(0, 3, 50)
    each = rng.uniform(0.5, 2.0, 50)
    mine, oracle = per_node_temperatures.score(logits, labels, {"mine": each})
    p = temperatures.apply(logits, each)
    assert mine["brier"] == metrics.brier(p, labels)
    assert mine["nll"] == metrics.nll(p, labels)
    assert mine["auroc"] == error_auroc(p, labels)
    assert mine["ece"] == metrics.ece(p, labels)
    assert oracle["temperature"] == temperatures.fit(logits, labels)


def test_the_summary_averages_and_judges(cell):
    found = BENCH.outcome([cell])
    assert len(found.rows) == 2 * 2 * len(METHODS)  # all and part; the graph and the average
    name = named(PER_NODE, "known")
    (mine,) = (
        row
        for row in found.rows
        if (row["graph"], row["shifts"], row["method"]) == ("csbm", ALL, name)
    )
    raw = [row["brier"] for row in cell["rows"] if row["method"] == name]
    assert mine["brier"] == pytest.approx(np.mean(raw))
    (part,) = (
        row
        for row in found.rows
        if (row["graph"], row["shifts"], row["method"]) == (AVERAGE, PART, name)
    )
    hit = [
        row["brier"]
        for row in cell["rows"]
        if row["method"] == name and row["shift"] in ("shuffle(0.5)", "heterogeneous(1.5)")
    ]
    assert len(hit) == 2
    assert part["brier"] == pytest.approx(np.mean(hit))
    assert sum(bar.met is not None for bar in found.comparisons) == 5
    page = BENCH.page(found.to_dict())
    assert all(method in page for method in METHODS)
    assert set(BENCH.shown(found.to_dict())) == {
        f"SIGN: {which}, average over graphs" for which in (ALL, PART)
    }
