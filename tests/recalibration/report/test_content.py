import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import answering, block_model

from graphtemper import metrics, shifts, temperature
from graphtemper._core.estimate import Estimate
from graphtemper.errors import InputError
from graphtemper.recalibration.labels.few_labels import more_labels
from graphtemper.recalibration.labels.given import read_labels
from graphtemper.recalibration.report.charts import charts
from graphtemper.recalibration.report.content import content
from graphtemper.recalibration.report.schema import schema
from graphtemper.recalibration.verdict import VERIFIED_WIDTH, labels_needed
from graphtemper.recalibration.words import labels_to_take

CASES = ("plain", "labels", "odd", "logits", "no edges", "one node", "hostile")


@pytest.fixture(scope="module")
def contents(reported):
    return {name: content(result) for name, result in reported.items()}


def errors(value):
    import jsonschema

    return [error.message for error in jsonschema.Draft202012Validator(schema()).iter_errors(value)]


@pytest.mark.parametrize("case", CASES)
def test_content_validates_and_survives_json(contents, case):
    report = contents[case]
    assert errors(report) == []
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_the_schema_refuses_what_does_not_belong(contents):
    for change in (
        lambda c: c.update(more=1),
        lambda c: c.pop("labels"),
        lambda c: c["verdict"].update(word="maybe"),
        lambda c: c["accuracy"].update(value=1.2),
        lambda c: c["target"].update(num_nodes="600"),
        lambda c: c["nearest"][0].pop("distance"),
    ):
        broken = copy.deepcopy(contents["labels"])
        change(broken)
        assert errors(broken)


@pytest.mark.parametrize("case", CASES)
def test_panels_add_up_to_the_whole(reported, contents, case):
    result, report = reported[case], contents[case]
    count = len(result.probabilities)
    assert sum(report["histogram"]["before"]) == sum(report["histogram"]["after"]) == count
    for kind in ("classes", "degrees"):
        rows = [row for row in report[kind] if row["nodes"]]
        assert sum(row["nodes"] for row in rows) == count
        assert sum(row["labels"] for row in rows) == result.num_labels
        for side, whole in zip(("before", "after"), result.mean_confidence, strict=True):
            mean = sum(row["nodes"] * row[side] for row in rows) / count
            assert mean == pytest.approx(whole, abs=1e-5)


def test_groups_hold_the_means_of_their_nodes(reported, contents):
    result = reported["labels"]
    degrees, labels = result.graph.degrees[result.nodes], result.labels
    past = temperature.apply(result.logits, result.source_temperature).max(axis=1)
    top, guess = result.probabilities.max(axis=1), result.probabilities.argmax(axis=1)
    for row in contents["labels"]["degrees"]:
        chosen = (degrees >= row["low"]) & (degrees <= row["high"])
        assert row["nodes"] == chosen.sum()
        assert row["after"] == pytest.approx(top[chosen].mean(), rel=1e-5)
        assert row["temperature"] == pytest.approx(
            result.node_temperatures[chosen].mean(), rel=1e-5
        )
        labelled = chosen[labels.rows]
        if labelled.any():
            right = (guess[labels.rows] == labels.classes)[labelled].mean()
            assert row["right"]["value"] == pytest.approx(right, rel=1e-5)
            assert row["right"]["low"] <= right <= row["right"]["high"]
    for k, row in enumerate(contents["labels"]["classes"]):
        assert row["before"] == pytest.approx(past[guess == k].mean(), rel=1e-5)


def test_labels_give_the_calibration_error_of_the_labelled_nodes(reported, contents):
    result, panel = reported["labels"], contents["labels"]["labels"]
    labels = result.labels
    assert panel["count"] == 150
    assert panel["bins"] == 10
    after = result.probabilities[labels.rows]
    assert panel["after"]["ece"] == pytest.approx(metrics.ece(after, labels.classes, 10), rel=1e-5)
    before = temperature.apply(result.logits[labels.rows], result.source_temperature).max(axis=1)
    sums = sum(row["nodes"] * row["confidence"] for row in panel["before"]["curve"])
    assert sums == pytest.approx(before.sum(), rel=1e-5)
    assert contents["plain"]["labels"] is None


