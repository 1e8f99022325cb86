"""Temperature where logits mix scales: near-ties beside large gaps, and the ends of float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax
from tests.helpers import raises

from graphtemper import temperature
from graphtemper.errors import GraphTemperWarning

seeds = st.integers(0, 2**32 - 1)


def binary(gap):
    gap = np.asarray(gap, dtype=float)
    return np.stack([0 * gap, gap], axis=1)


def mixture(small, share, n=2000, accuracy=0.8):
    """Gaps of ``small`` on a share of the nodes and 6 on the others, each right at ``accuracy``."""
    z = binary(np.where(np.arange(n) < share * n, small, 6.0))
    return z, (np.arange(n) % 10 < 10 * accuracy).astype(int)


def nll(z, labels, t):
    with np.errstate(over="ignore"):
        return -log_softmax(z / t, axis=1)[np.arange(len(z)), labels].mean()


def brute_force(z, labels):
    """The root of the NLL's derivative in log T, from SciPy's softmax, between far ends."""
    gap = z - z.max(axis=1, keepdims=True)
    at_label = gap[np.arange(len(z)), labels].mean()

    def slope(log_t):
        with np.errstate(over="ignore"):
            return at_label - (softmax(gap / np.exp(log_t), axis=1) * gap).sum(axis=1).mean()

    distances = -gap[gap < 0]
    ends = np.log(distances.min() / 1e4), np.log(distances.max() * 1e8)
    return np.exp(brentq(slope, *ends, xtol=1e-13, maxiter=500))


@pytest.mark.parametrize(("small", "share"), [(1e-16, 0.5), (1e-7, 0.9), (1e-300, 0.99)])
def test_near_ties_do_not_lower_the_temperature(small, share):
    z, labels = mixture(small, share)
    solved = temperature.solve(z, labels)
    assert solved.status == "optimal"
    assert solved.temperature == pytest.approx(6 / np.log(4), rel=1e-6, abs=0)  # sigma(6 / T) = 0.8
    assert solved.nll_after < solved.nll_before


@given(
    seeds,
    st.lists(st.floats(-16, 4), min_size=1, max_size=4),
    st.integers(2, 4),
    st.floats(0.05, 0.95),
)
@settings(max_examples=200, deadline=None)
def test_any_mixture_of_scales_ends_at_the_best_temperature(seed, scales, num_classes, accuracy):
    rng = np.random.default_rng(seed)
    n = 60
    # One scale is at least 1e-3, so that the upper bound lies above T = 1.
    size = 10.0 ** rng.choice([*scales, max(-3.0, scales[0])], size=n)
    z = size[:, None] * rng.normal(size=(n, num_classes))
    z[0] = 10.0 ** max(-3.0, scales[0]) * np.arange(num_classes)
    wrong = rng.random(n) > accuracy
    labels = np.where(wrong, rng.integers(num_classes, size=n), z.argmax(axis=1))
    solved = temperature.solve(z, labels)
    assert solved.nll_after <= solved.nll_before + 1e-12
    if solved.status == "optimal":
        assert solved.temperature == pytest.approx(brute_force(z, labels), rel=1e-6, abs=0)
        grid = solved.temperature * np.exp(np.linspace(-20, 20, 81))
        assert solved.nll_after <= min(nll(z, labels, t) for t in grid) + 1e-12
    elif solved.status == "at lower bound":
        assert (labels == z.argmax(axis=1)).all()
        assert solved.nll_after == 0.0


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
def test_mixtures_scale_with_the_logits(scale):
    z, labels = mixture(1e-12, 0.7)
    t = temperature.fit(z, labels)
    assert temperature.fit(scale * z, labels) == pytest.approx(scale * t, rel=1e-8, abs=0)
    with pytest.warns(GraphTemperWarning):
        t = temperature.fit(z, 1 - labels)
    with pytest.warns(GraphTemperWarning):
        assert temperature.fit(scale * z, 1 - labels) == pytest.approx(scale * t, rel=1e-8, abs=0)


def test_the_bounds_make_every_node_uniform_or_one_hot():
    z, _ = mixture(1e-12, 0.7)
    upper = temperature.solve(z, np.zeros(len(z), dtype=int))
    assert upper.status == "at upper bound"
    np.testing.assert_allclose(temperature.apply(z, upper.temperature), 0.5, atol=1e-6)
    z = np.array([[0.0, 1e-12, -9.0], [0.0, -5.0, -5.0]])  # the top two of a node nearly tie
    lower = temperature.solve(z, [1, 0])
    assert lower.status == "at lower bound"
    np.testing.assert_array_equal(temperature.apply(z, lower.temperature).max(axis=1), 1.0)


def test_an_optimum_far_below_the_typical_gap_is_found():
    z = binary(np.r_[np.ones(50), 1e-7, -1e-12])  # right nodes gain until T is about 1e-8
    labels = np.ones(52, dtype=int)
    solved = temperature.solve(z, labels)
    assert solved.status == "optimal"
    assert solved.temperature == pytest.approx(brute_force(z, labels), rel=1e-6, abs=0)
    # All rows nearly tie at the top, far above the third class.
    z, labels = np.tile([0.0, -1e-20, -1.0], (10, 1)), np.array([0] * 6 + [1] * 4)
    assert temperature.fit(z, labels) == pytest.approx(1e-20 / np.log(1.5), rel=1e-6, abs=0)


def test_scales_240_digits_apart():
    z, labels = mixture(1e-120, 0.5)
    z[len(z) // 2 :] *= 1e120
    labels[len(z) // 2 :] = 1  # large gaps are right, so the small ones decide
    assert temperature.fit(z, labels) == pytest.approx(1e-120 / np.log(4), rel=1e-6, abs=0)


# --- the smallest temperatures --------------------------------------------------------------


@pytest.mark.parametrize("t", [1e-310, 5e-324, [1e-310, 1.0, 5e-324]])
def test_subnormal_temperatures_give_the_limit(t):
    z = np.array([[0.0, 2.0, -1.0], [1.0, 1.0, 1.0], [3.0, 3.0, 0.0]])
    p = temperature.apply(z, t)
    np.testing.assert_allclose(p, [[0, 1, 0], [1 / 3] * 3, [0.5, 0.5, 0]], atol=1e-300)
    assert temperature.mean_confidence(z, t) == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
    assert temperature.apply([[0.0, 1e-310]], 1e-310)[0, 1] == pytest.approx(1 / (1 + np.exp(-1)))


# --- match_confidence -----------------------------------------------------------------------


@given(seeds, st.lists(st.floats(-40, 20), min_size=1, max_size=4), st.floats(0.501, 0.999))
@settings(max_examples=100, deadline=None)
def test_match_confidence_reaches_every_accuracy_on_mixtures(seed, scales, accuracy):
    rng = np.random.default_rng(seed)
    z = binary(10.0 ** rng.choice(scales, size=50) * rng.uniform(0.5, 2, size=50))
    t = temperature.match_confidence(z, accuracy)
    assert abs(temperature.mean_confidence(z, t) - accuracy) < 1e-12


def test_match_confidence_of_a_few_near_ties():
    z = binary(np.r_[np.full(990, 10.0), np.full(10, 1e-20)])
    t = temperature.match_confidence(z, 0.999)  # the near-ties must reach 0.9
    assert t == pytest.approx(1e-20 / np.log(9), rel=1e-9, abs=0)


def test_match_confidence_names_the_range_that_float64_reaches():
    z = binary(np.r_[np.full(990, 10.0), np.full(10, 5e-324)])
    with raises("range"):
        temperature.match_confidence(z, 0.999)


# --- input that is no array -----------------------------------------------------------------

RAGGED = [[0.0, 1.0], [0.0]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: temperature.apply(RAGGED), "shape"),
        (lambda: temperature.fit([[0.0, 1.0]], [[0], [0, 1]]), "shape"),
        (lambda: temperature.apply([[0.0, 1.0]] * 2, [[1.0], 1.0]), "shape"),
        (lambda: temperature.match_confidence([[0.0, 1.0]], None), "wrong-type"),
        (lambda: temperature.match_confidence([[0.0, 1.0]], [0.8]), "wrong-type"),
        (lambda: temperature.apply(None), "wrong-type"),
    ],
)
def test_values_that_are_not_arrays_are_input_errors(call, error):
    with raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_threads_do_not_change_a_temperature(monkeypatch):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((60_000, 10)), rng.integers(0, 10, 60_000)
    y = np.where(y < 6, z.argmax(axis=1), y)
    found = set()
    for threads in (1, 2, 7):
        monkeypatch.setattr("graphtemper._core.reproducible.num_cores", lambda t=threads: t)
        found.add((temperature.fit(z, y), temperature.match_confidence(z, 0.7)))
    assert len(found) == 1
