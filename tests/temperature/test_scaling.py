"""Temperature: against brute force, scikit-learn, finite differences, and its own symmetries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import _TemperatureScaling
from sklearn.metrics import log_loss
from tests.helpers import raises

from graphtemper import temperature
from graphtemper.errors import GraphTemperWarning
from graphtemper.temperature import inverse as _inverse_temperature

seeds = st.integers(0, 2**32 - 1)


def problem(seed, n=400, num_classes=4, sharpness=1.5):
    """Logits whose honest temperature is about ``sharpness``."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, num_classes))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return sharpness * z, labels


def brute_force(logits, labels):
    def nll(log_temperature):
        table = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -table[np.arange(len(labels)), labels].mean()

    optimum = minimize_scalar(nll, bounds=(-8, 8), method="bounded", options={"xatol": 1e-12})
    return np.exp(optimum.x)


# --- apply ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e4, 1e30])
def test_apply_matches_scipy_softmax(scale):
    z = scale * np.random.default_rng(0).normal(size=(50, 5))
    np.testing.assert_allclose(temperature.apply(z, scale), softmax(z / scale, axis=1), rtol=1e-13)


def test_apply_at_extreme_logits_and_temperatures():
    z = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [1e300, -1e300, 0.0]])
    p = temperature.apply(z)
    np.testing.assert_array_equal(p, [[1, 0, 0], [0, 0.5, 0.5], [1, 0, 0]])
    p = temperature.apply(z[:2], 1e-300)
    np.testing.assert_array_equal(p, [[1, 0, 0], [0, 0.5, 0.5]])
    np.testing.assert_allclose(temperature.apply(z[:1], 1e300), 1 / 3)
    # Only nodes that lie far apart span more than float64 holds; no node does.
    np.testing.assert_allclose(temperature.apply([[1.7e308] * 2, [-1.7e308] * 2]), 0.5)


@given(seeds, st.floats(0.05, 20))
@settings(max_examples=30, deadline=None)
def test_apply_keeps_the_argmax_and_sums_to_one(seed, scalar):
    rng = np.random.default_rng(seed)
    z = 5 * rng.normal(size=(40, 4))
    for t in (scalar, scalar * np.exp(rng.normal(size=40))):
        p = temperature.apply(z, t)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
        np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


def test_apply_per_node_equals_one_scalar_per_row():
    z = np.random.default_rng(1).normal(size=(6, 3))
    t = np.array([0.1, 0.5, 1, 2, 7, 40])
    rows = [temperature.apply(z[i : i + 1], t[i])[0] for i in range(6)]
    np.testing.assert_array_equal(temperature.apply(z, t), rows)


def test_apply_in_blocks_equals_small_calls_for_every_layout():
    z = np.random.default_rng(2).normal(size=(300_000, 4))
    whole = temperature.apply(z, 1.3)
    for start in (0, 32_760, 299_990):
        rows = slice(start, start + 10)
        np.testing.assert_array_equal(whole[rows], temperature.apply(z[rows], 1.3))
    np.testing.assert_array_equal(whole, temperature.apply(np.asfortranarray(z), 1.3))


def test_inputs_are_not_written_to():
    z, labels = problem(0, n=30)
    for layout in (np.ascontiguousarray(z), np.asfortranarray(z)):
        before = layout.copy()
        temperature.apply(layout, 2.0)
        temperature.fit(layout, labels)
        temperature.match_confidence(layout, 0.7)
        np.testing.assert_array_equal(layout, before)


def test_binary_pair_is_the_sigmoid():
    g = np.linspace(-40, 40, 81)
    p = temperature.apply(np.stack([np.zeros_like(g), g], axis=1))
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-g)), rtol=1e-14)


def test_apply_of_no_nodes_is_empty():
    assert temperature.apply(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("logits", "t", "error"),
    [
        ([[0.0, 1.0], [np.nan, 1.0]], 1.0, "not-finite"),
        ([[0.0, -np.inf]], 1.0, "not-finite"),
        ([[1e200, -1e200], [1.7e308, -1.7e308]], 1.0, "range"),
        ([[0.0], [1.0]], 1.0, "shape"),
        ([[0.0, 1.0]], 0.0, "range"),
        ([[0.0, 1.0]], np.inf, "range"),
        ([[0.0, 1.0]], True, "wrong-type"),
        ([[0.0, 1.0], [0.0, 1.0]], [1.0, -1.0], "range"),
        ([[0.0, 1.0], [0.0, 1.0]], [1.0, 1.0, 1.0], "shape"),
    ],
)
def test_apply_rejects(logits, t, error):
    with raises(error):
        temperature.apply(logits, t)


