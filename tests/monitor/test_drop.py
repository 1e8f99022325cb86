"""Drops: the stated error rate by simulation, also for dependent series, and the delay."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper._core.numerics import log_odds, to_share
from graphtemper.monitor import Entry
from graphtemper.monitor.drop import drops, limits_of, upper_bound
from graphtemper.monitor.log import Labelled
from graphtemper.recalibration.gates import Gate

SOURCE, DEVIATION, RATE = 0.9, 0.25, 0.1
ENTRY = Entry("d", "0", 500, 0.9, 0.8, 0.95, 0.9, 1.5, 0.7, "trust", (), {})


def answer(name, centre, deviation=DEVIATION, **changes):
    """Return an answer with a 90 % interval around log-odds."""
    low, high = (to_share(centre + side * 1.645 * deviation) for side in (-1, 1))
    return replace(ENTRY, name=name, accuracy=to_share(centre), low=low, high=high, **changes)


def series(errors, truth=None):
    """Return the answers to snapshots with these errors of the estimate, in log-odds."""
    truth = np.full(len(errors), log_odds(SOURCE)) if truth is None else truth
    return [
        answer(f"{k}", value + error)
        for k, (value, error) in enumerate(zip(truth, errors, strict=True))
    ]


def errors(rng, kind, count):
    """Return errors of the stated size, independent or dependent from snapshot to snapshot."""
    if kind == "independent":
        return DEVIATION * rng.normal(size=count)
    if kind == "common":  # one error for the whole log, as of a card that is wrong everywhere
        return np.full(count, DEVIATION * rng.normal())
    values, rho = DEVIATION * rng.normal(size=count), {"half": 0.5, "nearly": 0.95}[kind]
    for k in range(1, count):
        values[k] = rho * values[k - 1] + np.sqrt(1 - rho**2) * values[k]
    return values


@pytest.mark.parametrize("kind", ["independent", "half", "nearly", "common"])
def test_dependent_series_keep_the_stated_rate(kind):
    """Of 600 logs of 60 snapshots as accurate as the source, at most the stated share alarm."""
    rng = np.random.default_rng(5)
    limits = {"source": SOURCE, "accuracy<0.9": SOURCE}
    alarmed = [bool(drops(series(errors(rng, kind, 60)), limits, RATE)) for _ in range(600)]
    assert np.mean(alarmed) <= RATE


def test_intervals_that_cover_85_percent_are_enough_and_narrower_ones_are_not():
    """The rate is used up by the assumption of the bound, and broken beyond it."""
    rng = np.random.default_rng(6)

    def rate(scale):
        found = [
            bool(drops(series(scale * errors(rng, "independent", 40)), {"source": SOURCE}, RATE))
            for _ in range(500)
        ]
        return np.mean(found)

    assert 0.01 < rate(1.645 / 1.44) <= RATE + 0.02  # 2 standard errors of the simulation
    assert rate(2.2) > RATE


def test_a_fall_is_reported_within_a_few_snapshots():
    """From 94 % to 70 % over twenty snapshots, with intervals of about 7 points each way."""
    rng = np.random.default_rng(7)
    fall = np.linspace(0.94, 0.70, 20)
    truth = np.array([log_odds(value) for value in [0.94] * 8 + list(fall)])
    first = []
    for _ in range(200):
        answers = series(errors(rng, "half", 28), truth)
        found = drops(answers, {"source": 0.94})
        first.append(found[0].position if found else 99)
    assert max(first) < 28
    assert np.median(first) < 8 + 12
    assert sum(position < 8 for position in first) <= 10


def test_answers_given_again_count_and_what_was_certain_stays():
    fallen = [answer("0", log_odds(0.9)), answer("1", log_odds(0.7))]
    unsure = answer("1", log_odds(0.85), deviation=1.0, revision=1)
    assert [drop.position for drop in drops([*fallen, unsure], {"source": 0.9})] == [1]
    # The third answer of the log is read at a stricter level than the second.
    bounds = [upper_bound(0.7, fallen[1].high, number, RATE) for number in (1, 2, 3)]
    assert bounds == sorted(bounds)


def test_the_level_of_an_answer():
    wide = answer("0", 0.0, deviation=1.0)
    for number, quantile in ((1, 1.64485), (2, 2.12805)):  # at RATE / 2 and RATE / 6
        bound = upper_bound(wide.accuracy, wide.high, number, RATE)
        assert log_odds(bound) == pytest.approx(1.645 * quantile / 1.4395, abs=1e-3)


def test_labels_show_a_drop_that_an_interval_hides():
    """Labels that fall by chance do so in at most the stated share of logs."""
    unsure = [answer(f"{k}", log_odds(0.9), deviation=1.0) for k in range(5)]
    assert drops(unsure, {"source": 0.94}) == []
    fallen = [Labelled("2", 1, 300, 0.75, 0.0, 0.1, 0.1)]
    assert [drop.position for drop in drops(unsure, {"source": 0.94}, labelled=fallen)] == [2]
    rng = np.random.default_rng(8)

    def alarms(count):
        rows = [
            Labelled(f"{k}", k + 1, count, rng.binomial(count, 0.9) / count, 0.0, 0.1, 0.1)
            for k in range(30)
        ]
        return bool(drops(unsure, {"source": 0.9}, RATE, rows))

    for count in (20, 300):
        assert np.mean([alarms(count) for _ in range(300)]) <= RATE


def test_a_perfect_source_has_no_drop_where_nothing_fell():
    perfect = [replace(ENTRY, name="1", accuracy=0.999, low=0.998, high=0.9999)]
    for source in (0.998, 1.0):
        assert drops(perfect, {"source": source}) == []
    fallen = [replace(ENTRY, name="1", accuracy=0.8, low=0.78, high=0.82)]
    assert len(drops(fallen, {"source": 1.0})) == 1


def test_limits_are_the_source_and_gates_from_below():
    gates = [Gate.parse(text) for text in ("accuracy<0.8", "low<=0.7", "high>0.9", "slope<0.5")]
    assert limits_of(0.95, gates) == {"source": 0.95, "accuracy<0.8": 0.8, "low<=0.7": 0.7}


def test_drops_that_are_found_later_are_marked_and_move_no_earlier_alarm():
    """Answers given again are appended to the history; what was raised before stays."""
    high, low = log_odds(0.9), log_odds(0.5)
    history = [answer(f"{k}", high if k < 3 else low) for k in range(5)]
    limits = {"source": SOURCE}
    before = drops(history, limits)
    assert [(drop.position, drop.begins, drop.late) for drop in before] == [
        (3, True, False),
        (4, False, False),
    ]
    again = [answer(f"{k}", value, revision=1) for k, value in ((1, high), (2, low), (3, high))]
    after = drops([*history, *again], limits)
    assert [(drop.position, drop.begins, drop.late) for drop in after] == [
        (2, True, True),
        (3, True, False),
        (4, False, False),
    ]
    labels = [Labelled("1", 1, 500, 0.5, 0.0, 0.1, 0.1)]
    marked = drops(history, limits, labelled=labels)
    assert [(drop.position, drop.late) for drop in marked] == [(1, True), (3, False), (4, False)]
