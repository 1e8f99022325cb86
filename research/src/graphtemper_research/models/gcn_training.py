"""The training loop of the GCN, which is its only part that needs torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphtemper import Graph, errors
from graphtemper.calibrators.training import product, threads_for
from graphtemper_research.models.losses import Loss

Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass
class Settings:
    """The settings of the training loop, already validated by the model."""

    widths: list[int]
    epochs: int
    lr: float
    weight_decay: float
    dropout: float
    loss: Loss
    seed: int
    patience: int | None = None


@dataclass
class Trained:
    """The best weights, the training loss of every epoch, and the epoch of the weights."""

    layers: list[Layer]
    losses: NDArray[np.float64]
    epoch: int


def train(
    graph: Graph,
    operator: sp.csr_matrix,
    rows: NDArray[np.int64],
    val_rows: NDArray[np.int64] | None,
    settings: Settings,
) -> Trained:
    """Minimise the loss on the rows with Adam and return the best epoch according to `Watch`.

    All random numbers come from a separate generator, so torch's global state does not change.
    """
    with threads_for(graph.num_nodes * max(settings.widths[1:])):
        return _train(graph, operator, rows, val_rows, settings)


def _train(
    graph: Graph,
    operator: sp.csr_matrix,
    rows: NDArray[np.int64],
    val_rows: NDArray[np.int64] | None,
    settings: Settings,
) -> Trained:
    generator = torch.Generator().manual_seed(settings.seed)
    parameters = _initial(settings.widths, generator)
    first_layer = first_layer_of(graph, operator)
    labels = torch.from_numpy(np.array(graph.labels))
    chosen = torch.from_numpy(rows)
    optimiser = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    losses = np.empty(settings.epochs)
    best_epoch, best = settings.epochs, parameters
    watch = Watch(settings.patience)
    for epoch in range(1, settings.epochs + 1):
        optimiser.zero_grad()
        logits = _forward(parameters, first_layer, operator, settings.dropout, generator)
        loss = settings.loss(logits[chosen], labels[chosen])
        torch.autograd.backward([loss])
        optimiser.step()
        losses[epoch - 1] = loss.item()
        if not np.isfinite(losses[epoch - 1]):
            raise errors.range(
                f"the training loss is {losses[epoch - 1]} in epoch {epoch}; "
                "scale the features or lower lr."
            )
        if val_rows is not None:
            scores = _scores(parameters, first_layer, operator, labels, val_rows, settings)
            if watch.improved(*scores):
                best_epoch = epoch
                best = [parameter.detach().clone() for parameter in parameters]
        if watch.ended:
            losses = losses[:epoch]
            break
    arrays = [parameter.detach().numpy().copy() for parameter in best]
    return Trained(list(zip(arrays[::2], arrays[1::2], strict=True)), losses, best_epoch)


def _initial(widths: list[int], generator: torch.Generator) -> list[Tensor]:
    """Draw Glorot-uniform weights and zero biases, alternating."""
    parameters = []
    for fan_in, fan_out in itertools.pairwise(widths):
        bound = (6.0 / (fan_in + fan_out)) ** 0.5
        weights = (2.0 * torch.rand(fan_in, fan_out, generator=generator) - 1.0) * bound
        parameters += [weights.requires_grad_(), torch.zeros(fan_out, requires_grad=True)]
    return parameters


def first_layer_of(graph: Graph, operator: sp.csr_matrix) -> Callable[[Tensor], Tensor]:
    """Return W -> S X W. Dense features are propagated once; sparse features would fill in."""
    features = graph.features
    if isinstance(features, np.ndarray):
        propagated = torch.from_numpy(operator @ features)
        return lambda weights: propagated @ weights
    transposed = sp.csr_matrix(features.T)
    return lambda weights: product(operator, operator, product(features, transposed, weights))


def _forward(
    parameters: list[Tensor],
    first_layer: Callable[[Tensor], Tensor],
    operator: sp.csr_matrix,
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
        hidden = product(operator, operator, hidden @ weights) + bias
    return hidden


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


def _scores(
    parameters: list[Tensor],
    first_layer: Callable[[Tensor], Tensor],
    operator: sp.csr_matrix,
    labels: Tensor,
    rows: NDArray[np.int64],
    settings: Settings,
) -> tuple[float, float]:
    chosen = torch.from_numpy(rows)
    with torch.no_grad():
        logits = _forward(parameters, first_layer, operator)
        right = (logits[chosen].argmax(dim=1) == labels[chosen]).double().mean()
        return float(settings.loss(logits[chosen], labels[chosen])), float(right)
