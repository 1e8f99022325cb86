"""The attacks of SECURITY.md succeed where they should, and fail where they should."""

import pytest

from graphtemper import csbm
from graphtemper_research.trials.card_attacks import Victim

FEW = {"noise": (0.2, 0.5, 1.0, 1.5, 2.0), "mask": (0.2, 0.4, 0.6), "rewire": (0.3, 0.6)}


@pytest.fixture(scope="module")
def victim():
    graph = csbm.sample(800, degree=5, homophily=0.7, snr=0.8, num_features=16, seed=1)
    return Victim.draw(graph, 60, None, shifts=FEW, compositions=30)


def test_labels_are_recovered_if_the_draws_are_known_and_not_without(victim):
    guessed = victim.guess()
    assert victim.recovered(known=True) > guessed + 0.05
    assert victim.recovered(known=False) < guessed + 0.1


def test_members_are_recognised_by_feature_means(victim):
    by_logits, by_features = victim.membership()
    assert 0.45 < by_logits < 0.7
    assert 0.55 < by_features < 0.9
