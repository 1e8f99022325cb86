from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.models import SIGN
from graphtemper.scale import convert_graph, recalibration

FEW = {"noise": (0.5, 1.5), "drop": (0.5,), "rewire": (0.3, 0.7), "scale": (0.5,)}


@pytest.fixture(autouse=True)
def _small_graphs_are_large(monkeypatch):
    """No graph is loaded whole."""
    monkeypatch.setattr(recalibration, "is_loadable", lambda graph: False)


def sample(num_nodes, degree, homophily, seed):
    return csbm.sample(num_nodes, degree, homophily, 1.0, num_classes=3, num_features=8, seed=seed)


class Called:
    """A model that counts the rows it computes."""

    def __init__(self, model):
        self.model, self.rows = model, 0

    def __call__(self, graph):
        self.rows += graph.num_nodes
        return self.model(graph)


@pytest.fixture(scope="session")
def source():
    return sample(900, 4, 0.8, 1)


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    """A sparse target in memory and in three shards: fields of 1,000 nodes are a part of it."""
    graph = sample(60_000, 2, 0.7, 2).replace(labels=None)
    sharded = convert_graph(graph, tmp_path_factory.mktemp("g") / "g", rows_per_shard=25_000)
    return SimpleNamespace(graph=graph, sharded=sharded)


@pytest.fixture(scope="session")
def called(source):
    """A model that counts, and its card."""
    model = Called(SIGN(hops=1).fit(source, range(400)))
    card = SourceCard.build(model, source, range(400, 900), shifts=FEW, compositions=0)
    return SimpleNamespace(model=model, card=card)


@pytest.fixture(scope="session", params=["GCN", "GraphSAGE"])
def network(request, source):
    """A trained two-layer PyG module, and its card."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torch_geometric.nn.models")
    from graphtemper.pyg import predictor

    torch.manual_seed(0)
    net, data = getattr(models, request.param)(8, 16, 2, 3), source.to_pyg()
    steps = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(60):
        steps.zero_grad()
        out = net(data.x, data.edge_index)[:400]
        torch.nn.functional.cross_entropy(out, data.y[:400]).backward()
        steps.step()
    model = predictor(net)
    card = SourceCard.build(model, source, range(400, 900), shifts=FEW, compositions=0)
    return SimpleNamespace(model=model, card=card)


def read_probabilities(out, classes=3):
    import pyarrow.parquet as pq

    table = pq.read_table(out)
    return np.column_stack([table[f"probability_{k}"].to_numpy() for k in range(classes)])
