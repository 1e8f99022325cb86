"""Blocks of nodes whose neighbourhoods are large: bounded in rows, edges and memory."""

import sys

import numpy as np
import pytest
from tests.helpers import needs, run_alone

from graphtemper import Graph
from graphtemper.errors import InputError
from graphtemper.graph.operators import adjacency
from graphtemper.scale import convert_graph, recalibrate_shards
from graphtemper.scale.modules import sharded_fields
from graphtemper.scale.modules.reach import Module
from graphtemper.scale.modules.sharded_fields import ShardedWhole
from graphtemper.scale.modules.stored_logits import StoredLogits, compute_shard
from graphtemper.signals.graph_parts import Field, Reach

pytest.importorskip("pyarrow")
MOST = 9000


class Watched:
    """A model that notes the sizes of the graphs it runs on."""

    def __init__(self, model):
        self.model, self.sizes = model, []

    def __call__(self, graph):
        self.sizes.append((graph.num_nodes, graph.num_edges))
        return self.model(graph)


def neighbours(graph):
    return adjacency(graph) @ graph.features[:, :3].astype(np.float64)


def with_hubs(graph, hubs, leaves):
    """The graph with its first nodes linked to so many others each, as in a power law."""
    rng, others = np.random.default_rng(1), np.arange(hubs, graph.num_nodes)
    ends = np.concatenate([rng.choice(others, leaves, replace=False) for _ in range(hubs)])
    links = np.column_stack([np.repeat(np.arange(hubs), leaves), ends])
    return Graph(features=graph.features, edges=np.vstack([graph.edges, links]))


def test_blocks_around_hubs_are_bounded(target, tmp_path, monkeypatch):
    # Forty hubs in the first block, of 17,000 neighbours together.
    graph = with_hubs(target.graph, 40, 500)
    sharded = convert_graph(graph, tmp_path / "g", rows_per_shard=25_000)
    reach = Reach(1, padded=False)
    together = Field.of(ShardedWhole(sharded), np.arange(1024), reach)
    assert together.graph.num_nodes > 1.5 * MOST
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", MOST)
    monkeypatch.setattr(sharded_fields, "MOST_LINKS", 3 * MOST)
    monkeypatch.setattr(sharded_fields, "MOST_VALUES", 4 * MOST)
    model = Watched(neighbours)
    stored = StoredLogits(sharded, 3, tmp_path)
    for shard in range(3):
        compute_shard(shard, module=Module(sharded, model, 0), reach=reach, stored=stored)
    logits = stored.at(np.arange(graph.num_nodes))
    np.testing.assert_array_equal(stored.classes(), logits.argmax(axis=1))
    np.testing.assert_allclose(logits, neighbours(graph), atol=1e-4)
    rows, edges = np.max(model.sizes, axis=0)
    assert rows <= MOST / 2  # 8 values per row
    assert edges <= 2 * MOST  # and 16 per edge
    # Small blocks are run around hubs only.
    assert len(model.sizes) < 150


def test_a_node_whose_neighbourhood_is_most_of_the_graph_is_refused(
    called, target, tmp_path, monkeypatch
):
    graph = with_hubs(target.graph, 1, 20_000)
    sharded = convert_graph(graph, tmp_path / "g", rows_per_shard=25_000)
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", 12_000)
    with pytest.raises(InputError):
        recalibrate_shards(called.model, sharded, called.card, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_empty_nodes_that_stand_for_outer_degrees_are_counted(target, tmp_path, monkeypatch):
    graph = with_hubs(target.graph, 1, 20_000)
    whole = ShardedWhole(convert_graph(graph, tmp_path / "g"))
    leaf = graph.edges[-1, 1:]
    assert Field.of(whole, leaf, Reach(1, padded=True)).graph.num_nodes > 19_000
    monkeypatch.setattr(sharded_fields, "MOST_ROWS", 12_000)
    narrow = ShardedWhole(whole.graph)
    assert Field.of(narrow, leaf, Reach(1, padded=False)) is not None
    assert Field.of(narrow, leaf, Reach(1, padded=True)) is None


LIMIT = 336 << 20
"""Bytes of private memory; an idle interpreter with NumPy, SciPy and pyarrow uses half of it."""
NODES, COLUMNS = 8000, 12_288
JOB = """
import resource, sys
from pathlib import Path
import numpy as np
from graphtemper.graph.operators import adjacency
from graphtemper.scale import ShardedGraph
from graphtemper.scale.modules import sharded_fields
from graphtemper.scale.modules.reach import Module
from graphtemper.scale.modules.stored_logits import StoredLogits, compute_shard
from graphtemper.signals.graph_parts import Reach

def model(graph):
    return adjacency(graph) @ graph.features[:, ::4096].astype(float)

most, limit, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
sharded_fields.MOST_VALUES = most
graph = ShardedGraph.open(folder + "/g")
stored = StoredLogits(graph, 3, Path(folder))
for shard in range(len(stored)):
    module = Module(graph, model, 0)
    compute_shard(shard, module=module, reach=Reach(1, False), stored=stored)
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Dense features of more than the limit on disk, and hubs of 380 neighbours each."""
    needs("resource")
    folder = tmp_path_factory.mktemp("wide")
    features = np.zeros((NODES, COLUMNS), np.float32)
    assert features.nbytes > LIMIT
    features[:, ::4096] = np.random.default_rng(0).standard_normal((NODES, 3))
    blank = Graph(features=features, edges=np.empty((0, 2), int))
    graph = with_hubs(blank, 20, 380)
    convert_graph(graph, folder / "g", rows_per_shard=4000)
    return folder, graph.replace(features=features[:, ::4096])


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mapped memory on Linux")
def test_modules_within_less_memory_than_the_features_take(wide):
    folder, graph = wide
    unbounded = run_alone(JOB, sharded_fields.MOST_VALUES, LIMIT, folder)
    assert "MemoryError" in unbounded.stderr  # the limit is effective
    bounded = run_alone(JOB, 500 * COLUMNS, LIMIT, folder)
    assert bounded.returncode == 0, bounded.stderr
    logits = np.concatenate([np.load(folder / f"logits-{shard}.npy") for shard in range(2)])
    np.testing.assert_allclose(logits, neighbours(graph), atol=1e-4)
