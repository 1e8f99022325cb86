"""Calibrators whose temperatures come from a small network on the graph."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    check_choice,
    check_integer,
    check_non_negative,
    check_positive,
)
from graphtemper.calibrators.base import Granularity, Inputs, Labelled, Need, TemperatureCalibrator

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from graphtemper.calibrators.training import Problem

Stop = Literal["folds", "train", "calibration"]
# A multiplier this small already makes every probability uniform.
SMALLEST = 1e-6


@dataclass(frozen=True)
class Training:
    """Settings that the networks share; see `NetworkCalibrator`."""

    lr: float
    weight_decay: float
    epochs: int
    patience: int
    stop: Stop
    seed: int


class NetworkCalibrator(TemperatureCalibrator):
    """A network gives every node a multiplier 1/T, trained on the NLL of the calibration nodes.

    ``stop`` chooses the nodes that decide when training ends: ``"folds"`` three folds of the
    calibration nodes, then all of them for the median number of epochs; ``"train"`` those of the
    base model, whose logits are overfitted (it needs ``train_nodes``); ``"calibration"`` the fitted
    nodes themselves. ``authors_stop`` is the rule of the released code.
    """

    extra = "pyg"
    needs: tuple[Need, ...] = ("labels", "graph")
    granularity: Granularity = "node"
    authors_stop: Stop = "train"

    lr: float
    weight_decay: float
    epochs: int
    patience: int
    stop: Stop
    seed: int

    def _set_training(self, training: Training) -> None:
        self.lr = check_positive(training.lr, "lr")
        self.weight_decay = check_non_negative(training.weight_decay, "weight_decay")
        self.epochs = check_integer(training.epochs, "epochs", 1)
        self.patience = check_integer(training.patience, "patience", 1)
        self.stop = check_choice(training.stop, get_args(Stop), "stop")
        self.seed = check_integer(training.seed, "seed", 0, 2**63 - 1)

    @abstractmethod
    def _context(self, inputs: Inputs) -> Any:
        """Compute the network's inputs on a graph; they are not stored."""

    @abstractmethod
    def _initial(self, context: Any, generator: Generator) -> list[Tensor]:
        """Draw the initial parameters."""

    @abstractmethod
    def _multipliers(
        self, parameters: list[Tensor], context: Any, generator: Generator | None
    ) -> Tensor:
        """Return 1/T of every node, (N,) or (N, K); random in training, with a generator."""

    def _penalty(self, logits: Tensor, labels: Tensor) -> Tensor | float:
        """Return what is added to the NLL of calibrated logits (n, K) in training."""
        return 0.0

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from graphtemper.calibrators.torch_sparse import threads_for
        from graphtemper.calibrators.training import Part, Schedule, train_in_folds, train_until

        nodes, labels, seed = labelled.nodes, labelled.labels, self.seed
        problem = self._problem(inputs, self._context(inputs))
        schedule = Schedule(self.lr, self.weight_decay, self.epochs, self.patience)
        with threads_for(inputs.logits.size):
            if self.stop == "folds":
                found = train_in_folds(problem, schedule, nodes, labels, seed)
            else:
                fit = until = Part.of(nodes, labels)
                if self.stop == "train":
                    if labelled.train_nodes is None or labelled.train_labels is None:
                        raise errors.missing(
                            'stop="train" needs train_nodes=... with labels; pass them or use '
                            'stop="folds".'
                        )
                    until = Part.of(labelled.train_nodes, labelled.train_labels)
                found = train_until(problem, schedule, fit, until, seed)
        self.parameters_, self.epoch_ = found

    def _problem(self, inputs: Inputs, context: Any) -> Problem:
        import torch
        from torch.nn.functional import cross_entropy

        from graphtemper.calibrators.training import Problem

        logits = torch.from_numpy(inputs.logits.astype(np.float32))

        def calibrated(
            parameters: list[Tensor], rows: Tensor, generator: Generator | None
        ) -> Tensor:
            scale = self._multipliers(parameters, context, generator)[rows]
            return logits[rows] * (scale[:, None] if scale.ndim == 1 else scale)

        def loss(
            parameters: list[Tensor], rows: Tensor, labels: Tensor, generator: Generator
        ) -> Tensor:
            scores = calibrated(parameters, rows, generator)
            return cross_entropy(scores, labels) + self._penalty(scores, labels)

        def score(parameters: list[Tensor], rows: Tensor, labels: Tensor) -> Tensor:
            return cross_entropy(calibrated(parameters, rows, None), labels)

        return Problem(lambda generator: self._initial(context, generator), loss, score)

    def _scales(self, inputs: Inputs) -> FloatArray:
        """Return the fitted network's multipliers on a graph, (N,) or (N, K)."""
        import torch

        from graphtemper.calibrators.torch_sparse import threads_for

        parameters = [torch.from_numpy(array) for array in self.parameters_]
        with torch.no_grad(), threads_for(inputs.logits.size):
            scale = self._multipliers(parameters, self._context(inputs), None)
        return np.maximum(scale.numpy().astype(np.float64), SMALLEST)

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        return np.asarray(1.0 / self._scales(inputs))
