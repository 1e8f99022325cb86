"""Reasons: codes are stable, unique and explained."""

import json
import re

from graphtemper.recalibration.reasons import Reason, ReasonCode


def test_codes_are_unique_snake_case_strings_with_a_meaning():
    values = [code.value for code in ReasonCode]
    assert len(set(values)) == len(values) == len(ReasonCode.__members__)
    for name, code in ReasonCode.__members__.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code.value)
        assert name == code.value.upper()
        assert len(code.meaning.split()) > 3


def test_a_reason_is_its_text_and_serialises_as_plain_strings():
    reason = Reason(ReasonCode.WIDE_INTERVAL, "the interval is wide.")
    assert str(reason) == "the interval is wide."
    plain = reason.to_dict()
    assert plain == {"code": "wide_interval", "text": "the interval is wide."}
    assert {type(value) for value in plain.values()} == {str}
    assert json.loads(json.dumps(plain)) == plain
