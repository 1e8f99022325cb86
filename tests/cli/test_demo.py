"""The demo, with its extras and without them."""

import json
import sys

import pytest
from tests.helpers import needs, run_command, schema_errors


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    needs("matplotlib")
    needs("vl_convert")
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_command("demo", cwd=folder)


def test_demo_ends_with_a_table_a_verdict_a_picture_and_a_report(demo):
    folder, result = demo
    assert result.returncode == 0, result.stderr
    for word in ("ECE", "label-free", "Verdict: ", "over-confident", "Picture:"):
        assert word in result.stdout
    picture, report = result.stdout.split("Picture: ")[1].strip().split("\nReport: ")
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert (folder / report).read_bytes().startswith(b"<!doctype html>")


@pytest.mark.nightly
def test_demo_corrects_the_confidence(tmp_path):
    result = run_command("demo", "--json", "--out", "d[/b]x", cwd=tmp_path)
    content = json.loads(result.stdout)
    scores = {row["temperature_of"]: row for row in content["scores"]}
    assert scores["atlas (label-free)"]["ece"] < 0.6 * scores["source"]["ece"]
    assert scores["atlas (label-free)"]["nll"] < scores["source"]["nll"]
    assert content["accuracy"]["low"] <= content["true_accuracy"] <= content["accuracy"]["high"]
    assert schema_errors(content) == []
    assert content["picture"] == "d[/b]x/demo.png"
    assert content["report"] == "d[/b]x/report.html"


@pytest.fixture
def without_extras(monkeypatch, tmp_path):
    """Hide the packages that the picture and the report need, and make the job a quick one."""
    from graphtemper.cli import demo_job

    for module in ("matplotlib", "matplotlib.figure", "jinja2", "vl_convert"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(demo_job, "NUM_NODES", 800)
    monkeypatch.setattr(demo_job, "COMPOSITIONS", 0)
    return tmp_path


@pytest.mark.cpu(4)
def test_demo_runs_without_extras(call, without_extras):
    result = call("demo", cwd=without_extras)
    assert result.returncode == 0, result.stderr
    assert "Verdict: " in result.stdout
    for extra in ("plots", "report"):
        assert f"pip install 'graphtemper[{extra}]'" in result.stdout
    assert not list(without_extras.iterdir())
    content = json.loads(call("demo", "--json", cwd=without_extras).stdout)
    assert content["picture"] is content["report"] is None
    assert content["scores"]


@pytest.mark.cpu(4)
def test_demo_of_fraud_shows_estimates_next_to_the_truth(call, without_extras):
    result = call("demo", "--fraud", cwd=without_extras)
    assert result.returncode == 0, result.stderr
    for word in ("Fraud on the changed graph", "Precision", "at the source", "Recall at 50"):
        assert word in result.stdout
