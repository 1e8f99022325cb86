"""Intervals of a sequence of labels: by simulation of whole sessions, and against closed forms."""

import numpy as np
import pytest

from graphtemper.recalibration.labels.sequences import (
    FEWEST,
    WAGER,
    adjusted,
    any_moment,
    fortunes,
    half_width,
    standardised,
)
from graphtemper.recalibration.verdict import labels_needed

NOTHING = np.empty((800, 0))


def _population(rng, accuracy, explained, size=800):
    """Whether predictions are right, and columns of which the first explains a part of it."""
    right = rng.permutation(np.arange(size) < round(accuracy * size)).astype(float)
    told = np.where(rng.random(size) < explained, right, rng.random(size))
    return standardised(np.column_stack([told, rng.random((size, 3))])), right


def test_without_columns_it_is_the_mean_and_its_variance():
    rows, right = np.arange(80), np.tile([1.0, 0.0, 1.0, 1.0], 20)
    value, variance = adjusted(NOTHING, rows, right)
    assert value == 0.75
    assert variance == pytest.approx((right.var() * 80 + 1.0) / 83)


def test_the_difference_estimate_is_unbiased_and_less_noisy():
    rng = np.random.default_rng(0)
    design, right = _population(rng, 0.7, 0.6)
    found = []
    for _ in range(500):
        rows = rng.choice(800, 60, replace=False)
        found.append((adjusted(design, rows, right[rows])[0], right[rows].mean()))
    ours, plain = np.array(found).T
    assert abs(ours.mean() - right.mean()) < 4 * ours.std() / np.sqrt(500)
    assert ours.std() < 0.85 * plain.std()


def test_columns_of_all_nodes_are_exact():
    design, right = _population(np.random.default_rng(1), 0.6, 0.5)
    value, variance = adjusted(design, np.arange(800), right)
    assert value == pytest.approx(right.mean(), abs=1e-12)
    assert half_width(variance, 800, 800) == 0.0


def test_a_width_needs_no_more_labels_than_the_fixed_plan():
    for goal in (0.03, 0.05, 0.1):
        plan = labels_needed(0.5, goal, 100_000)
        assert half_width(0.25, plan, 100_000) <= goal < half_width(0.25, plan - 30, 100_000)


@pytest.mark.parametrize(("accuracy", "explained"), [(0.6, 0.4), (0.85, 0.0), (0.93, 0.3)])
def test_the_interval_holds_at_its_own_stop_and_comes_early(accuracy, explained):
    """100 sessions, looked at after every ten labels, that stop when the interval is narrow."""
    rng = np.random.default_rng(int(100 * accuracy))
    held, counts, goal = 0, [], 0.06
    for _ in range(100):
        design, right = _population(rng, accuracy, explained)
        order = rng.permutation(800)
        for count in range(FEWEST, 801, 10):
            value, variance = adjusted(design, order[:count], right[order[:count]])
            half = half_width(variance, count, 800)
            if half <= goal:
                break
        held += abs(value - right.mean()) <= half
        counts.append(count)
    assert held >= 84
    assert np.median(counts) <= 0.85 * labels_needed(0.5, goal, 800)


def test_a_bet_is_fair_or_worse():
    """The mean fortune against the truth is at most 1 at a fixed time (Ville does the rest)."""
    rng, reached = np.random.default_rng(2), []
    for _ in range(300):
        design, right = _population(rng, 0.75, 0.5, 200)
        rows = rng.permutation(200)[:40]
        last = fortunes(design, rows, right[rows], np.array([right.mean()]))
        reached.append(last[:, 0] >= WAGER)
    assert (np.mean(reached, axis=0) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)).all()


