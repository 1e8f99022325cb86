"""The torch backbones of the leaderboard, each a small module with common settings."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import APPNP, AntiSymmetricConv, FAConv, models

HIDDEN, DROPOUT = 64, 0.5


class APPNPNet(nn.Module):
    """A perceptron whose logits are spread by personalised PageRank (Gasteiger et al., 2019)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(in_channels, HIDDEN), nn.Linear(HIDDEN, out_channels)
        self.spread = APPNP(K=10, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits."""
        hidden = self.first(functional.dropout(x, DROPOUT, self.training)).relu()
        logits = self.second(functional.dropout(hidden, DROPOUT, self.training))
        spread: Tensor = self.spread(logits, edge_index)
        return spread


class FAGCN(nn.Module):
    """Frequency-adaptive convolutions, whose attention may be negative (Bo et al., 2021)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(in_channels, HIDDEN), nn.Linear(HIDDEN, out_channels)
        self.layers = nn.ModuleList(FAConv(HIDDEN, eps=0.3, dropout=DROPOUT) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits."""
        start = self.first(functional.dropout(x, DROPOUT, self.training)).relu()
        start = hidden = functional.dropout(start, DROPOUT, self.training)
        for layer in self.layers:
            hidden = layer(hidden, start, edge_index)
        logits: Tensor = self.last(hidden)
        return logits


class ADGN(nn.Module):
    """Anti-symmetric deep graph network (Gravina et al., 2023)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(in_channels, HIDDEN), nn.Linear(HIDDEN, out_channels)
        self.flow = AntiSymmetricConv(HIDDEN, num_iters=4, epsilon=0.1, gamma=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits."""
        hidden = self.first(functional.dropout(x, DROPOUT, self.training)).relu()
        hidden = functional.dropout(self.flow(hidden, edge_index), DROPOUT, self.training)
        logits: Tensor = self.last(hidden)
        return logits


def _basic(name: str) -> Callable[[int, int], nn.Module]:
    options = {"heads": 8} if name == "GAT" else {}

    def build(inputs: int, outputs: int) -> nn.Module:
        model: nn.Module = getattr(models, name)(
            inputs, HIDDEN, 2, outputs, dropout=DROPOUT, **options
        )
        return model

    return build


BACKBONES: dict[str, Callable[[int, int], nn.Module]] = {
    "GAT": _basic("GAT"),
    "GraphSAGE": _basic("GraphSAGE"),
    "APPNP": APPNPNet,
    "FAGCN": FAGCN,
    "A-DGN": ADGN,
}
"""Modules by name, made from the numbers of features and of classes."""
