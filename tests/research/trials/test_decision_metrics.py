"""The bench of metrics of decisions."""

import numpy as np
import pytest

from graphtemper import temperature
from graphtemper_research.harness.runner import Request
from graphtemper_research.trials import decision_metrics as decisions


def row(method, value, **more):
    return {"method": method} | {name: value for name in decisions.ASKED} | more


def cell(method_rows):
    rows = [{"target": "b"} | item for item in method_rows]
    head = {"kind": "natural", "family": "f", "model": "SIGN", "seed": 1, "source": "a"}
    return head | {"rows": rows}


def test_errors_and_coverage_are_those_of_the_truth():
    ends = {
        f"{name} {end}": value
        for name in decisions.ASKED
        for end, value in (("low", 0.5), ("high", 0.7), ("true", 0.65))
    }
    found = decisions.summarise(
        [cell([row("no labels", 0.6, **ends), row("source-T", 0.9), row("oracle-T", 0.7)])]
    )
    mine = next(item for item in found if item["method"] == "no labels")
    assert mine["error precision"] == pytest.approx(0.05)
    assert mine["source recall"] == pytest.approx(0.25)
    assert mine["held f1"] == 1.0
    bars = {bar.quantity: bar for bar in decisions.compare(found)}
    assert bars["error with no labels, over that of source-T"].measured == pytest.approx(0.2)


def test_undefined_metrics_are_counted_and_low_coverage_is_named():
    """Two targets of a rare class, without references; precision is undefined on the second."""
    ends = {f"{n} {end}": v for n in decisions.ASKED for end, v in (("low", 0.5), ("high", 0.7))}
    true = {"precision true": 0.8, "recall true": 0.6, "f1 true": 0.6}
    nothing = {"precision": None, "precision low": None, "precision true": None}
    rows = [row("no labels", 0.6, **ends, **true), row("no labels", 0.6, **ends | true | nothing)]
    rows[1]["target"] = "c"
    found = decisions.summarise([cell(rows) | {"kind": "rare"}])
    assert [found[0][f"undefined {name}"] for name in decisions.ASKED] == [1, 0, 0]
    assert found[0]["error precision"] == pytest.approx(0.2)
    assert found[0]["source precision"] is None
    bars = {bar.quantity: bar for bar in decisions.compare(found)}
    low = bars["metrics of families below 85%, rare, no labels"]
    assert (low.measured, low.met, low.note) == (1, False, "of 3: f precision 0% of 2")
    assert bars["undefined metrics, rare, no labels"].measured == 1


def test_probabilities_at_their_word():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    found = decisions.plug_in(p)
    assert found["precision"] == pytest.approx(0.7)
    assert found["recall"] == pytest.approx(1.4 / 1.5)


def test_references_take_probabilities_at_their_word():
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((60, 2)), rng.integers(0, 2, 60)
    found = {item["method"]: item for item in decisions.references(logits, labels, 2.0)}
    assert list(found) == ["uncalibrated", "source-T", "oracle-T"]
    for method, value in (("uncalibrated", 1.0), ("source-T", 2.0)):
        implied = decisions.plug_in(temperature.apply(logits, value))
        assert found[method]["precision"] == pytest.approx(implied["precision"])


def test_positives_are_thinned():
    labels = np.array([1] * 50 + [0] * 50)
    kept = decisions._thinned(labels, np.arange(100), 0.1, 1)
    assert labels[kept].mean() == pytest.approx(0.1, abs=0.02)


def test_quick_requests_measure_one_family(tmp_path):
    found, _ = decisions.cases(Request(tmp_path, names=["bitcoin"], quick=True))
    assert {case.head["family"] for case in found} <= {"bitcoin"}
