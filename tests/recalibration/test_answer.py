"""How an answer weighs labels against the atlas, on logits where the right weight is known."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from graphtemper import temperature as temperatures
from graphtemper._core.estimate import Estimate
from graphtemper.recalibration import answer as answers
from graphtemper.recalibration.answer import VAGUE, _contradicts, _trusted
from graphtemper.recalibration.few_labels import MATCH_DEVIATION, Prior
from graphtemper.recalibration.labelling import read_labels
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY


def _answer(logits, accuracy, matched=1.0, novelty=0.5, verdict="trust", blind=False):
    """An answer of a card, and a reading of which nothing else is asked."""
    reading = SimpleNamespace(novelty=novelty, flat=False, blind=blind, expected=None)
    confidence = float(temperatures.apply(logits).max(axis=1).mean())
    return SimpleNamespace(
        reading=reading,
        accuracy=accuracy,
        relative=matched,
        verdict=verdict,
        reasons=[],
        mean_confidence=(confidence, confidence),
    )


@dataclass(frozen=True)
class _Learned:
    """What `with_labels` asks for a verdict about."""

    accuracy: Estimate
    temperature: float
    used: Reason
    count: float
    leads: bool
    effective_labels: float = 0.0


@pytest.fixture
def learn(monkeypatch):
    def judged(reading, confidence, accuracy, matched, caveat, used, *, count, leads):
        return _Learned(accuracy, matched, used, count, leads)

    monkeypatch.setattr(answers, "judged", judged)
    return lambda answer, prior, logits, labels, objective="balanced": answers.with_labels(
        answer, prior, logits, labels, objective
    )


def _width(result):
    return result.accuracy.high - result.accuracy.low


def test_a_new_kind_of_target_gives_the_labels_more_weight():
    assert _trusted(0.2, 1.0) == 0.2
    assert _trusted(0.2, 3.0) == pytest.approx(0.4)
    assert _trusted(0.2, ABSTAIN_NOVELTY + 0.1) == VAGUE
    assert _trusted(2.0, ABSTAIN_NOVELTY + 0.1) == 2.0
    vague = Prior(0.0, VAGUE).estimate("atlas")
    assert vague.low < 0.1 < 0.9 < vague.high


def test_labels_lead_once_they_say_more_than_the_atlas(learn):
    """Information of the labels about the log-odds, by differences, against the prior's."""
    logits = np.tile([0.0, 1.0], (2000, 1))
    prior, leads = Prior(2.0, 0.4), []
    answer = _answer(logits, prior.estimate("atlas"))
    for count in (4, 40, 60, 80, 100, 400):
        given = read_labels(
            {i: int(i % 8 > 0) for i in range(count)}, None, np.arange(2000), 2000, 2
        )
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
    given = read_labels(labels, None, np.arange(20), 20, 2)
    found = learn(_answer(logits, before), Prior(1.4, 0.5), logits, given)
    assert found.used.code == "labels_used"
    assert counted in found.used.text
    assert f"to within {50 * _width(found):.1f} points" in found.used.text
    assert "from the atlas alone to within 12.5; about" in found.used.text
    assert found.used.text.endswith("more would bring that to 10.")


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_is_refused_where_confidence_leaves_the_interval(temperature):
    """One gap for all nodes: the log-odds of confidence are the gap over the temperature."""
    slack = 3.0 * MATCH_DEVIATION
    accuracy = Estimate(expit(1.0), expit(0.8), expit(1.3), "labels")
    for odds, refused in (
        *((0.8 - slack - 0.01, True), (0.8 - slack + 0.01, False)),
        *((1.3 + slack - 0.01, False), (1.3 + slack + 0.01, True)),
    ):
        logits = np.tile([0.0, odds * temperature], (5, 1))
        assert _contradicts(logits, temperature, accuracy) is refused


def test_labels_that_say_nothing_leave_the_answer_where_it_was(learn):
    """At the atlas's temperature, or at the source's where nothing could be read."""
    logits = np.random.default_rng(5).normal(0.0, 2.0, (400, 2))
    logits[:3] = 0.0
    given = read_labels({0: 0, 1: 1, 2: 0}, None, np.arange(400), 400, 2)
    prior = Prior(0.8, 0.4)
    matched = temperatures.match_confidence(logits, prior.estimate("atlas").value)
    estimate = prior.estimate("atlas")
    atlas = learn(_answer(logits, estimate, matched), prior, logits, given, "likelihood")
    far = _answer(logits, estimate, 1.0, novelty=9.0, verdict="abstain", blind=True)
    kept = learn(far, prior, logits, given)
    assert atlas.temperature == pytest.approx(matched, rel=2e-3)
    assert kept.temperature == pytest.approx(1.0, rel=2e-3)
    assert _width(atlas) < _width(kept)


def test_a_kept_source_temperature_is_not_balanced_with_the_atlas(learn):
    """Where nothing can be read, the atlas's accuracy is no accuracy to match."""
    logits = np.random.default_rng(5).normal(0.0, 2.0, (400, 2))
    given = read_labels({0: 0, 1: 1}, None, np.arange(400), 400, 2)
    prior = Prior(0.2, 0.3)
    answer = _answer(logits, prior.estimate("atlas"), verdict="abstain", blind=True)
    balanced, likeliest = (
        learn(answer, prior, logits, given, objective).temperature
        for objective in ("balanced", "likelihood")
    )
    assert balanced == likeliest
