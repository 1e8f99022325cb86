"""The attacks on cards succeed where a card says too much, and fail on default cards."""

from dataclasses import replace

import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.signals.second_opinion import SecondOpinion, sketch_weights
from graphtemper_research.trials import card_attacks
from graphtemper_research.trials.card_attacks import BENCH, BLOCK, Victim, named, recovered

OTHER, OWN = "other labels", "own labels"


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(1500, degree=6, homophily=0.7, snr=0.6, num_features=100, seed=0)


def exposed(victim):
    """Return the victim with a second opinion of 64 sums that is fitted to all other labels."""
    probe = victim.card.probe
    sums = victim.graph.features @ sketch_weights(probe.column_std, probe.seed)
    labels = victim.labels(victim.other)
    second = SecondOpinion.fit(sums[victim.other], labels, victim.graph.num_classes)
    return replace(victim, card=replace(victim.card, probe=replace(probe, second=second)))


def test_the_attacker_computes_the_sums_of_the_card(graph):
    victim = Victim.draw(graph, 200, 0, 1)
    probe, nodes = victim.card.probe, victim.other
    sums = graph.features[nodes] @ sketch_weights(probe.column_std, probe.seed)
    count = len(probe.second.weights) - 1
    np.testing.assert_allclose(victim.sums(nodes)[:, :-1], sums[:, :count], atol=1e-4)


def test_coefficients_of_many_sums_give_labels_and_rare_members_away(graph, monkeypatch):
    monkeypatch.setattr(card_attacks, "FITTED", 1.0)
    assert recovered(exposed(Victim.draw(graph, 100, 0, 1)), OTHER)["gain"] > 0.1
    row = named(exposed(Victim.draw(graph, 200, 3, 1)), OTHER, 3)
    assert row["named"] >= 2.0 > row["chance"]


@pytest.mark.parametrize("size", [60, 100, 200, 300])
def test_default_cards_do_not(graph, size):
    gains = [recovered(Victim.draw(graph, size, 0, seed), OTHER)["gain"] for seed in (1, 2)]
    assert np.mean(gains) <= 0.04
    hits = [
        named(Victim.draw(graph, size, 4, seed), part, 4)
        for seed in (1, 2)
        for part in (OTHER, OWN)
    ]
    assert sum(row["named"] for row in hits) <= 3.0


def test_the_bench_runs(tmp_path, quick):
    outcome = quick(BENCH, tmp_path, [BLOCK])
    assert {row["part"] for row in outcome.rows} == {OTHER, OWN}
    assert {row["rare"] for row in outcome.rows} == {0, *card_attacks.QUICK_RARE}
    assert "## Rare members" in BENCH.page(outcome.to_dict())
