"""PyTorch Geometric's own networks, trained as a user would train them and wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphtemper.graph import Graph, Nodes, select_labelled

if TYPE_CHECKING:
    from graphtemper.pyg import Predictor

EPOCHS = 100
LAYERS = {"PyG-GCN": "GCN", "PyG-GAT": "GAT", "PyG-SAGE": "GraphSAGE"}
"""Names in the trials, and in ``torch_geometric.nn.models``."""


@dataclass(frozen=True)
class Module:
    """A network of two layers with 64 hidden units, not trained yet."""

    name: str
    seed: int

    def fit(self, graph: Graph, nodes: Nodes = None) -> Predictor:
        """Train on some labelled nodes and return the wrapped module."""
        import torch
        from torch_geometric.nn import models

        from graphtemper.pyg import predictor

        torch.manual_seed(self.seed)
        make = getattr(models, LAYERS[self.name])
        net = make(graph.num_features, 64, 2, graph.num_classes, dropout=0.5)
        data, rows = graph.to_pyg(), torch.from_numpy(select_labelled(graph, nodes)[0])
        optimiser = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(EPOCHS):
            optimiser.zero_grad()
            logits = net(data.x, data.edge_index)[rows]
            torch.nn.functional.cross_entropy(logits, data.y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return predictor(net.eval())
