"""How an answer weighs labels against the atlas, on logits where the right weight is known."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from graphtemper import temperature as temperatures
from graphtemper._core.estimate import Estimate
from graphtemper.recalibration import answer as answers
from graphtemper.recalibration.answer import VAGUE, trusted
from graphtemper.recalibration.labels.given import read_labels
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY


def _answer(logits, accuracy, matched=1.0, novelty=0.5, verdict="trust", blind=False):
    """An answer of a card, and a reading of which nothing else is asked."""
    card = SimpleNamespace(temperature=1.0)
    reading = SimpleNamespace(card=card, novelty=novelty, flat=False, blind=blind, expected=None)
    confidence = float(temperatures.apply(logits).max(axis=1).mean())
    answer = SimpleNamespace(
        accuracy=accuracy,
        temperature=matched,
        verdict=verdict,
        reasons=(),
        claimed=confidence,
    )
    return answer, reading


@dataclass(frozen=True)
class _Learned:
    """What `with_labels` asks for a verdict about."""

    accuracy: Estimate
    temperature: float
    used: Reason
    count: float
    leads: bool


@pytest.fixture
def learn(monkeypatch):
    def judged(reading, claimed, accuracy, matched, caveat, used, *, count, leads):
        return _Learned(accuracy, matched, used, count, leads)

    monkeypatch.setattr(answers, "judged", judged)
    return lambda given, prior, *rest: answers.with_labels(given[0], given[1], prior, *rest)


def _width(result):
    return result.accuracy.high - result.accuracy.low


def test_a_new_kind_of_target_gives_the_labels_more_weight():
    known = Estimate.of_log_odds(0.7, 0.2, "atlas")
    assert trusted(known, 1.0) == known
    assert trusted(known, 3.0).centre == 0.7
    assert trusted(known, 3.0).deviation == pytest.approx(0.4)
    assert trusted(known, ABSTAIN_NOVELTY + 0.1).deviation == VAGUE
    wide = Estimate.of_log_odds(0.7, 2.0, "atlas")
    assert trusted(wide, ABSTAIN_NOVELTY + 0.1).deviation == 2.0
    vague = Estimate.of_log_odds(0.0, VAGUE, "atlas")
    assert vague.low < 0.1 < 0.9 < vague.high


def test_labels_lead_once_they_say_more_than_the_atlas(learn):
    """Information of the labels about the log-odds, by differences, against the prior's."""
    logits = np.tile([0.0, 1.0], (2000, 1))
    prior, leads = Estimate.of_log_odds(2.0, 0.4, "atlas"), []
    answer = _answer(logits, prior)
    for count in (4, 40, 60, 80, 100, 400):
        given = read_labels({i: int(i % 8 > 0) for i in range(count)}, np.arange(2000), 2000, 2)
        learned = learn(answer, prior, logits, given)
        centre, step = logit(learned.accuracy.value), 1e-3

        def likelihood(odds, count=count, share=learned.accuracy.value):
            return count * (share * np.log(expit(odds)) + (1 - share) * np.log(expit(-odds)))

        curve = [likelihood(centre + x) for x in (-step, 0.0, step)]
        known = -np.diff(curve, 2)[0] / step**2
        leads.append(learned.leads)
        assert learned.leads == (known > 0.4**-2)
        assert learned.count == count
    assert leads == sorted(leads)
    assert set(leads) == {False, True}


@pytest.mark.parametrize(
    ("labels", "counted"),
    [({3: 1}, "right on 1 of 1 labelled node;"), ({3: 1, 4: 0}, "right on 1 of 2 labelled nodes;")],
)
def test_what_labels_say_in_words(learn, labels, counted):
    logits, before = np.tile([0.0, 1.0], (20, 1)), Estimate(0.8, 0.7, 0.95, "atlas")
    given = read_labels(labels, np.arange(20), 20, 2)
    found = learn(_answer(logits, before), Estimate.of_log_odds(1.4, 0.5, "atlas"), logits, given)
    assert found.used.code == "labels_used"
    assert counted in found.used.text
    assert f"to within {50 * _width(found):.1f} points" in found.used.text
    assert "without them to within 12.5; about" in found.used.text
    assert found.used.text.endswith("more would bring that to 10.")


def test_a_handful_of_labels_does_not_move_the_temperature_far(learn):
    """Three wrong predictions out of three, where the prior knows little."""
    logits = np.random.default_rng(5).normal(0.0, 3.0, (400, 2))
    prior = Estimate.of_log_odds(
        logit(temperatures.apply(logits).max(axis=1).mean()) - 0.3, 0.6, "atlas"
    )
    answer = _answer(logits, prior)
    wrong = logits.argmin(axis=1)
    moved = []
    for count in (1, 3, 10, 50):
        given = read_labels({k: int(wrong[k]) for k in range(count)}, np.arange(400), 400, 2)
        moved.append(learn(answer, prior, logits, given).temperature)
    assert 1.0 <= min(moved) <= max(moved[:2]) < 2.0
    assert moved[-1] > 4.0  # fifty of fifty are no accident


def test_labels_that_agree_leave_the_temperature_where_it_is(learn):
    logits = np.random.default_rng(5).normal(0.0, 2.0, (400, 2))
    confidence = temperatures.apply(logits).max(axis=1).mean()
    answer = _answer(logits, Estimate(confidence, 0.5, 0.95, "atlas"))
    right = np.random.default_rng(1).random(400) < confidence
    classes = np.where(right, logits.argmax(axis=1), logits.argmin(axis=1))
    given = read_labels(dict(enumerate(classes[:40].tolist())), np.arange(400), 400, 2)
    found = learn(answer, Estimate.of_log_odds(logit(confidence), 0.5, "atlas"), logits, given)
    assert found.temperature == pytest.approx(1.0, abs=0.25)
