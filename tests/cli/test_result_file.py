"""`graphtemper recalibrate --report`, from files."""

import sys

import numpy as np
import pytest
from tests.helpers import check_refusal

from graphtemper.recalibration.report.page import read_report

pytest.importorskip("vl_convert")


@pytest.fixture
def run(source, model, card, call, tmp_path):
    source.replace(name="", labels=None).save(tmp_path / "<b>target.npz")
    np.save(tmp_path / "logits.npy", model(source))
    card.save(tmp_path / "card.json")
    files = ("<b>target.npz", "--logits", "logits.npy", "--card", "card.json")
    return lambda *arguments: call("recalibrate", *files, *arguments, cwd=tmp_path)


def test_the_report_is_written_and_named(run):
    shown = run("--report", "report.html")
    assert shown.returncode == 0
    assert "Report: report.html" in shown.stdout
    # A graph without a name of its own goes by that of its file.
    assert read_report("report.html")["target"]["name"] == "<b>target"


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
    refused = run("--report", name)
    check_refusal(refused)
    assert sentence in refused.stderr
    assert not (tmp_path / "recalibrated.npz").exists()
