"""The section of a model card, and what is logged to MLflow."""

import json
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper.errors import MissingExtraError
from graphtemper.models import SIGN
from graphtemper.recalibration.report import mlflow as tracking
from graphtemper.recalibration.report import model_card_section


@pytest.fixture(scope="module")
def answer():
    """A card and a result."""
    graph = csbm.sample(400, degree=8, homophily=0.8, snr=1.0, num_features=4, seed=1)
    model = SIGN(hops=1).fit(graph, range(200))
    card = SourceCard.build(model, graph, range(200, 400), compositions=0, shifts=FEW_SHIFTS)
    return card, recalibrate(model, shifts.noise(1.0)(graph, 5), card, range(200, 400))


class Mlflow(types.ModuleType):
    """Record what is logged, with the functions of MLflow."""

    def __init__(self):
        super().__init__("mlflow")
        self.metrics, self.files, self.tags = {}, {}, {}

    def log_metrics(self, metrics):
        self.metrics.update(metrics)

    def log_text(self, text, artifact_file):
        self.files[artifact_file] = text

    def log_dict(self, dictionary, artifact_file):
        self.files[artifact_file] = json.dumps(dictionary)

    def log_artifact(self, local_path, artifact_path=None):
        with open(local_path, encoding="utf-8") as stream:
            self.files[f"{artifact_path}/report.html"] = stream.read()

    def set_tag(self, key, value):
        self.tags[key] = value


def test_the_section_holds_the_numbers(answer):
    card, result = answer
    text = model_card_section(card, result, target="May")
    assert text.startswith("## Calibration\n")
    assert f"| temperature | {card.probe.temperature:.4g} |" in text
    assert f"| temperature | {result.temperature:.3g} (source" in text
    assert f"| verdict | {result.verdict} |" in text
    assert "| on May | |" in text
    assert "| shifts measured | 6 of drop, mask, noise, rewire |" in text
    assert "on May" not in model_card_section(card)


def test_temperatures_per_node_are_summarised(answer):
    card, result = answer
    many = replace(
        result,
        relative=1.5 / result.source_temperature,
        node_temperatures=np.linspace(1.0, 3.0, 201),
    )
    text = model_card_section(card, many)
    assert "| temperature | 1.5 for the graph; per node, 90 % between 1.1 and 2.9 |" in text


def test_text_from_files_cannot_become_markup(answer):
    card, _ = answer
    text = model_card_section(replace(card, predictor="Net|<b>\n\n# Trust `me`"))
    assert "\\# Trust \\`me\\`" in text
    assert "\n# Trust" not in text
    assert "<b>" not in text


def test_mlflow_gets_card_result_report_and_section(answer, monkeypatch):
    card, result = answer
    monkeypatch.setitem(sys.modules, "mlflow", mlflow := Mlflow())
    monkeypatch.setattr(
        tracking, "write_report", lambda path, result, name: path.write_text(f"report on {name}")
    )
    tracking.log_to_mlflow(card, result, target="May")
    assert mlflow.metrics["graphtemper.temperature"] == pytest.approx(result.temperature)
    assert mlflow.metrics["graphtemper.accuracy"] == pytest.approx(result.accuracy.value)
    assert mlflow.metrics["graphtemper.source_accuracy"] == card.reference.accuracy
    assert mlflow.tags == {"graphtemper.verdict": result.verdict}
    travelled = SourceCard.from_json(mlflow.files["graphtemper/source.card.json"])
    assert travelled.probe.temperature == card.probe.temperature
    assert json.loads(mlflow.files["graphtemper/recalibration.json"]) == result.to_dict()
    assert mlflow.files["graphtemper/report.html"] == "report on May"
    assert "| on May | |" in mlflow.files["graphtemper/calibration.md"]


def test_a_card_alone_is_logged_without_a_result(answer, monkeypatch):
    card, _ = answer
    monkeypatch.setitem(sys.modules, "mlflow", mlflow := Mlflow())
    tracking.log_to_mlflow(card)
    assert sorted(mlflow.files) == ["graphtemper/calibration.md", "graphtemper/source.card.json"]
    assert not mlflow.tags


def test_a_report_that_cannot_be_made_leaves_nothing_half_logged(answer, monkeypatch):
    card, result = answer

    def fails(path, result, name):
        raise MissingExtraError("the report needs jinja2.")

    monkeypatch.setitem(sys.modules, "mlflow", mlflow := Mlflow())
    monkeypatch.setattr(tracking, "write_report", fails)
    with pytest.raises(MissingExtraError, match="jinja2"):
        tracking.log_to_mlflow(card, result)
    assert not mlflow.metrics
    assert not mlflow.files


def test_missing_mlflow_names_the_extra(answer, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'graphtemper\[mlflow\]'"):
        tracking.log_to_mlflow(answer[0])
