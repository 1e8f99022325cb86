"""Answers on shards do not depend on the numbers of nodes or the order of edges."""

import numpy as np
import pytest

from graphtemper import Graph, SourceCard, csbm, recalibrate, shifts
from graphtemper.models import SIGN
from graphtemper.scale import convert_graph, recalibrate_shards

FEW = {"noise": (0.5, 1.5), "rewire": (0.2, 0.6), "drop": (0.5,)}


def _sample(size, seed, homophily=0.8):
    return csbm.sample(size, 6, homophily, 1.0, num_classes=3, num_features=6, seed=seed)


def _turned(graph, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    edges = rng.permutation(np.argsort(order)[graph.edges])
    return Graph(features=graph.features[order], edges=edges[:, ::-1])


@pytest.fixture(scope="module", params=[1, 2], ids=["one hop", "two hops"])
def used(request):
    source = _sample(300, 1)
    model = SIGN(hops=request.param).fit(source, range(150))
    nodes = np.arange(150, 300)
    return model, SourceCard.build(model, source, nodes, compositions=0, shifts=FEW)


@pytest.mark.parametrize(("size", "most"), [(300, 0.003), (3000, 0.001)])
def test_renumbered_nodes_have_the_same_answer(used, size, most, tmp_path):
    model, card = used
    target = shifts.noise(0.4)(_sample(size, 51, 0.7), 3).replace(labels=None)
    answers = []
    for number, graph in enumerate([target, _turned(target, 1)]):
        shards = convert_graph(graph, tmp_path / f"g{number}", rows_per_shard=size // 3 + 7)
        answers.append(recalibrate_shards(model, shards, card, tmp_path / f"out{number}"))
    one, two = answers
    assert two.accuracy.value == pytest.approx(one.accuracy.value, abs=most / 100)
    assert two.accuracy.low == pytest.approx(one.accuracy.low, abs=most / 100)
    assert two.verdict == one.verdict
    expected = recalibrate(model, target, card)
    assert one.accuracy.value == pytest.approx(expected.accuracy.value, abs=1e-6)
