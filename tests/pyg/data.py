"""PyG data of every kind that a user may have, drawn anew by each call."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

from torch.nn import Dropout, Linear, ReLU, Sequential  # noqa: E402
from torch_geometric.nn import models  # noqa: E402
from torch_geometric.transforms import AddSelfLoops  # noqa: E402

from graphtemper import csbm  # noqa: E402

FEATURES, CLASSES = 6, 3


def model(name, **options):
    return getattr(models, name)(FEATURES, 16, num_layers=2, out_channels=CLASSES, **options)


def mlp(*last):
    return Sequential(Linear(FEATURES, 8), ReLU(), Dropout(0.5), Linear(8, CLASSES), *last)


def plain():
    return csbm.sample(
        200, degree=6, homophily=0.8, snr=1.0, num_classes=CLASSES, num_features=FEATURES, seed=0
    ).to_pyg()


def directed():
    data = plain()
    data.edge_index = data.edge_index[:, torch.rand(data.num_edges) < 0.6]
    return data


def weighted(symmetric=False):
    data = plain()
    data.edge_weight = 0.1 + 3.0 * torch.rand(data.num_edges)
    if symmetric:  # to_pyg lists one direction of every edge, then the other
        half = data.num_edges // 2
        data.edge_weight = data.edge_weight[:half].repeat(2)
    return data


def attributed():
    data = directed()
    data.edge_attr = torch.randn(data.num_edges, 2)
    return data


def coded():
    data = directed()
    data.edge_attr = torch.randint(4, (data.num_edges,))
    return data


def looped():
    return AddSelfLoops()(plain())


def some_loops():
    data = plain()
    data.edge_index = torch.cat([data.edge_index, torch.arange(7).repeat(2, 1)], dim=1)
    return data


def repeated():
    data = plain()
    data.edge_index = torch.cat([data.edge_index, data.edge_index[:, :200]], dim=1)
    return data
