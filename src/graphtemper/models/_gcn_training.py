"""The training loop of the GCN: the only part of it that needs torch.

The sparse products are those of `graphtemper.propagate`, given a gradient here. Measured with 32
hidden units, an epoch takes half the time of PyG's message passing on a thousand nodes, a quarter
on cora and three quarters on pubmed. Torch's own CSR product is as fast on the first two and a
third faster on pubmed, which does not pay for a second kind of sparse product in the package.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphtemper.errors import InputError
from graphtemper.graph import Graph
from graphtemper.models.losses import Loss
from graphtemper.propagate import multiply

Progress = Callable[[int, int], None]
# Smaller tensors gain little from torch's threads, and lose much where the cores are busy: its
# threads wait for one another in every step (measured beside other jobs: 3 to 10 times as long).
# The sparse products have threads of their own.
_WORTH_THREADS = 1 << 21
Layer = tuple[NDArray[np.float32], NDArray[np.float32]]


class _Product(torch.autograd.Function):
    """``matrix @ columns`` for a constant sparse matrix, differentiable in the columns."""

    @staticmethod
    def forward(
        ctx: Any, columns: Tensor, matrix: sp.csr_matrix, transposed: sp.csr_matrix
    ) -> Tensor:
        ctx.transposed = transposed
        return torch.from_numpy(multiply(matrix, columns.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return torch.from_numpy(multiply(ctx.transposed, gradients[0].numpy())), None, None


def _product(matrix: sp.csr_matrix, transposed: sp.csr_matrix, columns: Tensor) -> Tensor:
    apply: Callable[..., Tensor] = _Product.apply
    return apply(columns, matrix, transposed)


@dataclass
class Settings:
    """What the loop needs to know, already validated by the model."""

    widths: list[int]
    epochs: int
    lr: float
    weight_decay: float
    dropout: float
    loss: Loss
    seed: int


@dataclass
class Trained:
    """The weights kept, the training loss of every epoch, and the epoch the weights are from."""

    layers: list[Layer]
    losses: NDArray[np.float64]
    epoch: int


def train(
    graph: Graph,
    operator: sp.csr_matrix,
    rows: NDArray[np.int64],
    val_rows: NDArray[np.int64] | None,
    settings: Settings,
    progress: Progress | None = None,
) -> Trained:
    """Minimise the loss on the rows with Adam; keep the epoch with the lowest validation loss.

    All random numbers come from one generator of its own, so torch's global state is untouched.
    """
    with _threads_for(graph.num_nodes * max(settings.widths[1:])):
        return _train(graph, operator, rows, val_rows, settings, progress)


@contextlib.contextmanager
def _threads_for(size: int) -> Iterator[None]:
    """Let torch use one thread while tensors are small, then as many as before."""
    threads = torch.get_num_threads()
    try:
        if size < _WORTH_THREADS and threads > 1:
            torch.set_num_threads(1)
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def _train(
    graph: Graph,
    operator: sp.csr_matrix,
    rows: NDArray[np.int64],
    val_rows: NDArray[np.int64] | None,
    settings: Settings,
    progress: Progress | None,
) -> Trained:
    generator = torch.Generator().manual_seed(settings.seed)
    parameters = _initial(settings.widths, generator)
    first_layer = _first_layer(graph, operator)
    labels = torch.from_numpy(np.array(graph.labels))
    chosen = torch.from_numpy(rows)
    optimiser = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    losses = np.empty(settings.epochs)
    best_epoch, best_loss, best = settings.epochs, np.inf, parameters
    for epoch in range(1, settings.epochs + 1):
        optimiser.zero_grad()
        logits = _forward(parameters, first_layer, operator, settings.dropout, generator)
        loss = settings.loss(logits[chosen], labels[chosen])
        torch.autograd.backward([loss])
        optimiser.step()
        losses[epoch - 1] = loss.item()
        if not np.isfinite(losses[epoch - 1]):
            raise InputError(
                f"the training loss is {losses[epoch - 1]} in epoch {epoch}; "
                "scale the features or lower lr."
            )
        if val_rows is not None:
            val_loss = _loss_at(parameters, first_layer, operator, labels, val_rows, settings)
            if val_loss < best_loss:
                best_epoch, best_loss = epoch, val_loss
                best = [parameter.detach().clone() for parameter in parameters]
        if progress is not None:
            progress(epoch, settings.epochs)
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


def _first_layer(graph: Graph, operator: sp.csr_matrix) -> Callable[[Tensor], Tensor]:
    """Return W -> S X W. Dense features are propagated once; sparse ones would fill in."""
    features = graph.features
    if isinstance(features, np.ndarray):
        propagated = torch.from_numpy(multiply(operator, features))
        return lambda weights: propagated @ weights
    transposed = sp.csr_matrix(features.T)
    return lambda weights: _product(operator, operator, _product(features, transposed, weights))


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
            kept = torch.empty_like(hidden).bernoulli_(1.0 - dropout, generator=generator)
            hidden = hidden * kept / (1.0 - dropout)
        # The operator is symmetric, so it is its own transpose.
        hidden = _product(operator, operator, hidden @ weights) + bias
    return hidden


def _loss_at(
    parameters: list[Tensor],
    first_layer: Callable[[Tensor], Tensor],
    operator: sp.csr_matrix,
    labels: Tensor,
    rows: NDArray[np.int64],
    settings: Settings,
) -> float:
    chosen = torch.from_numpy(rows)
    with torch.no_grad():
        logits = _forward(parameters, first_layer, operator)
        return float(settings.loss(logits[chosen], labels[chosen]))
