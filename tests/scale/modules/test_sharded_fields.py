"""Neighbourhoods that are read from shards are those of the graph in memory."""

import numpy as np
import pytest
import scipy.sparse as sp

from graphtemper import csbm
from graphtemper.errors import FileError
from graphtemper.scale import convert_graph
from graphtemper.scale.modules import sharded_fields
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.signals.graph_parts import Field, InMemory, Reach
from graphtemper.signals.observation import Observation


@pytest.fixture(scope="module", params=["dense", "sparse"])
def pair(request, tmp_path_factory):
    graph = csbm.sample(900, 4, 0.7, 1.0, num_features=5, seed=1).replace(labels=None)
    if request.param == "sparse":
        words = np.where(np.abs(graph.features) > 1.0, graph.features, 0.0)
        graph = graph.replace(features=sp.csr_matrix(words))
    sharded = convert_graph(graph, tmp_path_factory.mktemp("g") / "g", rows_per_shard=250)
    return InMemory(Observation(np.zeros((900, 2)), graph)), ShardedWhole(sharded)


def test_neighbours_degrees_and_balls(pair):
    memory, disk = pair
    nodes = np.random.default_rng(0).permutation(900)[:300]
    np.testing.assert_array_equal(disk.degrees(nodes), memory.degrees(nodes))
    for one, other in zip(disk.near(nodes), memory.near(nodes), strict=True):
        np.testing.assert_array_equal(one, other)
    for radius in range(4):
        np.testing.assert_array_equal(disk.ball(nodes[:5], radius), memory.ball(nodes[:5], radius))
    assert disk.near(np.empty(0, np.int64))[0].size == 0


@pytest.mark.parametrize("padded", [False, True])
def test_fields_are_equal(pair, padded):
    nodes = np.array([3, 248, 249, 250, 777])
    memory, disk = (Field.of(whole, nodes, Reach(2, padded)) for whole in pair)
    np.testing.assert_array_equal(disk.nodes, memory.nodes)
    np.testing.assert_array_equal(disk.graph.edges, memory.graph.edges)
    one, other = (
        x if isinstance(x, np.ndarray) else x.toarray()
        for x in (disk.graph.features, memory.graph.features)
    )
    np.testing.assert_array_equal(one, other)


def test_large_parts_are_not_read(pair, monkeypatch):
    _, disk = pair
    nodes = np.arange(60)
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", 200)
    limited = ShardedWhole(disk.graph)
    assert limited.ball(nodes, 2) is None
    assert Field.of(limited, nodes, Reach(2, padded=False)) is None
    assert limited.ball(nodes[:1], 1) is not None
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", 900)
    monkeypatch.setattr(sharded_fields, "MOST_LINKS", 600)
    narrow = ShardedWhole(disk.graph)
    # Outer degrees count as links only where they are needed.
    assert Field.of(narrow, nodes, Reach(1, padded=False)) is not None
    assert Field.of(narrow, nodes, Reach(1, padded=True)) is None
    monkeypatch.setattr(sharded_fields, "MOST_VALUES", 5 * 100)
    assert narrow.readable(100, 0)
    assert not narrow.readable(101, 0)


def test_a_neighbour_that_is_no_node_is_refused(tmp_path):
    graph = csbm.sample(200, 4, 0.7, 1.0, num_features=5, seed=1)
    sharded = convert_graph(graph, tmp_path / "g")
    path = tmp_path / "g" / "shard-00000" / "indices.npy"
    indices = np.load(path)
    indices[0] = 5000
    np.save(path, indices)
    with pytest.raises(FileError):
        ShardedWhole(sharded).near(np.arange(200))
