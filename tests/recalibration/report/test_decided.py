"""Metrics of decisions on a report."""

import re

import numpy as np
import pytest

from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN
from graphtemper.recalibration.report.charts import charts
from graphtemper.recalibration.report.content import content
from graphtemper.recalibration.report.page import read_report
from graphtemper.recalibration.report.schema import schema

COSTS = [[0, 1], [20, 0]]


@pytest.fixture(scope="module")
def result():
    graph = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    model = SIGN(hops=1).fit(graph, range(200))
    few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
    card = SourceCard.build(model, graph, range(200, 400), compositions=0, shifts=few)
    return recalibrate(model, graph.replace(class_names=("licit", "fraud")), card, range(200, 400))


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"positive": 1, "threshold": 0.5, "k": 20, "costs": COSTS},
        {"positive": 1, "threshold": 1.0, "segments": np.arange(200) % 2},
    ],
)
def test_content_is_valid(result, asked):
    import jsonschema

    found = content(result, metrics=result.metrics(**asked))
    errors = jsonschema.Draft202012Validator(schema()).iter_errors(found)
    assert [error.message for error in errors] == []
    drawn = charts(found)
    assert ("precision-recall" in drawn) == ("positive" in asked)
    assert ("cost" in drawn) == ("costs" in asked)


def test_the_page_leads_with_the_metrics(result, tmp_path):
    metrics = result.metrics(
        positive="fraud", costs=COSTS, segments=np.where(np.arange(200) < 90, "DE", "<b>FR")
    )
    result.report(tmp_path / "report.html", metrics=metrics)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.index('id="metrics"') < page.index('id="next"')
    assert re.search(r"<h1>\s*Precision 0\.\d\d \(.* to .*\), was 0\.\d\d at the source", page)
    assert "<b>FR" not in page
    block = read_report(tmp_path / "report.html")["metrics"]
    assert block["classes"] == ["licit", "fraud"]
    assert [row["name"] for row in block["segments"]] == ["<b>FR", "DE"]
    assert block["rows"][0]["name"] == "Precision"
    assert "Class fraud against all others; a node is flagged if it is the prediction" in page


def test_what_is_undefined_is_said(result, tmp_path):
    asked = result.metrics(positive=1, threshold=1.0, k=20)
    result.report(tmp_path / "report.html", metrics=asked)
    block = read_report(tmp_path / "report.html")["metrics"]
    assert block["notes"] == ["Precision is undefined: no node is flagged."]
    names = [row["name"] for row in block["rows"]]
    assert names[0] == "Recall"
    assert names[-2:] == ["Precision at 20", "Recall at 20"]
