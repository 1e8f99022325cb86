"""The sequential test: its false-alarm rate by simulation, and what it finds."""

import numpy as np
import pytest

from graphtemper.errors import InputError
from graphtemper.monitor import changes, evidence


def test_ranks_make_a_martingale():
    # With exchangeable values the capital has mean 1 at every step.
    rng = np.random.default_rng(0)
    ends = [evidence(rng.standard_normal(12).tolist(), seed=k) for k in range(1500)]
    capital = np.array(ends)[:, [0, 3, 11]]
    error = capital.std(axis=0) / np.sqrt(len(capital))
    assert (np.abs(capital.mean(axis=0) - 1.0) < 4.0 * error).all()


@pytest.mark.parametrize("draw", ["normal", "ties", "heavy"])
def test_false_alarms_stay_below_their_rate(draw):
    rng = np.random.default_rng(1)
    rate, trials = 0.2, 150

    def series():
        if draw == "normal":
            return rng.standard_normal(80).tolist()
        if draw == "ties":
            return rng.integers(2, size=80).astype(float).tolist()
        return rng.standard_cauchy(80).tolist()

    def dependent():
        one = series()
        return {"one": one, "size": [abs(value) for value in one], "other": series()}

    found = sum(bool(changes(dependent(), rate, seed)) for seed in range(trials))
    assert found / trials < rate + 3.0 * np.sqrt(rate * (1 - rate) / trials)


@pytest.mark.slow
def test_false_alarms_over_a_thousand_snapshots():
    rng = np.random.default_rng(2)
    found = sum(
        bool(changes({"a": rng.standard_normal(1000).tolist()}, 0.05, seed)) for seed in range(400)
    )
    assert found / 400 < 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_a_change_is_found_soon_after_it_happened(direction):
    rng = np.random.default_rng(3)
    values = np.r_[rng.standard_normal(60), rng.standard_normal(60) + 2.5 * direction]
    steady = rng.standard_normal(120)
    first = changes({"moved": values.tolist(), "steady": steady.tolist()}, 0.01)[0]
    assert 60 < first.position < 95
    assert first.series == "moved"
    assert first.evidence >= 100.0


def test_how_long_an_alarm_takes():
    # The pages say: two standard deviations, ten series, some twenty-five snapshots.
    rng = np.random.default_rng(0)
    delays = []
    for seed in range(20):
        moved = np.r_[rng.standard_normal(60), rng.standard_normal(60) + 2.0].tolist()
        others = {str(k): rng.standard_normal(120).tolist() for k in range(9)}
        delays.append(changes({"moved": moved, **others}, 0.01, seed)[0].position - 60)
    assert min(delays) >= 15
    assert max(delays) <= 35
    assert 20 <= np.median(delays) <= 30


def test_reading_again_gives_the_same_numbers():
    values = np.random.default_rng(4).integers(3, size=40).astype(float).tolist()
    whole = evidence(values, seed=5)
    assert evidence(values, seed=5) == whole
    assert evidence(values[:20], seed=5) == whole[:20]
    assert evidence(values, seed=6) != whole


def test_nothing_is_staked_where_there_is_no_value():
    rng = np.random.default_rng(6)
    values = rng.standard_normal(30).tolist()
    gaps = [*values[:10], None, None, *values[10:]]
    capital = evidence(gaps, seed=5)
    assert capital[9] == capital[10] == capital[11] != capital[12]
    assert capital[:10] == evidence(values, seed=5)[:10]
    assert evidence([None] * 5) == pytest.approx([1.0] * 5)


def test_gaps_raise_no_alarms():
    rng = np.random.default_rng(7)
    rate, trials = 0.2, 150

    def series():
        # Low values are missing more often; the order still says nothing.
        values = rng.standard_normal(80)
        return [None if v < 0 and rng.random() < 0.6 else float(v) for v in values]

    found = sum(bool(changes({"a": series(), "b": series()}, rate, k)) for k in range(trials))
    assert found / trials < rate + 3.0 * np.sqrt(rate * (1 - rate) / trials)


def test_a_long_trend_does_not_overflow():
    capital = evidence([float(k) for k in range(3000)])
    assert np.isfinite(capital).all()


@pytest.mark.parametrize(
    ("series", "rate", "words"),
    [
        ({"a": [1.0]}, 0.0, "between 0 and 1"),
        ({"a": [1.0]}, float("nan"), "between 0 and 1"),
        ({"a": [1.0], "b": []}, 0.1, "same length"),
        ({"a": [float("nan")]}, 0.1, "must be finite"),
    ],
)
def test_bad_input(series, rate, words):
    with pytest.raises(InputError, match=words):
        changes(series, rate)


def test_nothing_to_watch():
    assert changes({}) == []
    assert changes({"a": []}) == []
