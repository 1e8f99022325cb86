import numpy as np
import pytest
from tests.helpers import raises

from graphtemper.card import response
from graphtemper.card.response import Kernel, Response

NAMES = ("a", "b")


def _as_dicts(points):
    return [dict(zip(NAMES, map(float, row), strict=True)) for row in points]


def _response(points, values, kernel, **other):
    noise = other.pop("noise", np.zeros(len(values)))
    prior = other.pop("prior", np.zeros(2))
    return Response(NAMES, points, values, noise, np.zeros(2), np.ones(2), prior, kernel, **other)


@pytest.fixture
def points():
    return np.random.default_rng(0).standard_normal((30, 2))


def test_the_kernel_is_a_covariance_that_vanishes_at_the_source(points):
    kernel = Kernel(linear=0.5, smooth=2.0, length=0.8, noise=0.1)
    matrix = kernel(points, points, np.eye(2))
    np.testing.assert_allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    np.testing.assert_allclose(kernel(np.zeros((1, 2)), points, np.eye(2)), 0.0, atol=1e-15)
    x, y = np.array([[1.0, 2.0]]), np.array([[0.5, -1.0]])
    by_hand = 0.5 * (0.5 - 2.0) + 2.0 * (
        np.exp(-9.25 / 1.28) - np.exp(-5.0 / 1.28) * np.exp(-1.25 / 1.28)
    )
    assert kernel(x, y, np.eye(2))[0, 0] == pytest.approx(by_hand)


def test_the_response_bends_along_a_small_difference_of_signals_that_move_together():
    """Two shifts whose signals differ by a tenth of what both have in common are told apart."""
    rng = np.random.default_rng(0)
    size = 60
    common, apart = rng.standard_normal(size), rng.standard_normal(size)
    rows = [{"a": c + 0.1 * d, "b": c - 0.1 * d} for c, d in zip(common, apart, strict=True)]
    values = np.sin(2.0 * apart)
    fitted = response.fit(
        NAMES, rows, values, np.full(size, 1e-3), {"a": 0.0, "b": 0.0}, _families(size)
    )
    found = [fitted.predict({"a": 0.1 * d, "b": -0.1 * d})[0] for d in (-1.0, -0.5, 0.5, 1.0)]
    np.testing.assert_allclose(found, np.sin([-2.0, -1.0, 1.0, 2.0]), atol=0.25)


def test_a_target_that_looks_like_the_source_has_its_accuracy(points):
    values = np.random.default_rng(1).standard_normal(30) + 3.0
    fitted = _response(points, values, Kernel(1.0, 1.0, 1.0, 0.04))
    mean, deviation = fitted.predict({"a": 0.0, "b": 0.0})
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert deviation == pytest.approx(0.2)


def test_with_little_noise_environments_are_interpolated(points):
    values = np.sin(points[:, 0]) + 0.5 * points[:, 1]
    fitted = _response(points, values, Kernel(1.0, 1.0, 1.0, 1e-6))
    found = np.array([fitted.predict(row)[0] for row in _as_dicts(points)])
    np.testing.assert_allclose(found, values, atol=2e-3)


def test_a_poorly_measured_environment_counts_for_less():
    """Two environments at one place: the answer is their mean, weighted by precision."""
    points = np.array([[1.0, 0.0], [1.0, 0.0]])
    noise = np.array([0.01, 0.09])
    fitted = _response(points, np.array([1.0, 2.0]), Kernel(1e3, 1e-6, 1.0, 1e-9), noise=noise)
    mean, deviation = fitted.predict({"a": 1.0, "b": 0.0})
    assert mean == pytest.approx(1.1, abs=1e-3)
    assert deviation == pytest.approx(np.sqrt(0.009), rel=1e-2)


def test_sampling_noise_is_not_taken_for_response():
    """Values that scatter only as their sampling says are smoothed, and need no wide interval."""
    rng = np.random.default_rng(6)
    points = rng.uniform(-2.0, 2.0, (60, 2))
    truth = 0.8 * points[:, 0]
    values = truth + 0.2 * rng.standard_normal(60)
    origin = {"a": 0.0, "b": 0.0}
    fitted = response.fit(
        NAMES, _as_dicts(points), values, np.full(60, 0.04), origin, _families(60)
    )
    found = np.array([fitted.predict(row)[0] for row in _as_dicts(points)])
    assert np.abs(found - truth).mean() < 0.5 * np.abs(values - truth).mean()
    assert fitted.widening < 1.5


def test_variance_grows_away_from_what_was_seen(points):
    fitted = _response(points, points[:, 0], Kernel(0.2, 1.0, 1.0, 0.01))
    deviations = [fitted.predict({"a": a, "b": a})[1] for a in (0.0, 3.0, 6.0, 12.0, 24.0)]
    assert (np.diff(deviations) > 0.0).all()
    assert fitted.novelty({"a": 24.0, "b": 24.0}) * fitted.reach > 20.0
    assert fitted.novelty(_as_dicts(points)[4]) == pytest.approx(0.0, abs=1e-12)


def _families(count, kinds=5):
    return [frozenset({f"f{i % kinds}"}) for i in range(count)]


