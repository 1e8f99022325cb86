"""Thresholds against the order statistic, and against brute force where nodes have weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import raises

from graphtemper.calibrators.conformal import threshold


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 400), st.integers(1, 99), st.integers(0, 1000))
def test_the_order_statistic(n, percent, seed):
    scores = np.random.default_rng(seed).random(n)
    level = Fraction(percent, 100)
    k = -(-(n + 1) * level // 1)  # exact, where floats would round 0.07 * 100 up
    expected = np.inf if k > n else np.sort(scores)[int(k) - 1]
    assert float(threshold(scores, percent / 100)) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(1, 19),
    st.integers(0, 9),
)
def test_weights_against_brute_force(nodes, twentieths, new):
    """Whole weights are repeated nodes: the level is reached by counting."""
    scores, weights = np.array(nodes, dtype=float).T
    if weights.sum() == 0:
        return
    needed = Fraction(twentieths, 20) * (int(weights.sum()) + new)
    reached = [q for q in sorted(set(scores)) if weights[scores <= q].sum() >= needed]
    expected = reached[0] if reached else np.inf
    assert float(threshold(scores, twentieths / 20, weights, float(new))) == expected


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 0.99), st.integers(0, 1000), st.floats(1e-3, 1e3))
def test_equal_weights_change_nothing(n, level, seed, weight):
    scores = np.random.default_rng(seed).random(n)
    plain = float(threshold(scores, level))
    assert float(threshold(scores, level, np.full(n, weight), weight)) == plain


def test_several_new_weights_at_once():
    scores, weights = np.arange(1.0, 6.0), np.array([5.0, 1.0, 1.0, 1.0, 1.0])
    new = [0.0, 1.0, 4.0, 9.0, np.inf]
    quantiles = threshold(scores, 0.6, weights, new)
    expected = [float(threshold(scores, 0.6, weights, value)) for value in new]
    np.testing.assert_array_equal(quantiles, expected)
    assert quantiles.tolist() == [2.0, 2.0, 4.0, np.inf, np.inf]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, np.nan, "0.9", True])
def test_levels_outside_the_unit_interval(level):
    with raises(("range", "wrong-type")):
        threshold([0.5, 0.6], level)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: threshold([], 0.9), "empty"),
        (lambda: threshold([[0.5]], 0.9), "shape"),
        (lambda: threshold([np.nan], 0.9), "not-finite"),
        (lambda: threshold([0.5], 0.9, [1.0, 2.0]), "shape"),
        (lambda: threshold([0.5], 0.9, [-1.0]), "range"),
        (lambda: threshold([0.5], 0.9, [1.0], np.nan), "range"),
    ],
)
def test_bad_input_is_refused(call, error):
    with raises(error):
        call()
