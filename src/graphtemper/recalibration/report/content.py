"""The content of a report: everything on the page, as plain values.

`content` is the only function that reads a result; charts and page are made from its return value,
so everything on a page is also in its JSON block.
"""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any, Literal, get_args

from graphtemper._core.version import __version__
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.recalibration.diagnosis import diagnosis
from graphtemper.recalibration.findings import Findings
from graphtemper.recalibration.report import panels, words
from graphtemper.recalibration.report.atlas_map import atlas_map, family_name

SCHEMA = "graphtemper.report/2"
SchemaName = Literal["report", "recalibration"]
_DIGITS = 6
_NAMED_FAMILIES = 5


def content(result: Findings, name: str | None = None, date: str = "") -> dict[str, Any]:
    """Return the content of a report about a result, as values that JSON can hold.

    Parameters
    ----------
    result
        From `graphtemper.recalibrate`.
    name
        Name of the target. Default: the name of the graph.
    date
        When the target was observed, as it should be shown.

    Returns
    -------
    dict
        Valid under `schema`; numbers have six significant digits.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm, recalibrate
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
    >>> report = content(recalibrate(model, g, card, range(200, 400)), "January")
    >>> report["schema"], report["target"]["name"], sum(report["histogram"]["before"])
    ('graphtemper.report/2', 'January', 200)
    """
    background = result.background
    if background is None:
        raise InputError("this result has no background to report on; take it from recalibrate.")
    card = background.card
    facts, numbers = diagnosis(result, card), result.to_dict()
    errors = panels.ExpectedErrors.of(result)
    values = {
        "schema": SCHEMA,
        "graphtemper": __version__,
        "target": {
            "name": background.name if name is None else name,
            "date": date,
            "num_nodes": numbers["num_nodes"],
            "num_labels": result.num_labels,
        },
        "source": {
            "predictor": card.predictor,
            "card": card_checksum(card),
            "environments": [{"name": item.name, "when": item.when} for item in card.environments],
            "num_classes": card.num_classes,
            "num_nodes": card.num_nodes,
            "accuracy": card.reference.accuracy,
            "temperature": card.probe.temperature,
        },
        "verdict": {
            "word": result.verdict,
            "headline": words.headline(result, background),
            "sentence": words.confidence_sentence(result),
            "reasons": [_sentence(reason.text) for reason in result.reasons],
        },
        "accuracy": numbers["accuracy"],
        "mean_confidence": numbers["mean_confidence"],
        "temperature": {
            "value": numbers["temperature"],
            "nodes": numbers.get("node_temperatures"),
            "meaning": words.temperature_meaning(result, card.probe.temperature),
        },
        "direction": {
            "word": numbers["direction"],
            "slope": numbers["slope"],
            "theory": facts["theory"],
            "severity_bound": result.severity_bound,
            "severity": words.severity(result.severity_bound),
        },
        "causes": words.causes(result, background),
        "nearest": [
            row | {"name": family_name(row["family"])}
            for row in numbers["nearest"][:_NAMED_FAMILIES]
        ],
        "histogram": panels.histogram(background.confidence, result.probabilities.max(axis=1)),
        "atlas": atlas_map(background),
        "decisions": panels.decisions(result, errors),
        "classes": panels.by_class(result, background, errors),
        "degrees": panels.by_degree(result, background, errors),
        "labels": panels.labelled(result, background),
        "next_steps": words.next_steps(result, background),
        "labels_to_take": words.suggestion(result, background),
        "signals": numbers["signals"],
        "gains": numbers["gains"],
        "logit_shift": numbers["logit_shift"],
    }
    rounded: dict[str, Any] = _rounded(values)
    return rounded


def schema(of: SchemaName = "report") -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a report, or of `Recalibration.to_dict`.

    Examples
    --------
    >>> schema()["properties"]["schema"]["const"]
    'graphtemper.report/2'
    >>> schema("recalibration")["properties"]["direction"]["enum"]
    ['over-confident', 'under-confident', 'calibrated', 'unknown']
    """
    if of not in get_args(SchemaName):
        raise InputError(f"there is no schema of {of!r:.40}; choose report or recalibration.")
    file = f"{of}_schema.json"
    text = resources.files("graphtemper.recalibration.report").joinpath(file).read_text("utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def card_checksum(card: SourceCard) -> str:
    """Return the checksum that a card's file ends with, by which readers recognise the card."""
    checksum: str = json.loads(card.to_json())["crc32"]
    return checksum


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded(value: Any) -> Any:
    """Round every number; values that are not finite become null, which JSON can hold."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
