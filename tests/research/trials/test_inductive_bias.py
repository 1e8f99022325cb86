import json

import numpy as np

from graphtemper_research.trials import inductive_bias


def test_a_graph_without_its_training_nodes_is_no_stand_in_for_a_new_one():
    """Fewer neighbours change the temperature by more than what the neighbours were taught."""
    found = [
        inductive_bias.biases("SIGN", seed, num_nodes=1500, num_features=20, share=0.5)
        for seed in range(4)
    ]
    mean = {way: np.mean([item[way] for item in found], axis=0) for way in inductive_bias.WAYS}
    assert abs(mean["plain"][0]) < 0.02
    assert abs(mean["plain"][1]) < 0.15
    assert mean["cut"][1] > 0.2
    assert mean["cut"][0] < mean["plain"][0] - 0.01
    # The temperature that is too high costs calibration on the new graph.
    assert mean["cut"][2] > mean["plain"][2] + 0.02


def test_features_are_swapped_at_training_nodes_within_their_class(monkeypatch):
    graph = inductive_bias._drawn(200, 5, 0)
    train, others = np.arange(80), np.arange(80, 200)
    swapped = inductive_bias.swapped(graph, train, others, np.random.default_rng(0))
    np.testing.assert_array_equal(swapped.features[others], graph.features[others])
    for node in train[:10]:
        (origin,) = np.flatnonzero((graph.features == swapped.features[node]).all(axis=1))
        assert origin in others
        assert graph.labels[origin] == graph.labels[node]


def test_a_line_per_way(capsys):
    inductive_bias.main(["SIGN", "2"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["way"] for row in rows] == list(inductive_bias.WAYS)