def test_a_linear_response_is_recovered_and_extrapolated():
    rng = np.random.default_rng(3)
    raw = rng.standard_normal((60, 2)) * [1.0, 3.0] + [0.5, 1.0]
    origin = {"a": 0.2, "b": -1.0}
    moved = raw - [0.2, -1.0]
    values = 0.7 * moved[:, 0] - 0.2 * moved[:, 1] + 0.01 * rng.standard_normal(60)
    fitted = response.fit(NAMES, _as_dicts(raw), values, np.full(60, 1e-4), origin, _families(60))
    for a, b in ((0.0, 0.0), (1.0, 2.0), (4.0, -8.0)):
        found, _ = fitted.predict({"a": 0.2 + a, "b": -1.0 + b})
        assert found == pytest.approx(0.7 * a - 0.2 * b, abs=0.12)
    # Coordinates are relative to the source and in units of the environments' spread.
    np.testing.assert_allclose((fitted.points**2).mean(axis=0), 1.0)
    np.testing.assert_allclose(fitted.coordinates(origin), 0.0)


def test_widening_covers_families_that_were_left_out():
    """Families that bend the response their own way are not covered by the fit's own variance."""
    rng = np.random.default_rng(4)
    families, points, values = [], [], []
    for kind in range(20):
        bend = 0.5 * rng.standard_normal()
        for level in np.linspace(0.2, 2.0, 5):
            families.append(frozenset({f"f{kind}"}))
            points.append([level, level * rng.normal(1.0, 0.3)])
            values.append(-level + bend * level + 0.02 * rng.standard_normal())
    values = np.array(values)
    fitted = response.fit(
        NAMES, _as_dicts(points), values, np.full(100, 4e-4), {"a": 0.0, "b": 0.0}, families
    )
    assert fitted.widening >= 1.0
    # Two thirds of the families price the interval of the others.
    seen = np.array([int(next(iter(f))[1:]) < 14 for f in families])
    priced = response.fit(
        NAMES,
        [row for row, kept in zip(_as_dicts(points), seen, strict=True) if kept],
        values[seen],
        np.full(int(seen.sum()), 4e-4),
        {"a": 0.0, "b": 0.0},
        [family for family, kept in zip(families, seen, strict=True) if kept],
    )
    inside = []
    for row, value in zip(np.array(_as_dicts(points))[~seen], values[~seen], strict=True):
        mean, deviation = priced.predict(row)
        inside.append(abs(value - mean) <= 1.645 * priced.widening * deviation)
    assert np.mean(inside) >= 0.7


def test_reach_is_the_distance_to_other_families():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [3.0, 0.0], [3.0, 0.1]])
    families = [frozenset({name}) for name in ("x", "x", "y", "y")]
    assert response.reach(points, families) == pytest.approx(3.0, abs=0.05)
    assert response.reach(points, [frozenset({"x"})] * 4) == 1.0
    assert response.reach(np.zeros((4, 2)), families) > 0.0
    assert response.reach(points, [frozenset()] * 4) > 0.05  # nobody is their own neighbour


def test_a_signal_that_never_moves_but_for_rounding_is_not_blown_up():
    rows = [{"a": float(i), "b": 1.0} for i in range(-3, 4)]
    points, _, scale = response.standardise(NAMES, rows, {"a": 0.0, "b": 1.0 + 1e-7})
    assert scale[1] == 1.0
    assert np.abs(points[:, 1]).max() < 1e-6


def test_missing_signals_and_lone_families_are_refused(points):
    fitted = _response(points, points[:, 0], Kernel(1.0, 1.0, 1.0, 0.1))
    with raises("missing"):
        fitted.predict({"a": 1.0})
    rows = _as_dicts(points)
    with raises("missing"):
        response.fit(NAMES, rows, points[:, 0], np.ones(30), {"a": 0.0}, _families(30))
    origin = {"a": 0.0, "b": 0.0}
    with raises("too-few"):
        response.fit(NAMES, rows, points[:, 0], np.ones(30), origin, _families(30, kinds=1))


def test_far_from_everything_the_leading_signal_is_believed():
    """With nothing learned the response is the lead; near environments it is what they say."""
    points = np.array([[1.0, 0.0], [0.0, 1.0]])
    fitted = _response(
        points, np.array([1.5, 0.0]), Kernel(1e-9, 1.0, 0.5, 1e-6), prior=np.array([1.0, 0.0])
    )
    assert fitted.predict({"a": 9.0, "b": 9.0})[0] == pytest.approx(9.0, abs=1e-3)
    assert fitted.predict({"a": 1.0, "b": 0.0})[0] == pytest.approx(1.5, abs=1e-2)


def test_the_lead_keeps_its_own_units():
    rng = np.random.default_rng(3)
    raw = rng.standard_normal((40, 2)) * [3.0, 0.2]
    values = raw[:, 0] + 0.05 * rng.standard_normal(40)
    fitted = response.fit(
        NAMES,
        _as_dicts(raw),
        values,
        np.full(40, 1e-4),
        {"a": 0.0, "b": 0.0},
        _families(40),
        lead="a",
    )
    assert fitted.prior @ (1.0 / fitted.scale) == pytest.approx(1.0)
    assert fitted.predict({"a": 20.0, "b": 0.0})[0] == pytest.approx(20.0, abs=1.0)