def test_a_bad_node_deep_in_a_large_array_is_named():
    z = np.zeros((400_000, 3), dtype=np.float32)
    z[:, 1] = 1
    z[323_456, 2] = np.nan
    for call in (
        lambda: temperature.apply(z),
        lambda: temperature.fit(z, np.ones(len(z), dtype=int)),
        lambda: temperature.match_confidence(z, 0.5),
        lambda: temperature.mean_confidence(z),
    ):
        with raises("not-finite"):
            call()


# --- fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharpness", [0.02, 0.3, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("num_classes", [2, 5])
def test_fit_matches_brute_force(sharpness, num_classes):
    z, labels = problem(3, num_classes=num_classes, sharpness=sharpness)
    assert temperature.fit(z, labels) == pytest.approx(brute_force(z, labels), rel=1e-6)


def test_fit_matches_scikit_learn():
    z, labels = problem(4, n=3000, num_classes=5, sharpness=3.0)
    peer = _TemperatureScaling().fit(z, labels)
    assert temperature.fit(z, labels) == pytest.approx(1 / peer.beta_, rel=1e-5)


def test_fit_recovers_the_scale_of_calibrated_logits():
    z, labels = problem(5, n=40_000, num_classes=5, sharpness=3.0)
    assert temperature.fit(z, labels) == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_vanishes_at_the_fit_on_many_rows(dtype):
    # Enough rows for threads and both warm starts; an independent formula for the gradient.
    z, labels = problem(6, n=300_000, num_classes=3, sharpness=1.7)
    z = z.astype(dtype)
    t = temperature.fit(z, labels)
    exact = z.astype(np.float64)

    def gradient(beta):
        p = softmax(beta * exact, axis=1)
        return (p * exact).sum(axis=1).mean() - exact[np.arange(len(z)), labels].mean()

    assert gradient(1 / (t * (1 + 1e-8))) < 0 < gradient(1 / (t * (1 - 1e-8)))


