"""`graphtemper recalibrate --report`, from files."""

import json
import sys

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.cli import main
from graphtemper.recalibration.report.page import read_report

pytest.importorskip("vl_convert")


@pytest.fixture
def run(reported, tmp_path, monkeypatch, capsys):
    graph = csbm.sample(300, 6, 0.8, 1.0, num_classes=3, num_features=10, seed=4)
    graph.replace(name="").save(tmp_path / "<b>target.npz")
    logits = np.random.default_rng(0).normal(size=(300, 3)) + 3.0 * np.eye(3)[graph.labels]
    np.save(tmp_path / "logits.npy", logits)
    reported["plain"].reading.card.save(tmp_path / "card.json")
    monkeypatch.chdir(tmp_path)

    def inner(*arguments):
        files = ("<b>target.npz", "--logits", "logits.npy", "--card", "card.json")
        monkeypatch.setattr(sys, "argv", ["graphtemper", "recalibrate", *files, *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr()

    return inner


def test_the_report_is_written_and_named(run):
    code, output = run("--report", "report.html")
    assert code == 0
    assert "Report: report.html" in output.out
    # A graph without a name of its own goes by that of its file.
    assert read_report("report.html")["target"]["name"] == "<b>target"


def test_machines_are_told_where_it_is(run):
    code, output = run("--report", "report.html", "--json")
    facts = json.loads(output.out)
    assert (code, facts["report"]) == (0, "report.html")
    content = read_report("report.html")
    assert content["accuracy"]["value"] == pytest.approx(facts["accuracy"]["value"], rel=1e-5)
    assert content["verdict"]["word"] == facts["verdict"]


@pytest.mark.parametrize(
    ("missing", "name", "sentence"),
    [
        (None, "report.pdf", "the report is an .html file"),
        ("vl_convert", "report.html", "pip install 'graphtemper[report]'"),
    ],
)
def test_what_cannot_be_written_is_refused_before_work(
    run, tmp_path, monkeypatch, missing, name, sentence
):
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    code, output = run("--report", name)
    assert code == 2
    assert sentence in output.err
    assert output.err.count("\n") == 1
    assert not (tmp_path / "recalibrated.npz").exists()
