"""Conditions on an answer, and what closes where a condition cannot be checked."""

import pytest

from graphtemper.errors import InputError
from graphtemper.recalibration.gates import Gate

NUMBERS = {"accuracy": 0.8, "low": 0.7, "high": 0.9, "temperature": 1.5, "slope": 0.7}
NUMBERS |= {"confidence": 0.9}
METRICS = {"precision": {"value": 0.6, "low": 0.5, "high": float("nan")}}
UNDEFINED = {"recall": "no node is expected to be positive"}


def reason(text, verdict="caution", **changes):
    return Gate.parse(text).why_closed(verdict, NUMBERS | changes, METRICS, UNDEFINED)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abstain", ""),
        ("caution", "the verdict is caution"),
        ("low<0.75", "low is 0.7"),
        ("low(accuracy)<0.75", "low is 0.7"),
        ("temperature>2", ""),
        (" slope > 0.1 ", "slope is 0.7"),
        ("accuracy <= 0.8", "accuracy is 0.8"),
        ("accuracy < 0.8", ""),
        ("high>=0.9", "high is 0.9"),
        ("high>0.9", ""),
        ("precision<0.55", ""),
        ("low(precision)<0.55", "low(precision) is 0.5"),
    ],
)
def test_conditions(text, why):
    assert reason(text) == why


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [
        ("f1<0", "trust", "was not measured"),
        ("recall<0", "trust", "not defined: no node is expected"),
        ("high(precision)>1", "trust", "is nan"),
        *((f"{name}<-9", "abstain", "verdict is abstain") for name in NUMBERS if name[0] != "c"),
        ("precision<0", "abstain", "verdict is abstain"),
    ],
)
def test_what_cannot_be_checked_is_closed(text, verdict, why):
    assert why in reason(text, verdict)


def test_mean_confidence_is_measured_also_where_nothing_else_is_known():
    assert reason("confidence<0.5", "abstain") == ""
    assert reason("confidence<0.95", "abstain") == "confidence is 0.9"
    assert reason("confidence<0.95", confidence=float("nan"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accuracy",
        "accuracy<",
        "name<1",
        "accuracy<nan",
        "low<1e999",
        "accuracy < 80%",
        "low=<1",
    ],
)
def test_a_gate_that_cannot_be_read(text):
    with pytest.raises(InputError) as refused:
        Gate.parse(text)
    for word in ("change", "accuracy, low, high, temperature, slope, confidence", "<=", "80%"):
        assert word in str(refused.value)


CHANGES = [
    {"code": "column_constant", "text": "column 3 is 0 everywhere."},
    {"code": "edges_fewer", "text": "2 edges per node (was 5)."},
]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("changes>0", "there are 2 changes: column 3 is 0 everywhere."),
        ("changes>2", ""),
        ("edges_fewer", "2 edges per node (was 5)."),
        ("columns_order", ""),
    ],
)
@pytest.mark.parametrize("verdict", ["trust", "abstain"])
def test_changes_are_known_whatever_the_verdict(text, why, verdict):
    assert reason(text, verdict, changes=CHANGES) == why


def test_answers_of_earlier_versions_have_no_changes():
    assert reason("changes>0") == ""
