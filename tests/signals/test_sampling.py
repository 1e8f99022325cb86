"""Samples by content: their shares, and every neighbour alike."""

import numpy as np

from graphtemper.signals import sampling
from graphtemper._core.reproducible import mixed

KEYS = mixed(np.arange(400, dtype=np.uint64))


def test_strata_are_taken_in_proportion_whatever_the_start():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 30, 12)
        size = int(rng.integers(1, counts.sum() + 1))
        take = sampling.allocated(counts, size, rng.random())
        assert take.sum() == size
        assert (take >= 0).all()
        assert (take <= counts).all()
        assert np.abs(take - counts * size / counts.sum()).max() < 1.0


def test_the_expected_numbers_are_proportional():
    counts = np.array([3, 1, 6])
    starts = (np.arange(1000) + 0.5) / 1000
    mean = np.mean([sampling.allocated(counts, 4, start) for start in starts], axis=0)
    np.testing.assert_allclose(mean, counts * 0.4, atol=2e-3)


def test_a_changed_stratum_leaves_the_others_as_they_are():
    groups = np.repeat([0, 1, 2, 3], 100)
    take = np.array([5, 5, 5, 5])
    before = sampling.lowest(groups, KEYS, take)
    moved = groups.copy()
    moved[np.argmax(KEYS[:100])] = 1  # one that is not taken
    assert set(sampling.lowest(moved, KEYS, take)) == set(before)


def test_every_neighbour_is_as_likely():
    counts = np.array([1, 0, 4, 5])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    found = np.zeros(10)
    for salt in mixed(np.arange(4000, dtype=np.uint64)):
        positions = sampling.partners(indptr, KEYS[:4], KEYS[10:20], salt)
        assert positions.size == 3
        found[positions] += 1
    np.testing.assert_allclose(found / 4000, np.repeat([1.0, 0.25, 0.2], [1, 4, 5]), atol=0.03)
