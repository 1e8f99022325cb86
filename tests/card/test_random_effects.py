"""Random effects over labelled environments, against independent kriging and simulation."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from graphtemper._core.estimate import DEVIATIONS
from graphtemper.card.random_effects import (
    Constants,
    Environments,
    distances,
    expect,
    fit,
    mixing_weight,
)

C = Constants()


def _expected(*given, **options):
    return expect(*given, **options)[0]


def known(truth, estimates, places=None, nodes=1000):
    """Return environments; ``places`` are theirs and the new one's on a line, all alike if None."""
    truth = np.asarray(truth, dtype=float)
    variance = np.full(truth.size, 4.0 / nodes)
    line = np.zeros(truth.size + 1) if places is None else np.asarray(places, dtype=float)
    both = np.asarray(estimates, dtype=float)
    both = both if both.ndim == 2 else np.column_stack([both, both])
    return Environments(truth, variance, both, distances([line[:, None]]))


def test_the_next_gap_is_that_of_kriging():
    """Without strange environments, scikit-learn's Gaussian process gives the same answer."""
    gaps, variance = np.array([-0.5, -0.1, 0.1]), np.array([0.02, 0.1, 0.01])
    places = np.array([0.0, 1.0, 2.5])
    kernel = np.exp(-0.5 * (places[:, None] - places) ** 2 / C.reach**2)
    centre = gaps - gaps.mean()
    degrees = 2.0 * C.own_share + (1.0 - C.own_share) * (3.0 - kernel.sum() / 3.0)
    total = (C.spread_count * C.spread**2 + centre @ centre) / (C.spread_count + degrees)
    own, similar = C.own_share * total, (1.0 - C.own_share) * total
    covariance = ConstantKernel(C.mean_scale**2) + ConstantKernel(similar) * RBF(C.reach)
    peer = GaussianProcessRegressor(covariance, alpha=variance + own, optimizer=None)
    peer.fit(places[:, None], gaps - C.mean)
    mean, deviation = peer.predict([[0.7]], return_std=True)
    similarity = np.exp(-0.5 * (places - 0.7) ** 2 / C.reach**2)
    found = fit(gaps, variance, kernel).next_gap(similarity, variance=0.05)
    assert found[0] == pytest.approx(C.mean + mean[0], abs=1e-9)
    assert found[1] == pytest.approx(np.sqrt(deviation[0] ** 2 + own + 0.05), abs=1e-9)


def test_residuals_are_those_of_leaving_an_environment_out():
    gaps, variance = np.array([-0.5, 0.1]), np.array([0.02, 0.05])
    effects = fit(gaps, variance, np.array([[1.0, 0.3], [0.3, 1.0]]))
    own = effects.own
    shared = C.mean_scale**2 + effects.common[1] * 0.3
    for place, other in ((0, 1), (1, 0)):
        total = C.mean_scale**2 + effects.common[1] + own + variance[other]
        expected = C.mean + shared / total * (gaps[other] - C.mean)
        assert effects.residuals[place] == pytest.approx(gaps[place] - expected)


def test_similar_environments_count_for_more():
    truth, estimates = np.array([2.0, 2.1, 0.4, 0.5]), np.full(4, 2.0)
    near_first, near_last, far = (
        _expected(known(truth, estimates, [0.0, 0.1, 5.0, 5.1, place]), np.full(2, 2.0), 10**9)
        for place in (0.05, 5.05, 50.0)
    )
    assert near_first.centre > far.centre + 0.1 > near_last.centre + 0.3
    assert near_first.deviation < far.deviation


def test_intervals_cover_gaps_drawn_from_the_model():
    rng, hits = np.random.default_rng(0), []
    for _ in range(400):
        places = rng.uniform(0.0, 3.0, 7)
        apart = distances([places[:, None]])
        kernel = np.exp(-0.5 * apart / C.reach**2)
        covariance = C.mean_scale**2 + (1.0 - C.own_share) * C.spread**2 * kernel
        covariance += np.eye(7) * (C.own_share * C.spread**2 + 0.01)
        gaps = rng.multivariate_normal(np.full(7, C.mean), covariance)
        environments = Environments(1.0 + gaps[:6], np.full(6, 0.01), np.ones((6, 2)), apart)
        found = _expected(environments, np.ones(2), num_nodes=10**9, sampled=0.01)
        hits.append(abs(1.0 + gaps[6] - found.centre) <= DEVIATIONS * found.deviation)
    assert 0.87 <= np.mean(hits) <= 0.95


def test_the_better_estimate_gets_the_weight():
    rng = np.random.default_rng(0)
    truth = rng.normal(0.5, 1.0, 10)
    good, bad = truth + 0.3 + rng.normal(0.0, 0.05, 10), rng.normal(1.5, 0.5, 10)
    places = rng.normal(size=11)
    assert mixing_weight(known(truth, np.column_stack([bad, good]), places)) > 0.9
    assert mixing_weight(known(truth, np.column_stack([good, bad]), places)) < 0.1
    expected = _expected(
        known(truth, np.column_stack([bad, good]), places), np.array([1.5, 0.8]), 400
    )
    assert expected.centre == pytest.approx(0.5, abs=0.15)


def test_one_environment_moves_the_answer_part_of_the_way():
    expected = _expected(known([0.0], [2.0], [0.0, 1.0]), np.full(2, 2.0), 1000)
    assert 0.3 < expected.centre < 2.0 + C.mean


def test_a_wrong_environment_is_named_and_does_not_move_the_answer_far():
    rng = np.random.default_rng(1)
    truth = 1.0 + rng.normal(0.0, 0.15, 7)
    places = rng.normal(size=9)
    clean, named = expect(known(truth, np.full(7, 1.5), places[:8]), np.full(2, 1.5), 500)
    answer, odd = expect(known([*truth, -4.0], np.full(8, 1.5), places), np.full(2, 1.5), 500)
    assert abs(answer.centre - clean.centre) < 0.25
    assert answer.deviation > clean.deviation
    assert named is None
    assert odd == 7


def test_recent_environments_count_for_more():
    truth, estimates = np.array([2.0] * 6 + [0.5] * 3), np.full(9, 2.0)
    ordered = _expected(known(truth, estimates, np.arange(10.0)), np.full(2, 2.0), 1000)
    plain = _expected(known(truth, estimates), np.full(2, 2.0), 1000)
    assert ordered.centre < plain.centre - 0.2


def test_a_small_target_has_a_wider_interval_than_the_environments_have():
    """Ten large environments say little about a count over a few nodes."""
    rng = np.random.default_rng(2)
    truth = 1.0 + 0.02 * rng.standard_normal(10)
    environments = known(truth, np.ones(10), rng.normal(size=11), nodes=4000)
    large, small = (_expected(environments, np.ones(2), nodes) for nodes in (5000, 20))
    assert small.deviation > 0.5
    assert large.deviation < small.deviation


def test_views_are_measured_in_their_own_units():
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    np.testing.assert_allclose(distances([one, other]), distances([100.0 * one, other]))
    constant = np.ones((5, 1))
    assert not distances([constant]).any()
