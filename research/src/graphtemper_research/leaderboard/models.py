"""The models to calibrate: SIGN, SGC, a GCN, and modules of PyG's layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from graphtemper.errors import require
from graphtemper.graph import Graph, Nodes, select_labelled
from graphtemper.models import SGC, Predictor
from graphtemper_research.trials import trial

EPOCHS, LR, WEIGHT_DECAY = 200, 0.01, 5e-4
# Names of `backbones.BACKBONES`, which is imported when torch is needed.
TORCH_MODELS = ("GAT", "GraphSAGE", "APPNP", "FAGCN", "A-DGN")
USUAL = ("SIGN", "GCN", "GraphSAGE", "SGC", "APPNP")
"""The models that the leaderboard measures unless others are named."""


class Trainable(Protocol):
    """Something that becomes a frozen predictor by training."""

    def fit(self, graph: Graph, nodes: Nodes = None) -> Predictor:
        """Train on some labelled nodes."""
        ...


@dataclass(frozen=True)
class PygNet:
    """A module of `backbones.BACKBONES`, trained on the whole graph with Adam.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4, seed=0)
    >>> PygNet("GraphSAGE", seed=1, epochs=3).fit(g, range(100))(g).shape
    (200, 2)
    """

    name: str
    seed: int
    epochs: int = EPOCHS

    def fit(self, graph: Graph, nodes: Nodes = None) -> Predictor:
        """Train on some labelled nodes; the same seed gives the same weights."""
        require("pyg", self.name, "torch", "torch_geometric")
        import torch

        from graphtemper.calibrators.training import threads_for
        from graphtemper.pyg import predictor
        from graphtemper_research.leaderboard.backbones import BACKBONES, HIDDEN

        rows, labels = (torch.from_numpy(part) for part in select_labelled(graph, nodes))
        data = graph.replace(labels=None).to_pyg()
        with torch.random.fork_rng(devices=[]), threads_for(graph.num_nodes * HIDDEN):
            torch.manual_seed(self.seed)
            net = BACKBONES[self.name](graph.num_features, graph.num_classes)
            optimiser = torch.optim.Adam(net.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
            for _ in range(self.epochs):
                optimiser.zero_grad()
                logits = net(data.x, data.edge_index)[rows]
                loss: Any = torch.nn.functional.cross_entropy(logits, labels)
                loss.backward()
                optimiser.step()
        return predictor(net)


def _pyg(name: str) -> Callable[[int], Trainable]:
    return lambda seed: PygNet(name, seed)


MODELS: dict[str, Callable[[int], Trainable]] = {
    **trial.MODELS,
    "SGC": lambda seed: SGC(hops=2, C=1.0, tol=1e-4),
    **{name: _pyg(name) for name in TORCH_MODELS},
}
