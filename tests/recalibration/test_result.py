"""Findings as plain values: one schema, and no claim where nothing is known."""

import json

import numpy as np
import pytest
from tests.helpers import raises, schema_errors

from graphtemper import report

CASES = ("plain", "labels", "odd", "logits", "no edges", "one node")


@pytest.mark.parametrize("case", CASES)
def test_every_answer_validates_and_survives_json(reported, case):
    answer = reported[case].to_dict()
    assert schema_errors(answer) == []
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert all(name.isidentifier() for name in (*answer, *answer["signals"], *answer["gains"]))


def test_the_schema_refuses_other_names(reported):
    answer = reported["plain"].to_dict()
    assert schema_errors(answer | {"estimated_accuracy": 0.5})
    assert schema_errors(answer | {"signals": answer["signals"] | {"noise agreement": 2.0}})
    assert schema_errors({key: value for key, value in answer.items() if key != "direction"})


def test_every_quantity_is_on_its_natural_scale(reported):
    signals = reported["plain"].signals
    shares = {"homophily"} | {name for name in signals if name.endswith(("share", "agreement"))}
    shares |= {name for name in signals if name.endswith(("accuracy", "confidence"))}
    assert len(shares) == 9
    assert all(-1.0 <= signals[name] <= 1.0 for name in shares)
    assert signals["confidence"] == reported["plain"].mean_confidence[0]


@pytest.mark.parametrize("case", ["odd", "no edges", "one node"])
def test_an_abstention_claims_nothing(reported, case):
    result = reported[case]
    assert result.verdict == "abstain"
    answer = result.to_dict()
    assert answer["direction"] == "unknown"
    assert answer["slope"] is None
    assert answer["reasons"][0]["code"] == "direction_unclear"
    assert result.summary_rows()["Accuracy"].startswith("not known")


@pytest.mark.parametrize("case", CASES)
def test_the_severity_bound_holds_for_the_whole_interval(reported, case):
    result = reported[case]
    ends = np.array([result.accuracy.low, result.accuracy.high])
    gaps = np.abs(ends - result.mean_confidence[0])
    assert result.severity_bound == pytest.approx(gaps.max())


def test_the_reasons_and_the_direction_agree(reported):
    for result in reported.values():
        code = result.reasons[0].code.replace("_", "-").replace("direction-unclear", "unknown")
        assert result.direction == code


def test_the_schemas_are_schemas():
    import jsonschema

    for name in ("report", "recalibration"):
        jsonschema.Draft202012Validator.check_schema(report.schema(name))
    with raises("choice"):
        report.schema("card")