def test_what_to_do_follows_from_the_verdict(reported, contents):
    for case, report in contents.items():
        actions = [step["action"] for step in report["next_steps"]]
        word = report["verdict"]["word"]
        assert ("hold" in actions) == (word == "abstain")
        assert ("accept" in actions) == (word != "abstain")
        if word == "trust":
            assert actions[0] == "accept"
        if word != "trust" and not reported[case].num_labels:
            nodes = report["labels_to_take"]["nodes"]
            assert set(nodes) <= set(reported[case].nodes.tolist())
    assert contents["odd"]["verdict"]["word"] == "abstain"
    assert [step["action"] for step in contents["odd"]["next_steps"][:2]] == ["hold", "label"]


def test_further_labels_are_those_that_the_interval_lacks(reported):
    """After labels the interval holds the atlas as well, and the count agrees with the reason."""
    nodes = reported["odd"].nodes[:40]
    accuracy = Estimate(0.75, 0.62, 0.85, "labels")
    result = replace(
        answering(reported["odd"], verdict="caution", accuracy=accuracy),
        labels=read_labels({k: 0 for k in nodes}, nodes, int(nodes.max()) + 1, 3),
    )
    expected = more_labels(result.accuracy, VERIFIED_WIDTH)
    assert 0 < expected < labels_needed(0.7, population=len(result.probabilities))
    assert labels_to_take(result) == expected
    sure = answering(result, accuracy=Estimate(0.8, 0.78, 0.82, "labels"))
    assert labels_to_take(sure) == 0


@pytest.mark.parametrize("case", ["plain", "labels", "logits", "hostile"])
def test_expected_errors_are_those_of_the_probabilities(reported, contents, case):
    result, report = reported[case], contents[case]
    top = result.probabilities.max(axis=1)
    every = report["decisions"][0]
    assert every["nodes"] == len(top)
    assert every["error"]["value"] == pytest.approx(1.0 - top.mean(), rel=1e-5)
    # At the ends of the accuracy interval, mean confidence over all nodes equals the end.
    assert every["error"]["low"] == pytest.approx(1.0 - result.accuracy.high, abs=1e-4)
    assert every["error"]["high"] == pytest.approx(1.0 - result.accuracy.low, abs=1e-4)
    for row in report["decisions"]:
        passing = top >= row["threshold"]
        assert row["nodes"] == passing.sum()
        if row["nodes"]:
            assert row["error"]["low"] <= row["error"]["value"] <= row["error"]["high"]
            assert row["error"]["value"] <= 1.0 - row["threshold"]
    for kind in ("classes", "degrees"):
        rows = [row for row in report[kind] if row["nodes"]]
        for side in ("value", "low", "high"):
            mean = sum(row["nodes"] * row["error"][side] for row in rows) / len(top)
            assert mean == pytest.approx(every["error"][side], rel=1e-4)


def test_expected_errors_hold_on_a_graph_with_labels(reported):
    """Among the nodes that reach a threshold, about the expected share is wrong."""
    result = reported["plain"]
    truth = shifts.noise(0.8)(block_model(2, 0.7, 700), 5).labels
    wrong, top = result.predictions != truth, result.probabilities.max(axis=1)
    for row in content(result)["decisions"]:
        if row["nodes"] >= 100:
            share = wrong[top >= row["threshold"]].mean()
            slack = 2.0 * np.sqrt(0.25 / row["nodes"])
            assert row["error"]["low"] - slack <= share <= row["error"]["high"] + slack


def test_without_an_accuracy_no_threshold_is_given(contents):
    for case in ("odd", "no edges", "one node"):
        assert contents[case]["decisions"] is None
        assert all(row["error"] is None for row in contents[case]["classes"])


def test_a_result_without_nodes_is_refused(reported):
    with pytest.raises(InputError):
        content(replace(reported["plain"], graph=None))


@pytest.mark.parametrize("case", CASES)
def test_charts_are_vega_lite(contents, case):
    compiler = pytest.importorskip("vl_convert")
    specs = charts(contents[case])
    assert ("reliability-after" in specs) == (contents[case]["labels"] is not None)
    for spec in specs.values():
        assert compiler.vegalite_to_vega(spec)["marks"]


def test_no_string_of_a_file_is_part_of_an_expression(contents):
    def expressions(value, key=""):
        if isinstance(value, dict):
            for name, item in value.items():
                if name not in ("values", "domain"):
                    yield from expressions(item, name)
        elif isinstance(value, list):
            for item in value:
                yield from expressions(item, key)
        elif isinstance(value, str) and key in ("test", "filter", "labelExpr", "expr", "signal"):
            yield value

    specs = charts(contents["hostile"]).values()
    strings = [text for spec in specs for text in expressions(spec)]
    assert strings
    assert not [text for text in strings if "hacked" in text]
