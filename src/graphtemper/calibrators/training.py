"""Training of the networks of graph calibrators: Adam with early stopping.

A public module, for networks of one's own; it needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphtemper import errors
from graphtemper.calibrators.base import fold_numbers
from graphtemper.calibrators.torch_sparse import product, threads_for

__all__ = [
    "Part",
    "Problem",
    "Schedule",
    "dropped",
    "glorot",
    "product",
    "threads_for",
    "train_in_folds",
    "train_until",
    "zeros",
]

Parameters = list[Tensor]
Rows = NDArray[np.int64]
Labels = NDArray[np.intp]
# Number of folds of the calibration nodes that choose the number of epochs.
FOLDS = 3


@dataclass(frozen=True)
class Schedule:
    """Adam's settings, the maximum number of epochs, and the patience."""

    lr: float
    weight_decay: float
    epochs: int
    patience: int


@dataclass(frozen=True)
class Problem:
    """A loss to minimise on some nodes, and the loss that decides when to stop.

    ``loss(parameters, rows, labels, generator)`` may be random, through the generator;
    ``score(parameters, rows, labels)`` is not. Both are means over the rows.
    """

    initial: Callable[[torch.Generator], Parameters]
    loss: Callable[[Parameters, Tensor, Tensor, torch.Generator], Tensor]
    score: Callable[[Parameters, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Part:
    """Nodes and their labels as tensors."""

    rows: Tensor
    labels: Tensor

    @classmethod
    def of(cls, rows: Rows, labels: Labels) -> Part:
        """Convert NumPy arrays."""
        return cls(torch.from_numpy(rows), torch.from_numpy(labels.astype(np.int64)))


def train_until(
    problem: Problem, schedule: Schedule, fit: Part, stop: Part | None, seed: int
) -> tuple[list[NDArray[np.float32]], int]:
    """Minimise on ``fit``; return the weights with the lowest score on ``stop`` and their epoch.

    Training ends after ``patience`` epochs without a lower score. Without ``stop`` it takes all
    epochs and the last weights.
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = problem.initial(generator)
    optimiser = torch.optim.Adam(parameters, lr=schedule.lr, weight_decay=schedule.weight_decay)
    best, best_epoch, lowest = _copied(parameters), 0, np.inf
    for epoch in range(1, schedule.epochs + 1):
        optimiser.zero_grad()
        loss = problem.loss(parameters, fit.rows, fit.labels, generator)
        torch.autograd.backward([loss])
        optimiser.step()
        if stop is None:
            continue
        with torch.no_grad():
            score = float(problem.score(parameters, stop.rows, stop.labels))
        if score < lowest:
            best, best_epoch, lowest = _copied(parameters), epoch, score
        elif not np.isfinite(score):
            raise errors.range(f"the calibration loss is {score} in epoch {epoch}; lower lr.")
        elif epoch - best_epoch >= schedule.patience:
            break
    return (_copied(parameters), schedule.epochs) if stop is None else (best, best_epoch)


def train_in_folds(
    problem: Problem, schedule: Schedule, rows: Rows, labels: Labels, seed: int
) -> tuple[list[NDArray[np.float32]], int]:
    """Minimise on all rows for the median of the best numbers of epochs on held-out folds."""
    folds = fold_numbers(rows.size, FOLDS, seed)
    epochs = []
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        if held.all():  # one node: nothing to hold out
            return train_until(problem, schedule, Part.of(rows, labels), None, seed)
        fit, stop = Part.of(rows[~held], labels[~held]), Part.of(rows[held], labels[held])
        epochs.append(train_until(problem, schedule, fit, stop, seed)[1])
    chosen = max(round(float(np.median(epochs))), 1)
    fixed = Schedule(schedule.lr, schedule.weight_decay, chosen, schedule.patience)
    return train_until(problem, fixed, Part.of(rows, labels), None, seed)


def glorot(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Draw trainable Glorot-uniform weights."""
    bound = (6.0 / sum(shape)) ** 0.5
    weights: Tensor = (2.0 * torch.rand(*shape, generator=generator) - 1.0) * bound
    return weights.requires_grad_()


def zeros(*shape: int) -> Tensor:
    """Return trainable zeros."""
    return torch.zeros(*shape, requires_grad=True)


def dropped(hidden: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Drop a fraction of the units, in training (with a generator) only."""
    if generator is None or rate == 0.0:
        return hidden
    # A quarter of the time of `bernoulli_`, which took a third of a fit.
    kept = torch.rand(hidden.shape, generator=generator) >= rate
    return hidden * kept / (1.0 - rate)


def _copied(parameters: Parameters) -> list[NDArray[np.float32]]:
    return [parameter.detach().numpy().copy() for parameter in parameters]
