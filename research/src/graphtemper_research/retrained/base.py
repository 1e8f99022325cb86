"""Baselines that train their own model at the source and ignore the given logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import Graph, errors
from graphtemper.calibrators import Calibrator, Inputs, Labelled, Need
from graphtemper.graph import operator

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Context(NamedTuple):
    """Operator and features of one graph."""

    operator: sp.csr_matrix
    features: sp.csr_matrix
    transposed: sp.csr_matrix


class Retrained(Calibrator):
    """A calibrator with its own model; it reads only the number of classes from the logits.

    It is trained on ``train_nodes`` and keeps the epoch with the lowest NLL on the calibration
    nodes; without ``train_nodes`` the calibration nodes are trained on, for all epochs.
    """

    extra = "pyg"
    granularity = "model"
    needs: tuple[Need, ...] = ("labels", "graph", "features", "train_nodes", "retrain")

    hidden: int
    dropout: float
    lr: float
    weight_decay: float
    epochs: int
    seed: int

    def _set_model(
        self,
        hidden: int,
        dropout: float,
        lr: float,
        weight_decay: float,
        epochs: int,
        seed: int,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.seed = seed

    def _context(self, graph: Graph) -> Context:
        """Return operator and features of a graph with as many columns as the source."""
        columns = getattr(self, "num_features_", graph.num_features)
        if graph.num_features != columns:
            raise errors.other_features(
                f"this {type(self).__name__} was fitted on {columns} feature columns but the graph "
                f"has {graph.num_features}; use the same feature space."
            )
        self.num_features_ = columns
        features = sp.csr_matrix(graph.features)
        return Context(operator(graph, "self-loop"), features, sp.csr_matrix(features.T))

    def _train(
        self,
        inputs: Inputs,
        labelled: Labelled,
        initial: Callable[[Generator], list[Tensor]],
        training_logits: Callable[[list[Tensor], Generator], Tensor],
        logits: Callable[[list[Tensor]], Tensor],
    ) -> None:
        """Minimise the NLL of the training nodes; keep the weights as ``parameters_``."""
        from graphtemper.calibrators.training import (
            Part,
            Problem,
            Schedule,
            threads_for,
            train_until,
        )
        from graphtemper_research.models.losses import cross_entropy

        problem = Problem(
            initial,
            lambda parameters, rows, labels, generator: cross_entropy(
                training_logits(parameters, generator)[rows], labels
            ),
            lambda parameters, rows, labels: cross_entropy(logits(parameters)[rows], labels),
        )
        schedule = Schedule(self.lr, self.weight_decay, self.epochs, self.epochs)
        watched = labelled.train_nodes is not None
        stop = Part.of(labelled.nodes, labelled.labels) if watched else None
        with threads_for(len(inputs.logits) * self.hidden):
            self.parameters_, self.epoch_ = train_until(
                problem, schedule, Part.of(*training_nodes(labelled)), stop, self.seed
            )


def training_nodes(labelled: Labelled) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the nodes to train on and their labels."""
    if labelled.train_nodes is None:
        return labelled.nodes, labelled.labels
    if labelled.train_labels is None:
        raise errors.no_labels("a training node has no label; pass labels for all of train_nodes.")
    return labelled.train_nodes, labelled.train_labels
