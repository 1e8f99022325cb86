"""The benchmark of natural families: its tasks by seed."""

import numpy as np
import pytest
from tests.helpers import block_model, raises

from graphtemper_research.trials import natural_families
from graphtemper_research.trials.natural_families import Family, task


@pytest.fixture
def families(tmp_path, monkeypatch):
    names = [str(tmp_path / f"place_{number}.npz") for number in range(2)]
    for number, name in enumerate(names):
        block_model(number, num_nodes=200).save(name)
    pair = (Family("same", tuple(names), same_nodes=True), Family("other", tuple(names)))
    monkeypatch.setattr(natural_families, "FAMILIES", pair)
    return names


def test_a_task_splits_by_seed_and_scores_no_node_that_was_trained_on(families):
    one, again, other = (task("same", *families, seed=seed) for seed in (1, 1, 2))
    assert one.train.tolist() == again.train.tolist() != other.train.tolist()
    assert np.intersect1d(one.train, one.card).size == 0
    assert one.train.size + one.card.size == one.source.num_nodes
    assert np.intersect1d(one.train, one.scored).size == 0
    assert task("other", *families).scored.size == 200


def test_large_environments_are_sampled_by_seed(families, monkeypatch):
    monkeypatch.setattr(natural_families, "MOST_NODES", 50)
    one, two, other = (task("other", *families, seed=seed).scored for seed in (1, 1, 2))
    assert one.size == np.unique(one).size == 50
    assert one.tolist() == two.tolist() != other.tolist()


def test_unknown_names_are_refused_with_the_known_ones(families):
    with raises("choice"):
        task("moon", *families)
    with raises("choice"):
        task("same", families[0], "mars")
