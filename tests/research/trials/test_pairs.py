"""Pairs of graphs: countries, elections, years."""

from dataclasses import replace

import numpy as np
from tests.helpers import raises

from graphtemper import csbm
from graphtemper_research.trials import pairs
from graphtemper_research.trials.pairs import Pair
from graphtemper_research.trials.trial import halves


def sample(seed):
    return csbm.sample(200, degree=6, homophily=0.8, snr=1.5, num_features=5, seed=seed)


def test_every_ordered_pair_once():
    assert len(pairs.PAIRS) == 7 * 6 + 3 * 2 + 1 + 2
    assert len(set(pairs.PAIRS)) == len(pairs.PAIRS)
    assert {pair.target for pair in pairs.PAIRS if pair.in_time} == {"pubmed", "imdb_years"}
    assert [pair.source for pair in pairs.PAIRS if pair.same_nodes] == ["county_2012"]
    assert pairs.GROUPS == ("twitch", "airports", "counties", "time")


def test_early_and_later_do_not_meet_and_leave_unknown_times_out():
    time = np.concatenate([np.zeros(50, int), np.repeat([1990, 2000, 2010], 50)])
    graph = sample(3).replace(time=time)
    assert sorted(set(pairs.early(graph).time.tolist())) == [1990, 2000]
    assert (time[pairs.later(graph)] == 2010).all()
    assert pairs.later(graph).size == 50
    with raises("empty"):
        pairs.early(graph.replace(time=np.zeros(200, int)))


def test_the_same_counties_are_not_trained_on_and_scored(tmp_path):
    graph = sample(1)
    graph.save(tmp_path / "later.npz")
    train, val = halves(graph, 1)
    pair = Pair("counties", "x", str(tmp_path / "later.npz"), same_nodes=True)
    ((_, _, nodes),) = pairs.destinations([pair], graph, train)
    assert nodes.tolist() == sorted(val)
    ((_, _, nodes),) = pairs.destinations([replace(pair, same_nodes=False)], graph, train)
    assert nodes.size == 200


def test_odd_requests():
    with raises("choice"):
        pairs.choose(pairs.PAIRS, ["mars"])
    with raises("empty"):
        pairs.choose([Pair("a", "nowhere.npz", "nowhere.npz")], None)