def test_the_interval_holds_at_the_worst_moment():
    """The truth is never excluded, at any of 150 moments, in nine of ten sessions."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(100):
        design, right = _population(rng, 0.7, 0.4, 400)
        rows = rng.permutation(400)[:150]
        ever = fortunes(design, rows, right[rows], np.array([right.mean()])).max()
        missed += ever >= WAGER
    assert missed <= 10


def test_the_interval_is_that_of_the_bets_and_narrows():
    rng = np.random.default_rng(4)
    design, right = _population(rng, 0.8, 0.3, 400)
    rows = rng.permutation(400)
    widths = []
    for count in (0, 20, 80, 320):
        low, high = any_moment(design, rows[:count], right[rows[:count]])
        assert low <= right.mean() <= high
        widths.append(high - low)
        means = np.array([low - 2 / 400, low, high, high + 2 / 400])
        if low > 0 and high < 1:
            excluded = fortunes(design, rows[:count], right[rows[:count]], means).max(axis=0)
            assert (excluded >= WAGER).tolist() == [True, False, False, True]
    assert widths[0] == 1.0
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.06


def test_what_the_labels_exclude_is_outside():
    """With 90 of 100 nodes labelled and 80 right, between 80 and 90 can be right in the end."""
    right = np.random.default_rng(6).permutation(np.arange(90) < 80).astype(float)
    low, high = any_moment(np.empty((100, 0)), np.arange(90), right)
    assert 0.79 <= low <= high <= 0.91


def test_columns_that_explain_decide_earlier():
    rng = np.random.default_rng(5)
    counts = {0.0: [], 0.8: []}
    for explained, found in counts.items():
        for _ in range(15):
            design, right = _population(rng, 0.75, explained)
            rows = rng.permutation(800)
            gate = np.array([right.mean() - 0.1])
            steps = range(20, 800, 20)
            found.append(
                next(
                    n for n in steps if fortunes(design, rows[:n], right[rows[:n]], gate)[0] > WAGER
                )
            )
    assert np.median(counts[0.8]) < 0.9 * np.median(counts[0.0])
    assert np.median(counts[0.0]) <= 150


def test_a_recall_is_rarely_excluded_while_positive_nodes_are_rare():
    """Whole sessions: neither bet against the true recall wins in more than 5 % of them."""
    rng = np.random.default_rng(4)
    positive = np.arange(800) < 80
    flagged = np.where(positive, np.arange(800) < 56, rng.random(800) < 0.2).astype(float)
    won = []
    for _ in range(30):
        rows = rng.permutation(800)[:400]
        given = flagged[rows], np.array([0.7, 0.3]), positive[rows]
        won.append(fortunes(np.empty((800, 0)), rows, *given) >= WAGER)
    more, less = np.mean(won, axis=0)
    assert max(more[0], less[0]) <= 0.1  # 3 of 30: 5 % are allowed
    assert more[1] > 0.8  # a wrong one is excluded


def test_the_interval_of_a_recall_excludes_only_what_the_labels_do():
    positive, flagged = np.tile([True, False], 100), np.tile([1.0, 1.0, 0.0, 0.0], 50)
    low, high = any_moment(np.empty((1000, 0)), np.arange(200), flagged, positive)
    assert low < 0.5 < high < 0.75
    plain = any_moment(np.empty((1000, 0)), np.arange(200), flagged)
    assert high - low > 1.2 * (plain[1] - plain[0])  # half of the labels count


def test_the_width_of_a_recall_holds_at_the_stop():
    """Positive nodes among those labelled so far are a random sample of the positive ones."""
    rng, held = np.random.default_rng(5), []
    positive = np.arange(900) < 270
    flagged = (np.arange(900) < 190).astype(float)  # a recall of 0.704
    for _ in range(300):
        order = rng.permutation(900)
        for stop in range(100, 900, 20):
            rows = order[:stop]
            own = rows[positive[rows]]
            value, variance = adjusted(np.empty((900, 0)), own, flagged[own])
            half = half_width(variance, own.size, round(own.size * 900 / stop))
            if own.size >= FEWEST and half <= 0.09:
                break
        held.append(abs(value - 190 / 270) <= half)
    assert 0.87 <= np.mean(held) <= 0.97
