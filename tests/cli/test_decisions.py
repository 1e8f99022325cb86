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
    result = call(*GOOD, "--fail-if", "accuracy<0.01", cwd=folder)
    assert (result.returncode, result.stdout.splitlines()[1][:8]) == (0, "Accuracy")
    assert "Precision" in call(*GOOD, "--fail-if", "precision<0.01", cwd=folder).stdout


def test_segments_fit_a_terminal_and_costs_may_end_with_an_empty_line(call, folder):
    (folder / "ends.csv").write_text("\ufeff0,1\r\n20,0\r\n\r\n", "utf-8")
    asked = ("--positive", "1", "--costs", "ends.csv", "--segments", "country.txt")
    lines = call(*GOOD, *asked, cwd=folder).stdout.splitlines()
    rows = [line for line in lines if line.startswith(("DE", "FR"))]
    assert len(rows) == 2
    assert all(line.count(" to ") == 3 and "source" not in line for line in rows)


def test_options_are_read_before_anything_is_measured(call, folder):
    missing = ("recalibrate", "missing.npz", *GOOD[2:], "--costs", "words.csv")
    assert "not a row of numbers" in call(*missing, cwd=folder).stderr


def test_classes_by_name_and_json(call, folder):
    named = ("recalibrate", "named.npz", *GOOD[2:], "--positive", "fraud", "--json")
    found = json.loads(call(*named, cwd=folder).stdout)
    assert found["failed"] == []
    assert found["metrics"]["precision"]["low"] < found["metrics"]["precision"]["value"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("precision<0.99", 2),
        ("low(precision)<0.05", 0),
        ("high(recall) < 0.999", 2),
        ("accuracy>0.1", 2),
        ("temperature<0", 0),
    ],
)
def test_conditions_set_the_exit_code(call, folder, condition, code):
    result = call(*GOOD, "--positive", "1", "--fail-if", condition, cwd=folder)
    assert result.returncode == code
    # Bad input has the same code; this line tells the two apart, also next to --json.
    said = f"graphtemper: failed: {condition.replace(' ', '')}\n"
    assert result.stderr.replace(" < ", "<") == (said if code else "")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("--positive", "ham"), "there is no class 'ham'"),
        (("--fail-if", "precision=1"), "cannot read the gate"),
        (("--fail-if", "drop"), "needs a watch"),
        (("--fail-if", "cost>1"), "it needs costs"),
        (("--costs", "words.csv"), "not a row of numbers"),
        (("--segments", "nodes.txt"), "name one segment for each node"),
        (("--segments", "environment"), "no environments"),
        (("--threshold", "0.5"), "give --positive"),
        (("--fail-if", "recall_at_k<0.1"), "give --review"),
        (("--positive", "1", "--features", "nodes.parquet"), "a graph in Parquet takes"),
    ],
)
def test_bad_options_are_one_sentence(call, folder, asked, text):
    result = call(*GOOD, *asked, "--out", "never.npz", cwd=folder)
    check_refusal(result)
    assert text in result.stderr
    assert not (folder / "never.npz").exists()
