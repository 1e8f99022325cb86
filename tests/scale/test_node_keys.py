"""Keys on shards are those in memory, and hashes of them are normal numbers."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from graphtemper import csbm
from graphtemper.scale import Serial, convert_graph, node_keys
from graphtemper.scale.storage.workspace import open_workspace
from graphtemper.signals.passes import mixed
from graphtemper.signals.passes import node_keys as keys_in_memory


def features(kind, graph):
    if kind == "different":
        return graph.features
    if kind == "sparse":
        return sp.csr_matrix(np.where(np.abs(graph.features) > 1.0, graph.features, 0.0))
    if kind == "few":  # neighbours tell most of these apart
        return (graph.features[:, :1] > 0.0).astype(np.float32)
    return np.ones((graph.num_nodes, 1), np.float32)


@pytest.mark.parametrize("kind", ["different", "sparse", "few", "none"])
def test_keys_are_those_in_memory(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(node_keys, "VALUES_AT_ONCE", 100)  # seven ranges of keys
    graph = csbm.sample(700, 2, 0.7, 1.0, num_features=5, seed=1).replace(labels=None)
    graph = graph.replace(features=features(kind, graph))
    sharded = convert_graph(graph, tmp_path / "g", rows_per_shard=250)
    with open_workspace(tmp_path / "stages", 700) as workspace:
        found = np.array(node_keys.node_keys(Serial(), sharded, workspace).open()[:, 0])
    np.testing.assert_array_equal(found, keys_in_memory(graph))
    assert np.unique(found).size == 700


def test_hashes_are_independent_normal_numbers():
    keys = mixed(np.arange(50_000, dtype=np.uint64))
    draws = np.hstack([node_keys.normals(keys, 3, np.uint64(salt)) for salt in (1, 2)])
    assert draws.dtype == np.float32
    for column in draws.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    most = 4.5 / np.sqrt(keys.size)
    for values in (draws, draws**2):
        assert np.abs(np.corrcoef(values.T) - np.eye(6)).max() < most
    assert abs((draws[1:] * draws[:-1]).mean()) < most
    np.testing.assert_array_equal(
        draws[100:200, 3:], node_keys.normals(keys[100:200], 3, np.uint64(2))
    )
