"""DCGC: neighbours that decide and agree are weighted up before one temperature is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Context(NamedTuple):
    """Both directions of every edge, their homophily weights, and the logits."""

    source: Tensor
    target: Tensor
    agreement: Tensor
    logits: Tensor


class DCGC(Calibrator):
    r"""Logits are averaged with their neighbours' by learned and by homophilous edge weights.

    .. math:: \tilde z_i = \frac{z_i + \sum_j a_{ij} b_{ij} z_j}{1 + \sum_j a_{ij} b_{ij}}, \qquad
       p_i = \mathrm{softmax}(\tilde z_i / T)

    :math:`a_{ij}` is a network with one hidden layer of 4K units and a ReLU output on
    :math:`(z_i, z_j)`, trained on the NLL of the training nodes and stopped on the calibration
    nodes ("decisive" edges); :math:`b_{ij} = 1 / (\|q_i - q_j\| + \alpha)` with
    :math:`q \propto e^{\beta p}` favours edges between nodes that agree. T is fitted exactly.

    Parameters
    ----------
    alpha, beta : float
        Of the homophily weight.
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty, the limits, and the seed of the weights.

    References
    ----------
    Yang et al., "Calibrating Graph Neural Networks from a Data-centric Perspective", WWW 2024.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> DCGC(epochs=5).fit(z, g.labels, g, range(100)).transform(z, graph=g).shape
    (200, 2)
    """

    needs = ("labels", "graph", "train_nodes")
    granularity = "global"
    reference = "Yang et al., WWW 2024"
    differs = (
        "edge weights act on one mean of the frozen logits, not inside the layers of the base "
        "model; without train_nodes the network is fitted to the calibration nodes"
    )
    extra = "pyg"

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 10.0,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 300,
        patience: int = 50,
        seed: int = 0,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.seed = seed

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from graphtemper.calibrators.training import (
            Part,
            Problem,
            Schedule,
            threads_for,
            train_until,
        )
        from graphtemper_research.models.losses import cross_entropy

        context = self._context(inputs)

        def score(parameters: list[Tensor], rows: Tensor, labels: Tensor) -> Tensor:
            return cross_entropy(_averaged(parameters, context)[rows], labels)

        def loss(
            parameters: list[Tensor], rows: Tensor, labels: Tensor, generator: Generator
        ) -> Tensor:
            return score(parameters, rows, labels)

        classes = inputs.logits.shape[1]
        problem = Problem(lambda generator: _initial(classes, generator), loss, score)
        stop = Part.of(labelled.nodes, labelled.labels)
        fit = stop
        if labelled.train_nodes is not None and labelled.train_labels is not None:
            fit = Part.of(labelled.train_nodes, labelled.train_labels)
        schedule = Schedule(self.lr, self.weight_decay, self.epochs, self.patience)
        with threads_for(inputs.logits.size):
            self.parameters_, self.epoch_ = train_until(problem, schedule, fit, stop, self.seed)
        averaged = self._propagated(inputs)[labelled.nodes]
        self.temperature_ = temperature.fit(averaged, labelled.labels)

    def _transform(self, inputs: Inputs) -> FloatArray:
        return temperature.apply(self._propagated(inputs), self.temperature_)

    def _propagated(self, inputs: Inputs) -> FloatArray:
        import torch

        parameters = [torch.from_numpy(array) for array in self.parameters_]
        with torch.no_grad():
            return _averaged(parameters, self._context(inputs)).numpy().astype(np.float64)

    def _context(self, inputs: Inputs) -> Context:
        import torch

        edges = inputs.required_graph.links
        pairs = np.concatenate([edges, edges[:, ::-1]]).astype(np.int64)
        sharp = temperature.apply(self.beta * temperature.apply(inputs.logits))
        distance = np.linalg.norm(sharp[pairs[:, 0]] - sharp[pairs[:, 1]], axis=1)
        return Context(
            source=torch.from_numpy(pairs[:, 0].copy()),
            target=torch.from_numpy(pairs[:, 1].copy()),
            agreement=torch.from_numpy((1.0 / (distance + self.alpha)).astype(np.float32)),
            logits=torch.from_numpy(inputs.logits.astype(np.float32)),
        )


def _initial(classes: int, generator: Generator) -> list[Tensor]:
    from graphtemper.calibrators.training import glorot, zeros

    own, other = (glorot((classes, 4 * classes), generator) for _ in range(2))
    return [own, other, zeros(4 * classes), glorot((4 * classes, 1), generator), zeros(1)]


def _averaged(parameters: list[Tensor], context: Context) -> Tensor:
    """Return the weighted mean of every node's logits with its neighbours', (N, K)."""
    import torch

    own, other, first_bias, second, second_bias = parameters
    z = context.logits
    # The first layer on a pair is a sum of two products of nodes, computed once per node.
    hidden = (z @ own)[context.target] + (z @ other)[context.source] + first_bias
    decisive = (hidden.relu() @ second + second_bias).relu()[:, 0]
    weight = (decisive * context.agreement)[:, None]
    total = torch.zeros(len(z), 1).index_add(0, context.target, weight)
    sums = torch.zeros_like(z).index_add(0, context.target, weight * z[context.source])
    return (z + sums) / (1.0 + total)
