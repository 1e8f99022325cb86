"""The sequential test: its false-alarm rate by simulation, and its power."""

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.monitor import Entry
from graphtemper.monitor.change import alarms, capital, changes


def test_ranks_make_a_martingale():
    # With exchangeable values the capital has mean 1 at every step.
    rng = np.random.default_rng(0)
    ends = [capital(rng.standard_normal(12).tolist(), seed=k) for k in range(1500)]
    held = np.array(ends)[:, [0, 3, 11]]
    error = held.std(axis=0) / np.sqrt(len(held))
    assert (np.abs(held.mean(axis=0) - 1.0) < 4.0 * error).all()


def most(rate, trials):
    """Three standard errors above a rate."""
    return rate + 3.0 * np.sqrt(rate * (1 - rate) / trials)


@pytest.mark.parametrize("draw", ["normal", "ties", "heavy"])
def test_false_alarms_stay_below_their_rate(draw):
    """Ten series, two of them dependent; without sharing, the rate would be exceeded."""
    rng = np.random.default_rng(1)
    rate, trials, shared, alone = 0.2, 200, 0, 0
    draws = {
        "normal": lambda: rng.standard_normal(60),
        "ties": lambda: rng.integers(2, size=60).astype(float),
        "heavy": lambda: rng.standard_cauchy(60),
    }
    for seed in range(trials):
        values = [draws[draw]() for _ in range(9)]
        series = {str(k): z.tolist() for k, z in enumerate([*values, abs(values[0])])}
        shared += bool(changes(series, rate, seed))
        alone += max(max(capital(one, seed)) for one in series.values()) >= 1.0 / rate
    assert shared / trials < most(rate, trials)
    assert alone / trials > most(rate, trials)


def wandering(count, correlation, rng):
    """Return entries whose accuracy is an autoregressive series."""
    noise, value, entries = rng.standard_normal(count), 0.0, []
    for k in range(count):
        value = (
            noise[k] if k == 0 else correlation * value + np.sqrt(1.0 - correlation**2) * noise[k]
        )
        accuracy = 1.0 / (1.0 + np.exp(-1.0 - 0.3 * value))
        entries.append(Entry(str(k), "0", 9, accuracy, 0, 1, 0.9, 1.0, 1.0, "trust", (), {}))
    return entries


def test_correlated_snapshots_raise_more_alarms_unless_few_are_tested():
    rng = np.random.default_rng(8)
    rate, trials, every = 0.1, 80, 20  # 0.8 to the 20th is 0.01
    runs = [wandering(1600, 0.8, rng) for _ in range(trials)]
    often = sum(bool(alarms(run[:150], rate, seed)) for seed, run in enumerate(runs))
    found = [alarms(run, rate, seed, every) for seed, run in enumerate(runs)]
    assert often / trials > 0.8
    assert sum(map(bool, found)) / trials < most(rate, trials)


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_a_change_is_detected_soon(direction):
    rng = np.random.default_rng(3)
    values = np.r_[rng.standard_normal(60), rng.standard_normal(60) + 2.5 * direction]
    steady = rng.standard_normal(120)
    first = changes({"shifted": values.tolist(), "steady": steady.tolist()}, 0.01)[0]
    assert 60 < first.position < 95
    assert first.series == "shifted"
    assert first.evidence >= 100.0


def test_the_same_series_gives_the_same_numbers():
    values = np.random.default_rng(4).integers(3, size=40).astype(float).tolist()
    whole = capital(values, seed=5)
    assert capital(values, seed=5) == whole
    assert capital(values[:20], seed=5) == whole[:20]
    assert capital(values, seed=6) != whole


def test_nothing_is_staked_on_gaps():
    rng = np.random.default_rng(6)
    values = rng.standard_normal(30).tolist()
    gaps = [*values[:10], None, None, *values[10:]]
    held = capital(gaps, seed=5)
    assert held[9] == held[10] == held[11] != held[12]
    assert held[:10] == capital(values, seed=5)[:10]
    assert capital([None] * 5) == pytest.approx([1.0] * 5)


@pytest.mark.parametrize(
    ("series", "rate", "error"),
    [
        ({"a": [1.0]}, 0.0, "range"),
        ({"a": [1.0]}, float("nan"), "range"),
        ({"a": [1.0], "b": []}, 0.1, "shape"),
        ({"a": [float("nan")]}, 0.1, "not-finite"),
    ],
)
def test_bad_input(series, rate, error):
    with raises(error):
        changes(series, rate)
