"""The training loop of the GCN, which is its only part that needs torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphtemper import Graph, errors
from graphtemper.calibrators.training import product, threads_for
from graphtemper.graph import operator
from graphtemper_research.models.losses import named

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


class Settings(Protocol):
    """What the loop reads of a model."""

    hidden: int
    layers: int
    epochs: int
    lr: float
    weight_decay: float
    dropout: float
    loss: str
    gamma: float | None
    seed: int


class Watch:
    """The best epoch so far by validation loss and accuracy, and when to stop.

    Without patience an epoch is better if its loss is lower, and training never ends early. With
    patience the rule is that of the authors of GAT: an epoch is better if neither number is worse
    than the best so far, and training ends after ``patience`` epochs in a row in which both are
    worse.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience, self.idle = patience, 0
        self.loss, self.accuracy = np.inf, -np.inf

    @property
    def ended(self) -> bool:
        """Whether training has ended."""
        return self.patience is not None and self.idle >= self.patience

    def improved(self, loss: float, accuracy: float) -> bool:
        """Say whether an epoch with these scores is the best so far."""
        if self.patience is None:
            better = loss < self.loss
            self.loss = min(self.loss, loss)
            return better
        gains = (loss <= self.loss, accuracy >= self.accuracy)
        self.idle = 0 if any(gains) else self.idle + 1
        self.loss, self.accuracy = min(self.loss, loss), max(self.accuracy, accuracy)
        return all(gains)


def train(
    model: Settings,
    graph: Graph,
    rows: NDArray[np.int64],
    val_rows: NDArray[np.int64] | None,
    watch: Watch,
) -> tuple[list[Layer], NDArray[np.float64], int]:
    """Minimise a model's loss on the rows with Adam; return weights, losses and their epoch.

    All random numbers come from a separate generator, so torch's global state does not change.
    """
    generator = torch.Generator().manual_seed(model.seed)
    widths = [graph.num_features, *[model.hidden] * (model.layers - 1), graph.num_classes]
    parameters = _initial(widths, generator)
    matrix = operator(graph, "self-loop")
    first_layer = _first_layer(graph, matrix)
    labels, chosen = torch.from_numpy(np.array(graph.labels)), torch.from_numpy(rows)
    watched = None if val_rows is None else torch.from_numpy(val_rows)
    loss_of = named(model.loss, model.gamma)
    optimiser = torch.optim.Adam(parameters, lr=model.lr, weight_decay=model.weight_decay)
    losses: list[float] = []
    best_epoch, best = model.epochs, parameters
    with threads_for(graph.num_nodes * max(widths[1:])):
        for epoch in range(1, model.epochs + 1):
            optimiser.zero_grad()
            logits = _forward(parameters, first_layer, matrix, model.dropout, generator)
            loss = loss_of(logits[chosen], labels[chosen])
            torch.autograd.backward([loss])
            optimiser.step()
            losses.append(loss.item())
            if not np.isfinite(losses[-1]):
                raise errors.range(
                    f"the training loss is {losses[-1]} in epoch {epoch}; "
                    "scale the features or lower lr."
                )
            if watched is not None:
                with torch.no_grad():
                    logits = _forward(parameters, first_layer, matrix)[watched]
                    right = (logits.argmax(dim=1) == labels[watched]).double().mean()
                    scores = float(loss_of(logits, labels[watched])), float(right)
                if watch.improved(*scores):
                    best_epoch = epoch
                    best = [parameter.detach().clone() for parameter in parameters]
            if watch.ended:
                break
    arrays = [parameter.detach().numpy().copy() for parameter in best]
    return list(zip(arrays[::2], arrays[1::2], strict=True)), np.array(losses), best_epoch


def _initial(widths: list[int], generator: torch.Generator) -> list[Tensor]:
    """Draw Glorot-uniform weights and zero biases, alternating."""
    parameters = []
    for fan_in, fan_out in itertools.pairwise(widths):
        bound = (6.0 / (fan_in + fan_out)) ** 0.5
        weights = (2.0 * torch.rand(fan_in, fan_out, generator=generator) - 1.0) * bound
        parameters += [weights.requires_grad_(), torch.zeros(fan_out, requires_grad=True)]
    return parameters


def _first_layer(graph: Graph, matrix: sp.csr_matrix) -> Callable[[Tensor], Tensor]:
    """Return W -> S X W. Dense features are propagated once; sparse features would fill in."""
    features = graph.features
    if isinstance(features, np.ndarray):
        propagated = torch.from_numpy(matrix @ features)
        return lambda weights: propagated @ weights
    transposed = sp.csr_matrix(features.T)
    return lambda weights: product(matrix, matrix, product(features, transposed, weights))


def _forward(
    parameters: list[Tensor],
    first_layer: Callable[[Tensor], Tensor],
    matrix: sp.csr_matrix,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    hidden = first_layer(parameters[0]) + parameters[1]
    for weights, bias in zip(parameters[2::2], parameters[3::2], strict=True):
        hidden = hidden.relu()
        if dropout:
            mask = torch.empty_like(hidden).bernoulli_(1.0 - dropout, generator=generator)
            hidden = hidden * mask / (1.0 - dropout)
        # The operator is symmetric, so it is its own transpose.
        hidden = product(matrix, matrix, hidden @ weights) + bias
    return hidden