def test_a_separable_subsample_does_not_mislead_the_warm_start():
    rng = np.random.default_rng(7)
    z = rng.normal(size=(300_000, 2))
    labels = z.argmax(axis=1)
    wrong = rng.choice(len(z) // 8, 3000, replace=False) * 8 + 3  # never a multiple of 8
    labels[wrong] = 1 - labels[wrong]
    assert temperature.fit(z, labels) == pytest.approx(brute_force(z, labels), rel=1e-6)


def test_derivatives_match_finite_differences():
    z, labels = problem(8)
    gap = (z[np.arange(len(z)), labels] - z.max(axis=1)).mean()
    x, h = np.log(0.8), 1e-4

    def slope_of_nll(log_beta):  # d NLL / d beta by central differences of an independent NLL
        beta, step = np.exp(log_beta), 1e-5
        values = [
            log_loss(labels, softmax(b * z, axis=1), labels=range(4))
            for b in (beta + step, beta - step)
        ]
        return (values[0] - values[1]) / (2 * step)

    got = _inverse_temperature.nll_derivatives(z, gap, np.exp(x))
    assert got.value / 0.8 == pytest.approx(slope_of_nll(x), rel=1e-6)
    first = [_inverse_temperature.nll_derivatives(z, gap, np.exp(x + s)).value for s in (h, -h)]
    g = [first[0] / np.exp(x + h), first[1] / np.exp(x - h)]
    assert got.slope / 0.8 == pytest.approx((g[0] - g[1]) / (2 * h), rel=1e-6)
    s = [
        _inverse_temperature.nll_derivatives(z, gap, np.exp(x + s)).slope / np.exp(x + s)
        for s in (h, -h)
    ]
    assert got.bend / 0.8 == pytest.approx((s[0] - s[1]) / (2 * h), rel=1e-6)

    here = _inverse_temperature.confidence_derivatives(z, 0.8)
    up, down = (_inverse_temperature.confidence_derivatives(z, np.exp(x + s)) for s in (h, -h))
    assert here.value == pytest.approx(softmax(0.8 * z, axis=1).max(axis=1).mean(), rel=1e-13)
    assert here.slope == pytest.approx((up.value - down.value) / (2 * h), rel=1e-6)
    assert here.bend == pytest.approx((up.slope - down.slope) / (2 * h), rel=1e-6)


@given(seeds, st.sampled_from([1e-30, 1e-6, 0.3, 7.0, 1e6, 1e30]))
@settings(max_examples=30, deadline=None)
def test_scaling_logits_scales_the_temperature(seed, scale):
    z, labels = problem(seed)
    assert temperature.fit(scale * z, labels) == pytest.approx(
        scale * temperature.fit(z, labels), rel=1e-8
    )
    assert temperature.match_confidence(scale * z, 0.6) == pytest.approx(
        scale * temperature.match_confidence(z, 0.6), rel=1e-11
    )


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_symmetries_of_the_fit(seed):
    z, labels = problem(seed)
    rng = np.random.default_rng(seed)
    t = temperature.fit(z, labels)
    shifted = z + rng.normal(size=(len(z), 1)) * 10
    assert temperature.fit(shifted, labels) == pytest.approx(t, rel=1e-8)
    nodes = rng.permutation(len(z))
    assert temperature.fit(z[nodes], labels[nodes]) == pytest.approx(t, rel=1e-8)
    classes = rng.permutation(4)  # column j of the new table is class classes[j]
    assert temperature.fit(z[:, classes], np.argsort(classes)[labels]) == pytest.approx(t, rel=1e-8)
    assert temperature.fit(np.tile(z, (3, 1)), np.tile(labels, 3)) == pytest.approx(t, rel=1e-8)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_binary_pairs(seed):
    z, labels = problem(seed, num_classes=2)
    g = z[:, 1] - z[:, 0]
    t = temperature.fit(np.stack([0 * g, g], axis=1), labels)
    assert temperature.fit(np.stack([-g / 2, g / 2], axis=1), labels) == pytest.approx(t, rel=1e-9)
    assert temperature.fit(np.stack([-g, g], axis=1), labels) == pytest.approx(2 * t, rel=1e-9)


@given(st.integers(1, 12), st.integers(2, 4), seeds, st.floats(-8, 8))
@settings(max_examples=150, deadline=None)
def test_tiny_problems_always_end_at_the_best_temperature(n, num_classes, seed, magnitude):
    rng = np.random.default_rng(seed)
    z = 10.0**magnitude * rng.normal(size=(n, num_classes)) * np.exp(2 * rng.normal(size=(n, 1)))
    labels = rng.integers(num_classes, size=n)
    solved = temperature.solve(z, labels)

    def nll(t):
        return -log_softmax(z / t, axis=1)[np.arange(n), labels].mean()

    grid = solved.temperature * np.exp(np.linspace(-3, 3, 61))
    best = min(nll(t) for t in grid)
    if solved.status == "optimal":
        assert nll(solved.temperature) <= best * (1 + 1e-12)
    elif solved.status == "at lower bound":
        assert nll(solved.temperature) <= nll(solved.temperature * 10) * (1 + 1e-12)
    else:
        assert nll(solved.temperature) <= nll(solved.temperature / 10) + 1e-9


def test_a_nearly_separable_optimum_far_from_the_logit_scale():
    # One wrong node with a tiny margin: the optimum is at beta = 2e3, far from 1 / spread.
    g = np.r_[np.linspace(0, 4, 2001)[1:], -1e-3]
    z = np.stack([0 * g, g], axis=1)
    labels = np.ones(len(g), dtype=int)
    t = temperature.fit(z, labels)
    assert t < 1e-2
    assert t == pytest.approx(brute_force(z, labels), rel=1e-6)


def test_separable_data_end_at_the_lower_bound_with_a_warning():
    z = np.array([[0.0, 4.0], [4.0, 0.0]])
    with pytest.warns(GraphTemperWarning):
        t = temperature.fit(z, [1, 0])
    assert t == pytest.approx(2.0 * temperature.RELATIVE_BOUNDS[0])  # spread = 4 - mean = 2
    solved = temperature.solve(z, [1, 0])
    assert (solved.nll_after, solved.iterations) == (0.0, 0)


@pytest.mark.parametrize("labels", [[0, 1], [0, 0]], ids=["all wrong", "chance"])
def test_logits_without_evidence_end_at_the_upper_bound_with_a_warning(labels):
    z = np.array([[0.0, 4.0], [4.0, 0.0]])
    with pytest.warns(GraphTemperWarning) as caught:
        t = temperature.fit(z, labels)
    assert caught[0].filename == __file__
    assert t == pytest.approx(2.0 * temperature.RELATIVE_BOUNDS[1])
    np.testing.assert_allclose(temperature.apply(z, t), 0.5, atol=1e-6)


def test_an_optimum_beyond_the_upper_bound_is_reported_as_the_bound():
    g = np.ones(4_000_001)
    z = np.stack([np.zeros_like(g), g], axis=1).astype(np.float32)
    labels = np.ones(len(g), dtype=int)
    labels[: len(g) // 2] = 0  # accuracy 1/2 + 1e-7: the optimum is T = 2.5e6 > 1e6 * spread
    assert temperature.solve(z, labels).status == "at upper bound"


def test_constant_logits_leave_the_temperature_at_one():
    z = np.full((3, 4), 5.0)
    with pytest.warns(GraphTemperWarning):
        assert temperature.fit(z, [0, 1, 2]) == 1.0
    solved = temperature.solve(z, [0, 1, 2])
    assert solved.status == "undetermined"
    assert solved.nll_before == solved.nll_after == pytest.approx(np.log(4))


def test_solve_reports_likelihoods_and_the_inverse():
    z, labels = problem(9)
    solved = temperature.solve(z, labels)
    assert solved.status == "optimal"
    assert solved.iterations >= 1
    assert solved.inverse == 1 / solved.temperature
    assert solved.nll_before == pytest.approx(log_loss(labels, softmax(z, axis=1)))
    after = softmax(z / solved.temperature, axis=1)
    assert solved.nll_after == pytest.approx(log_loss(labels, after))
    assert solved.nll_after < solved.nll_before


@pytest.mark.parametrize(
    ("logits", "labels", "error"),
    [
        ([[0.0, 1.0]], [-1], "no-labels"),
        ([[0.0, 1.0]], [2], "range"),
        (np.empty((0, 2)), np.empty(0, dtype=int), "empty"),
        ([[0.0, 1e300], [0.0, -1e300]], [1, 1], "range"),
        ([[0.0, 1e-300], [0.0, -1e-300]], [1, 1], "range"),
    ],
)
def test_fit_rejects(logits, labels, error):
    with raises(error):
        temperature.fit(logits, labels)


# --- match_confidence -----------------------------------------------------------------------


@given(seeds, st.floats(0.26, 0.999))
@settings(max_examples=50, deadline=None)
def test_match_confidence_hits_the_accuracy(seed, accuracy):
    z, _ = problem(seed, n=60)
    t = temperature.match_confidence(z, accuracy)
    assert abs(softmax(z / t, axis=1).max(axis=1).mean() - accuracy) < 1e-12


@pytest.mark.parametrize("accuracy", [0.25 + 1e-9, 1 - 1e-9])
def test_match_confidence_close_to_the_ends(accuracy):
    z, _ = problem(10)
    t = temperature.match_confidence(z, accuracy)
    assert abs(temperature.mean_confidence(z, t) - accuracy) < 1e-12


@given(seeds, st.floats(0.05, 20), st.floats(1.01, 3))
@settings(max_examples=30, deadline=None)
def test_mean_confidence_falls_with_temperature(seed, t, factor):
    z, _ = problem(seed, n=30)
    assert temperature.mean_confidence(z, factor * t) < temperature.mean_confidence(z, t)


def test_mean_confidence_equals_the_mean_of_the_largest_probability():
    z, _ = problem(11)
    t = np.linspace(0.5, 3, len(z))
    expected = softmax(z / t[:, None], axis=1).max(axis=1).mean()
    assert temperature.mean_confidence(z, t) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("accuracy", [0.0, 0.25, 1.0, 1.5, -1.0, np.nan])
def test_match_confidence_rejects_what_no_temperature_reaches(accuracy):
    z, _ = problem(12, n=20)
    with raises("range"):
        temperature.match_confidence(z, accuracy)


def test_ties_lower_the_reachable_confidence():
    z = [[1.0, 1.0, 0.0], [3.0, 0.0, 0.0]]  # at T -> 0: 1/2 and 1
    assert temperature.match_confidence(z, 0.74) > 0
    with raises("range"):
        temperature.match_confidence(z, 0.76)
    with raises("range"):
        temperature.match_confidence(np.zeros((3, 2)), 0.6)
