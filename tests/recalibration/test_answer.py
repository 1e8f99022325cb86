"""How an answer weighs labels against the atlas, on logits where the right weight is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from graphtemper import temperature as temperatures
from graphtemper._core.estimate import Estimate
from graphtemper.card.reading import Reading
from graphtemper.card.response import Kernel, Response
from graphtemper.recalibration.answer import VAGUE, Answer, trusted, with_labels
from graphtemper.recalibration.labels.given import read_labels
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY

STILL = np.ones(2)


def _reading(**known):
    """A reading of moved features, for which labels alone are evidence."""
    probe = SimpleNamespace(column_std=STILL)
    card = SimpleNamespace(temperature=1.0, environments=(), probe=probe)
    one, none = np.ones(1), np.zeros(1)
    response = Response(("signal",), np.eye(1), none, one, none, one, none, Kernel(1, 1, 1, 1))
    reading = Reading(card, None, {"signal": 0.0}, response, None, 2000, (STILL, STILL), flat=False)
    known = {"novelty": 0.5, "moved_fraction": 1.0, "changes": (), "unlinked": False} | known
    vars(reading).update(known, expectation=(None, None))
    return reading


def learn(logits, accuracy, prior, labels, matched=1.0):
    """Return an answer that had an accuracy and a temperature, with labels of the nodes."""
    confidence = float(temperatures.apply(logits).max(axis=1).mean())
    before = Answer(accuracy, matched, 1.0, confidence, "caution", ())
    given = read_labels(labels, np.arange(len(logits)), len(logits), logits.shape[1])
    return with_labels(before, _reading(), prior, logits, given)


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


def test_labels_lead_once_they_say_more_than_the_atlas():
    """Information of the labels about the log-odds, by differences, against the prior's."""
    logits = np.tile([0.0, 1.0], (2000, 1))
    prior, leads = Estimate.of_log_odds(2.0, 0.4, "atlas"), []
    for count in (4, 40, 60, 80, 100, 400):
        labels = {i: int(i % 8 > 0) for i in range(count)}
        learned = learn(logits, prior, prior, labels)
        centre, step = logit(learned.accuracy.value), 1e-3

        def likelihood(odds, count=count, share=learned.accuracy.value):
            return count * (share * np.log(expit(odds)) + (1 - share) * np.log(expit(-odds)))

        curve = [likelihood(centre + x) for x in (-step, 0.0, step)]
        known = -np.diff(curve, 2)[0] / step**2
        leads.append(learned.verdict == "trust")
        assert leads[-1] == (known > 0.4**-2)
    assert leads == sorted(leads)
    assert set(leads) == {False, True}


def test_a_handful_of_labels_does_not_move_the_temperature_far():
    """Three wrong predictions out of three, where the prior knows little."""
    logits = np.random.default_rng(5).normal(0.0, 3.0, (400, 2))
    prior = Estimate.of_log_odds(
        logit(temperatures.apply(logits).max(axis=1).mean()) - 0.3, 0.6, "atlas"
    )
    wrong = logits.argmin(axis=1)
    moved = []
    for count in (1, 3, 10, 50):
        labels = {k: int(wrong[k]) for k in range(count)}
        moved.append(learn(logits, prior, prior, labels).temperature)
    assert 1.0 <= min(moved) <= max(moved[:2]) < 2.5
    assert moved[-1] > 4.0  # fifty of fifty are no accident


def test_labels_that_agree_leave_the_temperature_where_it_is():
    logits = np.random.default_rng(5).normal(0.0, 2.0, (400, 2))
    confidence = temperatures.apply(logits).max(axis=1).mean()
    right = np.random.default_rng(1).random(400) < confidence
    classes = np.where(right, logits.argmax(axis=1), logits.argmin(axis=1))
    before = Estimate(confidence, 0.5, 0.95, "atlas")
    prior = Estimate.of_log_odds(logit(confidence), 0.5, "atlas")
    found = learn(logits, before, prior, dict(enumerate(classes[:40].tolist())))
    assert found.temperature == pytest.approx(1.0, abs=0.25)
