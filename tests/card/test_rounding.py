"""Rounding: no more digits than the sample supports, and no bias."""

import numpy as np
import pytest

from graphtemper.card.build import _threshold
from graphtemper.card.rounding import coarse, coarse_quantile, coarse_share, rounded_counts
from graphtemper.signals.pointwise import atc_share, atc_threshold


def test_rounding_is_between_a_half_and_a_whole_standard_error():
    rng = np.random.default_rng(4)
    values, errors = rng.standard_normal(5000), 10.0 ** rng.uniform(-4, 1, 5000)
    missed = np.abs(coarse(values, errors) - values) / errors
    assert missed.max() <= 0.5
    assert missed[errors < 0.1].max() > 0.25
    assert 0.1 < missed[errors < 0.1].mean() < 0.25
    assert coarse(3.21, 0.0) == 3.21
    assert coarse_share(1.0, 100) == 1.0


def test_a_quantile_is_no_nodes_value_unless_many_share_it():
    values = np.sort(np.random.default_rng(5).random(300))
    exact = float(np.quantile(values, 0.3))
    stored = coarse_quantile(values, exact, 0.3)
    assert np.abs(values - stored).min() > 1e-6
    assert abs(stored - exact) < 0.03
    assert coarse_quantile(np.ones(300), 1.0, 0.3) == 1.0


@pytest.mark.parametrize("accuracy", [0.1, 0.3, 0.6, 0.9, 0.98])
def test_a_rounded_threshold_leaves_as_many_scores_above_as_an_exact_one(accuracy):
    """Skewed scores of fifty nodes, most of them small and a few near one."""
    for seed in range(40):
        scores = np.random.default_rng(seed).beta(0.4, 3.0, 50) ** 3
        exact = atc_threshold(scores, accuracy)
        stored = _threshold(scores, accuracy)
        missed = abs(atc_share(scores, stored) - atc_share(scores, exact))
        assert stored <= scores.max()
        assert missed <= (accuracy * (1 - accuracy) / 50) ** 0.5 + 2 / 50


def test_counts_are_rounded_without_bias():
    rng = np.random.default_rng(6)
    for count in (1, 2, 5, 40, 1000):
        found = rounded_counts(np.full(20_000, count), rng)
        assert len(np.unique(found)) <= 2
        assert (found % max(int(count**0.5), 3) == 0).all()
        assert abs(found.mean() / count - 1.0) < 0.03
    assert rounded_counts(np.zeros(5, np.int64), rng).tolist() == [0] * 5
