"""Log a source card and a result to an MLflow run (extra ``[mlflow]``)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from graphtemper.card.card import SourceCard
from graphtemper.errors import MissingExtraError
from graphtemper.recalibration.findings import Findings
from graphtemper.recalibration.report.model_card import model_card_section
from graphtemper.recalibration.report.page import write_report

FOLDER = "graphtemper"


def log_to_mlflow(card: SourceCard, result: Findings | None = None, *, target: str = "") -> None:
    """Log the card, and the result with its report, to the active MLflow run.

    Metrics are ``graphtemper.temperature``, ``.slope``, ``.accuracy`` with ``.accuracy_low`` and
    ``.accuracy_high``, and ``.source_temperature``, ``.source_accuracy``; the verdict is a tag. The
    folder ``graphtemper`` of the run's artifacts gets the card (JSON), the result (JSON), the
    report (HTML) and the model card's section (Markdown). The report is written first, so that an
    error there leaves nothing half logged.

    Parameters
    ----------
    card, result
        The source card, and the result of `recalibrate` on a target, if there is one.
    target
        Name of that target.

    Raises
    ------
    MissingExtraError
        If MLflow, or the packages that the report needs, are not installed.
    """
    mlflow = _mlflow()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        if result is not None:
            write_report(report, result, target or None)
        mlflow.log_metrics(metrics(card, result))
        mlflow.log_text(card.to_json(), f"{FOLDER}/source.card.json")
        section = model_card_section(card, result, target=target)
        mlflow.log_text(section, f"{FOLDER}/calibration.md")
        if result is not None:
            mlflow.set_tag(f"{FOLDER}.verdict", result.verdict)
            mlflow.log_dict(result.to_dict(), f"{FOLDER}/recalibration.json")
            mlflow.log_artifact(str(report), FOLDER)


def metrics(card: SourceCard, result: Findings | None = None) -> dict[str, float]:
    """Return the numbers that are logged as metrics.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
    >>> sorted(metrics(card))
    ['graphtemper.source_accuracy', 'graphtemper.source_temperature']
    """
    values = {
        "source_temperature": card.probe.temperature,
        "source_accuracy": card.reference.accuracy,
    }
    if result is not None:
        facts = result.to_dict()
        values |= {
            "temperature": facts["temperature"],
            "slope": facts["slope"],
            "accuracy": facts["accuracy"]["value"],
            "accuracy_low": facts["accuracy"]["low"],
            "accuracy_high": facts["accuracy"]["high"],
        }
    return {f"{FOLDER}.{name}": float(value) for name, value in values.items()}


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise MissingExtraError(
            "log_to_mlflow needs mlflow; run pip install 'graphtemper[mlflow]'."
        ) from error
    return mlflow
