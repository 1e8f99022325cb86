"""Targets with new class shares."""

import numpy as np
import pytest

from graphtemper_research.trials.share_targets import FEWEST_TARGET_NODES, resampled


@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_stronger_targets_have_newer_shares_and_enough_nodes(strength):
    labels = np.random.default_rng(0).integers(4, size=2000)
    nodes = np.arange(500, 2000)
    drawn = [resampled(labels, nodes, strength, seed) for seed in range(20)]
    moved = []
    for chosen in drawn:
        assert np.isin(chosen, nodes).all()
        assert chosen.size == np.unique(chosen).size >= FEWEST_TARGET_NODES
        moved.append(np.abs(np.bincount(labels[chosen], minlength=4) / chosen.size - 0.25).sum())
    assert (np.mean(moved) > 0.7) == (strength == 2.0)
    assert (resampled(labels, nodes, strength, 3) == drawn[3]).all()
    assert resampled(labels, nodes, 0.0, 3).size == 1000
