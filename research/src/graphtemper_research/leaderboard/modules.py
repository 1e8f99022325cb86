"""Two networks that PyTorch Geometric does not have: GPR-GNN and GraphCON.

They are ordinary modules, ``module(x, edge_index) -> logits``; train them as any other and freeze
them with `graphtemper.pyg.predictor`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

__all__ = ["GPRGNN", "GraphCON"]


class GPRGNN(nn.Module):
    r"""Generalised PageRank: a perceptron, then a learned signed mix of powers of the operator.

    .. math:: Z = \sum_{k=0}^{K} \gamma_k S^k\, \mathrm{MLP}(X), \qquad
       \gamma_k = \alpha (1 - \alpha)^k,\quad \gamma_K = (1 - \alpha)^K \text{ at first}

    S is the symmetric operator with self-loops. The weights :math:`\gamma` are trained and may
    become negative, which makes a high-pass filter for heterophilous graphs.

    Parameters
    ----------
    in_channels, hidden_channels, out_channels : int
        Widths of the perceptron with one hidden layer.
    steps : int
        K, the number of powers.
    alpha : float
        The restart probability of the initial weights, in [0, 1].
    dropout : float
        Share of units dropped in training, before either layer and before the propagation.

    References
    ----------
    Chien, Peng, Li, Milenkovic, "Adaptive Universal Generalized PageRank Graph Neural Network",
    ICLR 2021.

    Examples
    --------
    >>> net = GPRGNN(3, 8, 2, steps=4).eval()
    >>> net(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        steps: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.steps = steps
        self.dropout = dropout
        restart = alpha
        self.first = nn.Linear(in_channels, hidden_channels)
        self.second = nn.Linear(hidden_channels, out_channels)
        weights = restart * (1.0 - restart) ** torch.arange(steps + 1.0)
        weights[-1] = (1.0 - restart) ** steps
        self.gamma = nn.Parameter(weights)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits, (N, K)."""
        hidden = self.first(functional.dropout(x, self.dropout, self.training)).relu()
        hidden = self.second(functional.dropout(hidden, self.dropout, self.training))
        hidden = functional.dropout(hidden, self.dropout, self.training)
        (source, target), weight = gcn_norm(edge_index, num_nodes=len(x), dtype=x.dtype)
        total = self.gamma[0] * hidden
        for step in range(1, self.steps + 1):
            messages = weight[:, None] * hidden[source]
            hidden = torch.zeros_like(hidden).index_add(0, target, messages)
            total = total + self.gamma[step] * hidden
        return total


class GraphCON(nn.Module):
    r"""Graph-coupled oscillators: every node is a damped oscillator driven by its neighbours.

    .. math:: Y \leftarrow Y + \Delta t\,[\mathrm{relu}(F(X)) - \gamma X - \alpha Y], \qquad
       X \leftarrow X + \Delta t\, Y

    F is one graph convolution shared by all layers; X and Y start at a linear encoding of the
    features, and logits are a linear map of the last X.

    Parameters
    ----------
    in_channels, hidden_channels, out_channels : int
        Widths.
    layers : int
        Number of time steps.
    step, damping, frequency : float
        :math:`\Delta t`, :math:`\alpha` and :math:`\gamma`.
    dropout : float
        Share of units dropped in training, before the encoding and after the last layer.

    References
    ----------
    Rusch, Chamberlain, Rowbottom, Mishra, Bronstein, "Graph-Coupled Oscillator Networks", ICML
    2022.

    Examples
    --------
    >>> net = GraphCON(3, 8, 2, layers=3).eval()
    >>> net(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        layers: int = 4,
        step: float = 1.0,
        damping: float = 1.0,
        frequency: float = 1.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.layers = layers
        self.step = step
        self.damping = damping
        self.frequency = frequency
        self.dropout = dropout
        self.encoder = nn.Linear(in_channels, hidden_channels)
        self.coupling = GCNConv(hidden_channels, hidden_channels)
        self.decoder = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits, (N, K)."""
        place = self.encoder(functional.dropout(x, self.dropout, self.training))
        velocity = place
        for _ in range(self.layers):
            force = self.coupling(place, edge_index).relu()
            change = force - self.frequency * place - self.damping * velocity
            velocity = velocity + self.step * change
            place = place + self.step * velocity
        logits: Tensor = self.decoder(functional.dropout(place, self.dropout, self.training))
        return logits
