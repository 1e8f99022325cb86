"""Gates on the newest snapshot."""

from dataclasses import replace

import pytest
from tests.helpers import raises

from graphtemper.monitor import Entry, Gate

ENTRY = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "caution", ("why",), {})


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("abstain", False),
        ("caution", True),
        ("change", True),
        ("low<0.75", True),
        ("temperature>2", False),
        (" slope > 0.1 ", True),
        ("accuracy <= 0.8", True),
        ("accuracy < 0.8", False),
        ("high>=0.9", True),
        ("high>0.9", False),
    ],
)
def test_conditions(text, closed):
    assert Gate.parse(text).closes(ENTRY, changed=True) is closed
    assert not Gate.parse("change").closes(ENTRY, changed=False)


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
def test_a_gate_that_cannot_be_parsed(text):
    with raises("choice") as refused:
        Gate.parse(text)
    for word in ("change", "accuracy, low, high, temperature, slope, confidence", "<=", "80%"):
        assert word in str(refused.value)


def test_unknown_values_close_no_gate():
    entry = replace(ENTRY, verdict="abstain", slope=1.0)
    assert not Gate.parse("slope>0.9").closes(entry, changed=False)
    assert not Gate.parse("temperature<9").closes(entry, changed=False)
    assert Gate.parse("accuracy<0.9").closes(entry, changed=False)
