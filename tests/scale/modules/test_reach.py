"""How far a model reads is found where it depends on the node, and never understated in silence."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import Graph, SourceCard, recalibrate
from graphtemper.errors import InputError
from graphtemper.graph.operators import adjacency
from graphtemper.models.predictor import predict
from graphtemper.scale import convert_graph, recalibrate_shards
from graphtemper.scale.modules.reach import Module, find_reach
from graphtemper.signals import receptive_field
from graphtemper.signals.graph_parts import Reach
from graphtemper.signals.observation import Observation

from .conftest import FEW, read_probabilities

pytest.importorskip("pyarrow")
GATE = 2.2


def gated(graph):
    """Reads one edge far, and three where a feature opens a gate: at some 1.5 % of the nodes."""
    near, x = adjacency(graph), graph.features[:, :3].astype(np.float64)
    one = near @ x
    return x + one + (graph.features[:, [7]] > GATE) * (near @ (near @ one))


def test_a_gate_that_few_nodes_open(target):
    module = Module(target.sharded, gated, 0)
    assert find_reach(module, None) == Reach(3, padded=False)
    with pytest.raises(InputError):
        find_reach(module, 1)


def test_a_gate_that_few_nodes_open_in_memory(target, monkeypatch):
    monkeypatch.setattr(receptive_field, "SMALL", 1000)
    logits = predict(gated, target.graph)
    for seed in range(3):
        observation = Observation(gated, target.graph, seed=seed, logits=logits)
        found = receptive_field.draw(observation)
        assert found.depth == 3
        np.testing.assert_allclose(found.observation.logits, logits[found.nodes], atol=1e-4)


def test_the_logits_behind_a_gate_are_those_of_the_whole_graph(source, target, tmp_path):
    card = SourceCard.build(gated, source, shifts=FEW, compositions=0)
    result = recalibrate_shards(gated, target.sharded, card, tmp_path / "out")
    logits = predict(gated, target.graph)
    whole = recalibrate(gated, target.graph, card, logits=logits)
    np.testing.assert_allclose(result.mean_confidence[0], whole.mean_confidence[0], atol=1e-6)
    scaled = np.exp((logits - logits.max(axis=1, keepdims=True)) / result.temperature)
    expected = scaled / scaled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(read_probabilities(result.out), expected, atol=1e-6)


def two_steps(graph):
    """Reads what is exactly two edges away, twice: nothing at three edges, but at four."""
    near = adjacency(graph)
    steps = sp.csr_matrix(near @ near)
    steps.setdiag(0)
    steps.data[:] = np.minimum(steps.data, 1.0)
    x = graph.features.astype(np.float64)
    return x + steps @ (steps @ x)


def test_a_model_that_skips_an_edge(tmp_path, monkeypatch):
    features = np.random.default_rng(0).standard_normal((5000, 2)).astype(np.float32)
    ring = np.column_stack([np.arange(5000), np.roll(np.arange(5000), -1)])
    sharded = convert_graph(Graph(features=features, edges=ring), tmp_path / "g")
    monkeypatch.setattr(receptive_field, "SIZES", (50,))
    module = Module(sharded, two_steps, 0)
    assert find_reach(module, None) == Reach(4, padded=False)
