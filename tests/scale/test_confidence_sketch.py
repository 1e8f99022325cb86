"""The sketch compared with the exact solver, and its error bound with the exact error."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphtemper import temperature
from graphtemper.scale.confidence_sketch import ERROR, REACH, ConfidenceSketch


def logits(num_classes, scale, seed, count=3000):
    """Return logits whose spread differs much between nodes."""
    rng = np.random.default_rng(seed)
    size = scale * np.exp(rng.standard_normal((count, 1)))
    return size * rng.standard_normal((count, num_classes))


@pytest.mark.parametrize("num_classes", [2, 3, 10, 47])
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_mean_confidence_is_within_the_bound_at_every_temperature(num_classes, scale):
    z = logits(num_classes, scale, 1, count=400)
    sketch = ConfidenceSketch.of(z)
    for t in np.exp(np.linspace(-REACH, REACH, 61)):
        assert abs(sketch.mean_confidence(t) - temperature.mean_confidence(z, t)) < ERROR + 1e-12


def test_the_bound_holds_if_all_gaps_are_equal():
    """The hardest case: K - 1 equal gaps move the nearest poles closest to the real axis."""
    for num_classes in (3, 30):
        z = np.zeros((1, num_classes))
        z[0, 0] = np.log(num_classes - 1)
        sketch = ConfidenceSketch.of(z)
        for t in np.exp(np.linspace(-REACH, REACH, 201)):
            exact = 1.0 / (1.0 + (num_classes - 1.0) ** (1.0 - 1.0 / t))
            assert abs(sketch.mean_confidence(t) - exact) < ERROR + 1e-12


@given(st.integers(2, 12), st.floats(0.2, 5.0), st.floats(0.05, 0.95), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_the_confidence_of_a_temperature_is_the_accuracy(num_classes, scale, position, seed):
    z = logits(num_classes, scale, seed, count=300)
    low, high = (temperature.mean_confidence(z, t) for t in np.exp((REACH, -REACH)))
    accuracy = low + position * (high - low)
    matched = ConfidenceSketch.of(z).match(accuracy)
    assert temperature.mean_confidence(z, matched) == pytest.approx(accuracy, abs=2 * ERROR)
    assert matched == pytest.approx(temperature.match_confidence(z, accuracy), rel=1e-4)


def test_sketches_of_parts_add_up():
    z = logits(5, 2.0, 3)
    parts = [ConfidenceSketch.of(part) for part in np.split(z, [10, 700, 2999])]
    merged = parts[0] + parts[1] + parts[2] + parts[3]
    np.testing.assert_allclose(merged.sums, ConfidenceSketch.of(z).sums, rtol=1e-12)
    assert merged.count == 3000


def test_a_temperature_out_of_reach_is_none():
    z = logits(3, 1.0, 4)
    sketch = ConfidenceSketch.of(z)
    assert sketch.match(0.3) is None
    assert sketch.match(0.9999) is None
