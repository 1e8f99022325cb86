"""Options about decisions of `graphtemper recalibrate`."""

import json

import pytest
from tests.helpers import check_refusal

from graphtemper import Graph

GOOD = ("recalibrate", "target.npz", "--predict", "model.npz", "--card", "model.card.json")


@pytest.fixture(scope="module")
def folder(deployed):
    place, _ = deployed
    (place / "costs.csv").write_text("0,1\n20,0\n")
    (place / "country.txt").write_text("DE\nFR\n" * 200)
    (place / "words.csv").write_text("0,none\n")
    target = Graph.load(place / "target.npz")
    target.replace(class_names=("licit", "fraud")).save(place / "named.npz")
    return place


def test_metrics_come_first(call, folder):
    asked = ("--positive", "1", "--threshold", "0.5", "--review", "50", "--costs", "costs.csv")
    out = ("--segments", "country.txt", "--report", "decided.html")
    result = call(*GOOD, *asked, *out, cwd=folder)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[1].startswith("Precision ")
    for word in ("at the source", "Recall at 50", "Cost", "Segments", "DE", "FR"):
        assert word in result.stdout
    page = (folder / "decided.html").read_text("utf-8")
    for word in ("precision-recall", "Expected confusion matrix", "by segment"):
        assert word in page


def test_a_condition_on_the_accuracy_asks_for_no_metrics(call, folder):
    result = call(*GOOD, "--fail-on", "accuracy<0.01", cwd=folder)
    assert (result.returncode, result.stdout.splitlines()[1][:8]) == (0, "Accuracy")


def test_classes_by_name_and_json(call, folder):
    named = ("recalibrate", "named.npz", *GOOD[2:], "--positive", "fraud", "--json")
    found = json.loads(call(*named, cwd=folder).stdout)
    assert found["closed"] == {}
    assert found["metrics"]["precision"]["low"] < found["metrics"]["precision"]["value"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("precision<0.99", 3),
        ("low(precision)<0.05", 0),
        ("high(recall) < 0.999", 3),
        ("accuracy>0.1", 3),
        ("temperature<0", 0),
    ],
)
def test_conditions_set_the_exit_code(call, folder, condition, code):
    for option in ("--fail-on", "--fail-if"):
        result = call(*GOOD, "--positive", "1", option, condition, cwd=folder)
        assert result.returncode == code
        begin = f"graphtemper: gate closed: {condition}: "
        assert result.stderr.startswith(begin) if code else not result.stderr


@pytest.mark.parametrize(
    "condition",
    ["accuracy<0.01", "low<0", "high>1", "temperature<0", "slope<0", "precision<0", "abstain"],
)
def test_an_abstention_passes_no_gate(call, folder, condition):
    (folder / "few.txt").write_text("0\n1\n2\n")  # of three nodes nothing can be said
    asked = ("--nodes", "few.txt", "--positive", "1", "--fail-on", condition)
    result = call(*GOOD, *asked, cwd=folder)
    assert "abstain" in result.stdout
    assert result.returncode == 3
    assert "abstain" in result.stderr


@pytest.mark.parametrize(
    ("asked", "condition", "why"),
    [
        ((), "precision<0", "precision was not measured; name the positive class"),
        (("--positive", "1"), "cost>1e9", "cost was not measured; give costs"),
        (("--positive", "1"), "recall_at_k<0", "and the number of reviews"),
        (("--positive", "1", "--threshold", "1"), "precision<0", "not defined: no node is flagged"),
    ],
)
def test_a_gate_that_cannot_be_checked_is_closed(call, folder, asked, condition, why):
    result = call(*GOOD, *asked, "--fail-on", condition, "--json", cwd=folder)
    assert result.returncode == 3
    assert why in result.stderr
    assert why in json.loads(result.stdout)["closed"][condition]


def test_a_model_that_exits_is_an_error(call, folder):
    (folder / "leaving.py").write_text("import sys\ndef leave(graph):\n    sys.exit(0)\n")
    words = ("recalibrate", "target.npz", "--predict", "leaving:leave", *GOOD[4:])
    result = call(*words, "--fail-on", "accuracy<0.01", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "exit(0) instead of returning logits" in result.stderr


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("--positive", "ham"), "there is no class 'ham'"),
        (("--fail-on", "precision=1"), "cannot read the gate"),
        (("--fail-on", "drop"), "needs a watch"),
        (("--costs", "words.csv"), "not a table of numbers"),
        (("--segments", "nodes.txt"), "name one segment for each node"),
        (("--segments", "environment"), "no environments"),
        (("--threshold", "0.5"), "give --positive"),
        (
            ("--positive", "1", "--features", "nodes.parquet"),
            "a graph in Parquet needs the --logits",
        ),
    ],
)
def test_bad_options_are_one_sentence(call, folder, asked, text):
    result = call(*GOOD, *asked, "--out", "never.npz", cwd=folder)
    check_refusal(result)
    assert text in result.stderr
    assert not (folder / "never.npz").exists()
