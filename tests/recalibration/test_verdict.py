"""The verdict's sentences: each number and word in them against a response that is made by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper._core.estimate import Estimate
from graphtemper.card.reading import Reading
from graphtemper.card.response import Kernel, Response
from graphtemper.recalibration.verdict import (
    ABSTAIN_NOVELTY,
    CAUTION_NOVELTY,
    direction,
    judge,
    labels_needed,
)
from graphtemper.signals.evidence import LEAD

SURE = Estimate(0.8, 0.79, 0.81, "atlas")


@pytest.fixture(scope="module")
def response():
    """Two signals whose environments lie between -1 and 3, and -2 and 0 standard deviations."""
    points = np.array([[3.0, -2.0], [-1.0, -0.5], [1.0, -1.0]])
    return Response(
        names=("first", "second"),
        points=points,
        values=np.zeros(3),
        noise=np.ones(3),
        origin=np.array([10.0, 5.0]),
        scale=np.array([2.0, 0.5]),
        prior=np.zeros(2),
        kernel=Kernel(1.0, 1.0, 1.0, 1.0),
        reach=2.0,
    )


def _at(first, second):
    """Return signals that many standard deviations from the source."""
    return {"first": 10.0 + 2.0 * first, "second": 5.0 + 0.5 * second}


STILL = (np.ones(2), np.ones(2))


def _reading(
    response,
    signals,
    flat=False,
    blind=False,
    num_nodes=100,
    moments=STILL,
    edges=0.5,
    moved=0.0,
    expected=None,
    unlinked=False,
):
    """Return a reading with this response; a blind one lacks the leading signal."""
    gains = SimpleNamespace(signal=None) if blind else None
    if blind:
        response = replace(response, names=("first", LEAD))
        signals = {"first": signals["first"], LEAD: signals["second"]}
    probe = SimpleNamespace(column_std=np.ones(2))
    card = SimpleNamespace(environments=(), probe=probe)
    evidence = SimpleNamespace(homophily=edges)
    reading = Reading(card, evidence, signals, response, gains, num_nodes, moments, flat)
    vars(reading)["moved_fraction"] = 1.0 if moments is None else moved
    vars(reading)["expectation"] = expected, None
    vars(reading)["unlinked"] = unlinked
    vars(reading)["changes"] = ()
    return reading


def test_novelty_is_the_distance_to_the_nearest_environment_in_reaches(response):
    assert _reading(response, _at(0.0, 0.0)).novelty == 0.0
    far = _reading(response, _at(6.0, -6.0))
    assert far.novelty == pytest.approx(5.0 / 2.0)  # 3 and 4 from the first


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ((3.9, 0.9), []),
        ((5.5, 0.0), ["first is 2.5 standard deviations above"]),
        ((-3.0, 0.0), ["first is 2.0 standard deviations below"]),
        ((0.0, 1.5), ["second is 1.5 standard deviations above"]),
        ((4.5, -6.0), ["first is 1.5 standard deviations above", "second is 4.0 standard dev"]),
    ],
)
def test_a_signal_beyond_all_environments_is_named_with_its_side(response, where, said):
    _, reasons = judge(_reading(response, _at(*where)), SURE, None)
    named = [reason.text for reason in reasons if reason.code == "signal_out_of_range"]
    assert len(named) == len(said)
    for reason, start in zip(named, said, strict=True):
        assert reason.startswith(start)


@pytest.mark.parametrize(
    ("accuracy", "distance", "blind", "verdict", "hardest"),
    [
        (SURE, 0.0, False, "trust", None),
        (Estimate(0.8, 0.66, 0.92, "atlas"), 0.0, False, "trust", None),
        (Estimate(0.8, 0.6, 0.94, "atlas"), 0.0, False, "caution", None),
        (SURE, CAUTION_NOVELTY, False, "trust", None),
        (SURE, CAUTION_NOVELTY + 0.1, False, "caution", None),
        (SURE, ABSTAIN_NOVELTY, False, "caution", None),
        # The accuracy nearest to one half that the interval allows asks for the most labels.
        (Estimate(0.3, 0.0, 0.62, "atlas"), 0.0, False, "abstain", 0.5),
        (Estimate(0.6, 0.25, 0.9, "atlas"), 0.0, False, "abstain", 0.5),
        # Where the estimate means nothing, any accuracy is possible.
        (SURE, ABSTAIN_NOVELTY + 0.1, False, "abstain", 0.5),
        (SURE, 0.0, True, "abstain", 0.5),
    ],
)
def test_an_abstention_asks_for_the_labels_of_the_hardest_case(
    response, accuracy, distance, blind, verdict, hardest
):
    signals = _at(0.0, 2.0 * distance)  # reach is 2, and nothing lies above the source
    found, reasons = judge(_reading(response, signals, blind=blind), accuracy, None)
    assert found == verdict
    asked = [reason.text for reason in reasons if reason.code == "labels_needed"]
    assert len(asked) == (hardest is not None)
    if asked:
        assert f"about {labels_needed(hardest, population=100)} target nodes would" in asked[0]


WIDE = Estimate(0.6, 0.2, 0.9, "usual over-confidence")


@pytest.mark.parametrize(
    ("given", "said", "accuracy", "verdict"),
    [
        ({"moved": 0.4}, {}, SURE, "trust"),
        ({"moved": 0.6}, {}, SURE, "caution"),
        ({"moments": None}, {}, SURE, "caution"),
        ({"moved": 1.0}, {}, WIDE, "caution"),
        ({"moved": 1.0, "blind": True}, {}, WIDE, "caution"),
        ({"moved": 1.0, "blind": True, "moments": (np.ones(2), np.zeros(2))}, {}, WIDE, "abstain"),
        ({"moved": 1.0, "expected": SURE}, {}, SURE, "trust"),
        ({"moved": 1.0, "expected": SURE}, {}, WIDE, "caution"),
        ({"moved": 1.0}, {"count": 3.0}, SURE, "caution"),
        ({"moved": 1.0}, {"count": 30.0, "leads": True}, SURE, "trust"),
        ({"moved": 1.0, "flat": True}, {"count": 30.0, "leads": True}, SURE, "abstain"),
    ],
)
def test_trust_is_earned_by_evidence(response, given, said, accuracy, verdict):
    """Unlabelled signals earn none once features have moved; environments and labels do."""
    found, reasons = judge(_reading(response, _at(0.0, 0.0), **given), accuracy, None, **said)
    assert found == verdict
    moved = given.get("moments", STILL) is None or given.get("moved", 0.0) > 0.5
    assumed = moved and not said.get("leads") and "expected" not in given
    assert ("usual_assumed" in [reason.code for reason in reasons]) == assumed


@pytest.mark.parametrize(("num_nodes", "words"), [(1, "the one node"), (7, "all 7 nodes")])
def test_a_tiny_graph_is_checked_by_hand(response, num_nodes, words):
    reading = _reading(response, _at(0.0, 0.0), blind=True, num_nodes=num_nodes)
    _, reasons = judge(reading, SURE, None)
    assert words in reasons[-1].text
    assert reasons[-1].code == "labels_needed"


def test_no_more_labels_than_nodes_are_needed():
    for size in (1, 5, 20, 100, 10**9):
        assert labels_needed(0.5, population=size) <= min(size, labels_needed(0.5))
    assert labels_needed(0.5, population=10**9) == labels_needed(0.5)


@pytest.mark.parametrize(
    ("confidence", "code"),
    [
        (0.9, "over_confident"),
        (0.7, "under_confident"),
        (0.81, "calibrated"),
        (0.79, "calibrated"),
    ],
)
def test_the_direction_names_both_numbers(confidence, code):
    assert direction(confidence, SURE, known=False).code == "direction_unclear"
    reason = direction(confidence, SURE)
    assert reason.code == code
    assert f"claims {confidence:.1%}" in reason.text
    assert "right 80.0% of the time" in reason.text


@pytest.mark.parametrize(
    ("confidence", "code", "word"),
    [
        (0.84, "direction_unclear", "perhaps over-confident"),
        (0.76, "direction_unclear", "perhaps under-confident"),
        (0.81, "direction_unclear", "about right, but"),
        (0.97, "over_confident", ": over-confident."),
    ],
)
def test_a_wide_interval_does_not_tell_the_direction(confidence, code, word):
    reason = direction(confidence, Estimate(0.8, 0.6, 0.95, "atlas"))
    assert reason.code == code
    assert word in reason.text
    assert ("60% to 95%" in reason.text) == (code == "direction_unclear")


def test_a_wide_interval_around_confidence_is_no_calibration():
    """An accuracy between 2 and 98 % does not say that the model is as confident as it is right."""
    narrow = direction(0.8, Estimate(0.8, 0.75, 0.85, "atlas"))
    wide = direction(0.8, Estimate(0.8, 0.02, 0.98, "atlas"))
    assert (narrow.code, wide.code) == ("calibrated", "direction_unclear")


@pytest.mark.parametrize(
    ("confidence", "accuracy", "code", "said"),
    [
        (0.9999, Estimate(0.99992, 0.99991, 0.99993, "atlas"), "calibrated", "about as confident"),
        (1.0, Estimate(0.99999, 0.99998, 0.999995, "atlas"), "calibrated", "about as confident"),
        (0.80, Estimate(0.76, 0.70, 0.82, "atlas"), "direction_unclear", "holds its confidence"),
        (0.80, Estimate(0.70, 0.50, 0.85, "atlas"), "direction_unclear", "is too wide to tell"),
        (0.90, Estimate(0.70, 0.60, 0.80, "atlas"), "over_confident", "over-confident"),
    ],
)
def test_the_direction_and_the_verdict_agree(confidence, accuracy, code, said):
    """Equal numbers are no gap, and an interval that earns trust is not too wide to tell."""
    reason = direction(confidence, accuracy)
    assert reason.code == code
    assert said in reason.text


def test_no_trust_beside_an_interval_that_is_too_wide_to_tell(response):
    here = _reading(response, _at(0.0, 0.0))
    for half in np.linspace(0.01, 0.4, 40):
        accuracy = Estimate(0.55, 0.55 - half, 0.55 + half, "atlas")
        trusted = judge(here, accuracy, None)[0] == "trust"
        for gap in (-0.9, -0.2, 0.2, 0.9):
            text = direction(0.55 + gap * half, accuracy).text
            assert not (trusted and "too wide to tell" in text)


def test_links_without_signal_and_assumptions_that_say_nothing_are_abstentions(response):
    unlinked = _reading(response, _at(0.0, 0.0), unlinked=True)
    verdict, reasons = judge(unlinked, SURE, None)
    assert verdict == "abstain"
    assert "no_link_signal" in [item.code for item in reasons]
    assert judge(unlinked, SURE, None, count=50, leads=True)[0] == "trust"
    moved = _reading(response, _at(0.0, 0.0), moved=1.0)
    for half, expected in ((0.3, "caution"), (0.36, "abstain")):
        wide = Estimate(0.5, 0.5 - half, 0.5 + half, "usual over-confidence")
        assert judge(moved, wide, None)[0] == expected
