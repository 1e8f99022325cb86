"""The track record: coverage with all labels and with few, and what it says about intervals."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper.monitor import Entry
from graphtemper.monitor.log import Labelled
from graphtemper.monitor.record import Scored, summary

ENTRY = Entry("d", "0", 1000, 0.8, 0.75, 0.85, 0.9, 1.5, 0.7, "trust", (), {})


def labelled(accuracy, deviation=0.0, count=1000):
    return Labelled("d", 1, count, accuracy, deviation, 0.1, 0.05)


@pytest.mark.parametrize("count", [30, 200, 1000])
def test_coverage_does_not_depend_on_the_number_of_labels(count):
    """The intervals hold 90 % of true accuracies, so 90 % of records must say that they do."""
    rng, size, deviation = np.random.default_rng(3), 1000, 0.03
    held = []
    for _ in range(2000):
        truth = float(np.clip(rng.normal(0.8, deviation), 0.01, 0.99))
        right = round(truth * size)
        hits = rng.hypergeometric(right, size - right, count)
        share = hits / count
        spread = np.sqrt(share * (1 - share) / count * (size - count) / (size - 1))
        half = 1.645 * deviation
        entry = replace(ENTRY, low=0.8 - half, high=0.8 + half)
        held.append(Scored(labelled(share, float(spread), count), entry, entry).covered)
    assert np.mean(held) == pytest.approx(0.9, abs=0.03)


def test_intervals_are_called_too_narrow_when_too_few_hold():
    inside, outside = (Scored(labelled(value), ENTRY, ENTRY) for value in (0.8, 0.6))
    assert "too narrow" not in summary([outside])  # happens to one in ten
    assert "too narrow" not in summary([inside] * 17 + [outside] * 3)
    assert "too narrow" in summary([outside] * 2)
    assert "too narrow" in summary([inside] * 15 + [outside] * 5)
    assert "too narrow" not in summary([inside] * 18 + [outside] * 2)
    assert summary([]) == ""


def test_the_sentence_states_size_and_direction_of_the_error():
    record = [Scored(labelled(value), ENTRY, ENTRY) for value in (0.78, 0.79)]
    text = summary(record)
    assert "off by 1.5 points on average, 1.5 too high" in text
    assert "0.5 too low" in summary([Scored(labelled(v), ENTRY, ENTRY) for v in (0.82, 0.79)])
