"""CF-GNN: correct probabilities on the graph so that conformal sets become smaller."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import conformal, errors, temperature
from graphtemper.calibrators import Calibrator, Inputs, Labelled
from graphtemper.graph import Graph, Nodes, operator
from graphtemper_research.harness.numeric import FloatArray, stream

if TYPE_CHECKING:
    from torch import Generator, Tensor

# Epochs between measurements of the set size, which choose the best epoch.
_EVERY = 10


class Context(NamedTuple):
    """The operator and the probabilities p of one graph."""

    operator: sp.csr_matrix
    probabilities: Tensor


class Roles(NamedTuple):
    """Calibration nodes: half set the threshold; a quarter imitates that, a quarter is measured."""

    threshold: NDArray[np.int64]
    imitate: NDArray[np.int64]
    measure: NDArray[np.int64]


class CFGNN(Calibrator):
    r"""A graph convolution of the probabilities, trained to make prediction sets small.

    .. math:: p' = \mathrm{softmax}(S\,\mathrm{relu}(S p W_1 + b_1) W_2 + b_2), \qquad
       L = \mathrm{NLL} + w\,\overline{\mathrm{relu}\Big(\sum_k
       \sigma\big((p'_k - q)/\tau\big) - s\Big)}

    q is the quantile of the true classes' probabilities that a conformal threshold would use, on
    one quarter of the calibration nodes, and the size is measured on another quarter. The remaining
    half is not used in training and sets the threshold of `sets`, so that coverage is guaranteed if
    nodes are exchangeable, which they are not on a shifted graph. Sets are those of deterministic
    APS, as in the released code: the classes whose score does not exceed the threshold, which may
    be none. `graphtemper_research.gats.set_sizes` measures how much smaller they become.

    Parameters
    ----------
    level : float
        The target coverage.
    weight, target, smoothing : float
        w, s and :math:`\tau`; the authors tune them by data set.
    warm : int
        Epochs with the NLL alone.
    hidden : int
        Width of the hidden layer.
    dropout, lr, weight_decay, epochs, seed
        Dropout before each convolution, Adam (the authors: 0.001, tuned from 0.0001 to 0.1), its L2
        penalty, the number of epochs, and the seed. Every tenth epoch is a candidate, and the one
        with the smallest sets is used.
    randomised : bool
        Randomised APS: smaller sets, which change with the seed.

    References
    ----------
    Huang et al., "Uncertainty Quantification over Graph with Conformalized Graph Neural Networks",
    NeurIPS 2023.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> cf = CFGNN(epochs=20, warm=10).fit(z, g.labels, g, range(100))
    >>> cf.transform(z, graph=g).shape, cf.sets(z, graph=g).dtype
    ((200, 2), dtype('bool'))
    """

    extra = "pyg"
    needs = ("labels", "graph", "train_nodes")
    granularity = "set"
    reference = "Huang et al., NeurIPS 2023"
    differs = (
        "two GCN layers and 1000 epochs at a rate of 0.01 by default (the authors tune layers and "
        "rate by data set, for 5000 epochs); the epoch is chosen on calibration nodes (theirs: "
        "validation); no regression"
    )

    def __init__(
        self,
        level: float = 0.9,
        weight: float = 1.0,
        target: float = 1.0,
        smoothing: float = 0.1,
        warm: int = 200,
        hidden: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        epochs: int = 1000,
        randomised: bool = False,
        seed: int = 0,
    ) -> None:
        self.level = level
        self.weight = weight
        self.target = target
        self.smoothing = smoothing
        self.warm = warm
        self.hidden = hidden
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.randomised = randomised
        self.seed = seed

    def sets(
        self,
        logits: ArrayLike,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
    ) -> NDArray[np.bool_]:
        """Return which classes are in each node's set, (N, K); it may be empty."""
        p = self.transform(logits, graph, train_nodes=train_nodes)
        return np.asarray(self._scores(p, "predict") <= self.threshold_)

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from graphtemper.calibrators.training import threads_for

        if labelled.nodes.size < 8:
            raise errors.too_few(
                f"CF-GNN splits its {labelled.nodes.size} calibration nodes into four; "
                "pass at least eight."
            )
        labels = np.full(len(inputs.logits), -1)
        labels[labelled.nodes] = labelled.labels
        roles = self.roles_ = self._roles(labelled.nodes)
        fit = roles.imitate if labelled.train_labels is None else labelled.train_nodes
        if labelled.train_nodes is not None and labelled.train_labels is not None:
            labels[labelled.train_nodes] = labelled.train_labels
        context = self._context(inputs)
        with threads_for(inputs.logits.size):
            self.parameters_, self.epoch_ = self._trained(context, labels, fit, roles)
        scores = self._scores(self._corrected(self.parameters_, context), "fit")
        rows = roles.threshold
        self.threshold_ = float(conformal.threshold(scores[rows, labels[rows]], self.level))

    def _scores(self, p: FloatArray, stage: str) -> FloatArray:
        """Return the APS score of each class; labelled and new nodes draw other numbers."""
        if not self.randomised:
            return conformal.aps(p)
        return conformal.aps(p, stream(self.seed, f"cf-gnn {stage}").random(len(p)))

    def _roles(self, nodes: NDArray[np.int64]) -> Roles:
        mixed = stream(self.seed, "cf-gnn roles").permutation(nodes)
        half, quarter = nodes.size // 2, nodes.size // 4
        return Roles(*np.split(mixed, [half, half + quarter]))

    def _context(self, inputs: Inputs) -> Context:
        import torch

        matrix = operator(inputs.required_graph, "self-loop")
        p = temperature.apply(inputs.logits).astype(np.float32)
        return Context(matrix, torch.from_numpy(p))

    def _trained(
        self,
        context: Context,
        labels: NDArray[np.int64],
        fit: NDArray[np.int64] | None,
        roles: Roles,
    ) -> tuple[list[NDArray[np.float32]], int]:
        import torch

        from graphtemper.calibrators.training import glorot, zeros
        from graphtemper_research.models.losses import cross_entropy

        generator = torch.Generator().manual_seed(self.seed)
        classes = context.probabilities.shape[1]
        parameters = [glorot((classes, self.hidden), generator), zeros(self.hidden)]
        parameters += [glorot((self.hidden, classes), generator), zeros(classes)]
        optimiser = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        truth, rows = torch.from_numpy(labels), torch.from_numpy(np.asarray(fit))
        imitate, measure = (torch.from_numpy(part) for part in (roles.imitate, roles.measure))
        best, best_epoch, smallest = list[NDArray[np.float32]](), 0, math.inf
        for epoch in range(1, self.epochs + 1):
            logits = self._logits(parameters, context, generator)
            loss = cross_entropy(logits[rows], truth[rows])
            if epoch > self.warm:
                p = logits.softmax(dim=1)
                hits = p[imitate].gather(1, truth[imitate][:, None])[:, 0]
                size = soft_size(p[measure], hits, self.level, self.smoothing)
                loss = loss + self.weight * (size - self.target).relu().mean()
            optimiser.zero_grad()
            torch.autograd.backward([loss])
            optimiser.step()
            if epoch % _EVERY == 0 or epoch == self.epochs:
                arrays = [parameter.detach().numpy().copy() for parameter in parameters]
                size_now = self._set_size(self._corrected(arrays, context), labels, roles)
                if size_now < smallest:
                    best, best_epoch, smallest = arrays, epoch, size_now
        return best, best_epoch

    def _set_size(self, p: FloatArray, labels: NDArray[np.int64], roles: Roles) -> float:
        scores, rows = self._scores(p, "choose"), roles.imitate
        limit = conformal.threshold(scores[rows, labels[rows]], self.level)
        return float((scores[roles.measure] <= limit).sum(axis=1).mean())

    def _logits(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        from graphtemper.calibrators.training import dropped, product

        first, first_bias, second, second_bias = parameters
        matrix = context.operator
        mixed = product(matrix, matrix, dropped(context.probabilities, self.dropout, generator))
        hidden = dropped((mixed @ first + first_bias).relu(), self.dropout, generator)
        return product(matrix, matrix, hidden @ second) + second_bias

    def _corrected(self, arrays: list[NDArray[np.float32]], context: Context) -> FloatArray:
        import torch

        with torch.no_grad():
            logits = self._logits([torch.from_numpy(array) for array in arrays], context, None)
        return temperature.apply(logits.numpy().astype(np.float64))

    def _transform(self, inputs: Inputs) -> FloatArray:
        return self._corrected(self.parameters_, self._context(inputs))


def soft_size(p: Tensor, hits: Tensor, level: float, smoothing: float) -> Tensor:
    r"""Return a differentiable number of classes in each set, (n,).

    A class is in if its probability reaches the quantile of the true classes' probabilities
    ``hits`` that leaves a fraction ``level`` (with the conformal correction) above it.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    >>> hits = torch.linspace(0.3, 0.9, 19)
    >>> soft_size(p, hits, 0.9, 1e-4).tolist()
    [1.0, 2.0]
    """
    import torch

    count = len(hits)
    above = math.ceil((count + 1) * level) / count
    # The smallest order statistic at or above the level, as in the authors' code.
    chosen = min(max(1.0 - above, 0.0), 1.0)
    quantile = torch.quantile(hits, chosen, interpolation="higher")
    return ((p - quantile) / smoothing).sigmoid().sum(dim=1)
