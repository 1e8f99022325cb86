"""GETS: a mixture of graph experts gives each node its temperature."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors, temperature
from graphtemper.calibrators import Inputs, Labelled, NetworkCalibrator, Stop, Training
from graphtemper.graph import operator
from graphtemper_research.harness.numeric import FloatArray

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from graphtemper.calibrators.training import Problem

Scale = Literal["node", "node_class"]
INPUTS = ("logits", "features", "degree")
# Every non-empty subset of the inputs, written with plus signs.
EXPERTS = tuple("+".join(chosen) for size in (1, 2, 3) for chosen in combinations(INPUTS, size))
_OF_GATE, _PER_EXPERT = 4, 7
_WIDTHS = ("hidden", "feature_width", "degree_width", "active")
_NUMBERS = ("lr", "weight_decay", "dropout", "balance")
# The settings of the released configuration files, by graph.
RELEASED: dict[str, dict[str, Any]] = {
    graph: dict(zip((*_WIDTHS, *_NUMBERS), values, strict=True))
    for graph, values in {
        "cora": (16, 16, 16, 2, 0.001, 0.0, 0.5, 1.0),
        "citeseer": (16, 32, 64, 2, 0.1, 0.01, 0.2, 1.0),
        "pubmed": (16, 64, 64, 1, 0.1, 0.0, 0.8, 1.0),
        "amazon_photo": (32, 64, 32, 2, 0.1, 0.001, 0.8, 0.1),
        "amazon_computers": (16, 64, 16, 2, 0.1, 0.0, 0.8, 1.0),
        "coauthor_cs": (16, 64, 32, 1, 0.1, 0.0, 0.8, 1.0),
        "coauthor_physics": (16, 64, 64, 1, 0.1, 0.001, 0.2, 1.0),
        "ogbn_arxiv": (16, 64, 64, 2, 0.1, 0.01, 0.2, 1.0),
        "cora_full": (16, 64, 16, 1, 0.1, 0.0, 0.8, 1.0),
    }.items()
}
_LEAST_NOISE = 1e-2


class Context(NamedTuple):
    """What the experts read of one graph."""

    operator: sp.csr_matrix
    logits: Tensor
    features: sp.csr_matrix
    transposed: sp.csr_matrix
    degree: Tensor  # index into the embedding


class Gate(NamedTuple):
    """Scores of the experts at every node, (N, experts), before and after noise and choice."""

    gates: Tensor
    clean: Tensor
    noisy: Tensor
    deviation: Tensor


class GETS(NetworkCalibrator):
    r"""Graph convolutions of logits, features and degrees, mixed at each node by a noisy gate.

    .. math:: p_i = \mathrm{softmax}\big(z_i\,\mathrm{softplus}(\textstyle\sum_e g_{ie} t_{ie})\big)

    Each expert e is a two-layer graph convolution of a subset of {logits, projected features,
    degree embedding}; the gate keeps the k largest of its scores, which in training carry noise,
    and adds CV\ :sup:`2` of the experts' importance and load to the loss.

    Degrees are looked up among those of the source: a degree that is not among them uses the
    embedding of the largest smaller one.

    Parameters
    ----------
    scale : {"node", "node_class"}
        One multiplier per node, as in the paper, or one per node and class, as in the released
        code; the second changes predictions.
    experts : tuple of str
        Subsets of ``logits``, ``features`` and ``degree``, joined by plus signs.
    active : int
        k, the number of experts per node.
    hidden, feature_width, degree_width : int
        Widths of the hidden layer, the projected features and the embedding.
    dropout, balance : float
        Fraction of hidden units dropped in training; weight of the load loss.
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty, the limits, and the seed. Defaults are the authors' for cora;
        ``GETS(**RELEASED[graph])`` has their settings for nine graphs.
    stop : {"folds", "train", "calibration"}
        Which nodes end the training; see `GATS`.

    References
    ----------
    Zhuang et al., "GETS: Ensemble Temperature Scaling for Calibration in Graph Neural Networks",
    ICLR 2025.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> GETS(epochs=3).fit(z, g.labels, g, range(100)).transform(z, graph=g).shape
    (200, 2)
    """

    needs = ("labels", "graph", "features")
    reference = "Zhuang et al., ICLR 2025"
    differs = (
        'one multiplier per node (released code: scale="node_class"); embeddings are trained; '
        "GCN experts only (the code also has GAT and GIN)"
    )

    def __init__(
        self,
        scale: Scale = "node",
        experts: tuple[str, ...] = EXPERTS,
        active: int = 2,
        hidden: int = 16,
        feature_width: int = 16,
        degree_width: int = 16,
        dropout: float = 0.5,
        balance: float = 1.0,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        epochs: int = 1000,
        patience: int = 50,
        stop: Stop = "folds",
        seed: int = 0,
    ) -> None:
        self.scale: Scale = scale
        self.granularity = self.scale
        self.preserves_argmax = self.scale == "node"
        self.experts = experts
        self.active = active
        self.hidden = hidden
        self.feature_width = feature_width
        self.degree_width = degree_width
        self.dropout = dropout
        self.balance = balance
        self._set_training(Training(lr, weight_decay, epochs, patience, stop, seed))

    _drawn: Gate

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        self.degrees_ = np.unique(inputs.required_graph.degrees)
        self.num_features_ = inputs.required_graph.num_features
        super()._fit(inputs, labelled)
        self.__dict__.pop("_drawn", None)

    def _context(self, inputs: Inputs) -> Context:
        import torch

        graph = inputs.required_graph
        if graph.num_features != self.num_features_:
            raise errors.other_features(
                f"this GETS was fitted on {self.num_features_} feature columns but the graph has "
                f"{graph.num_features}; use the same feature space."
            )
        features = sp.csr_matrix(graph.features)
        return Context(
            operator(graph, "self-loop"),
            torch.from_numpy(inputs.logits.astype(np.float32)),
            features,
            sp.csr_matrix(features.T),
            torch.from_numpy(nearest_degree(graph.degrees, self.degrees_)),
        )

    def _initial(self, context: Context, generator: Generator) -> list[Tensor]:
        """Gate: projection with bias, scores, noise. Expert: the same, embedding, two layers."""
        import torch

        from graphtemper.calibrators.training import glorot, zeros

        classes = context.logits.shape[1]
        count, columns = len(self.experts), context.features.shape[1]
        outputs = 1 if self.scale == "node" else classes
        gate_width = self.feature_width + classes
        parameters = [glorot((columns, self.feature_width), generator), zeros(self.feature_width)]
        parameters += [zeros(gate_width, count), zeros(gate_width, count)]
        widths = {"logits": classes, "features": self.feature_width, "degree": self.degree_width}
        for expert in self.experts:
            width = sum(widths[name] for name in expert.split("+"))
            table = torch.randn(self.degrees_.size, self.degree_width, generator=generator)
            parameters += [
                glorot((columns, self.feature_width), generator),
                zeros(self.feature_width),
                table.requires_grad_(),
                glorot((width, self.hidden), generator),
                zeros(self.hidden),
                glorot((self.hidden, outputs), generator),
                zeros(outputs),
            ]
        return parameters

    def _multipliers(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        import torch

        projected = self._projected(parameters, context)
        drawn = self._gate(parameters, context, projected[0], generator)
        if generator is not None:
            self._drawn = drawn  # the load of this step is that of the same noise
        outputs = self._experts(parameters, context, projected[1:], generator)
        scale = torch.nn.functional.softplus((drawn.gates[:, :, None] * outputs).sum(dim=1))
        return scale[:, 0] if self.scale == "node" else scale

    def _own(self, parameters: list[Tensor], index: int) -> list[Tensor]:
        return parameters[_OF_GATE + _PER_EXPERT * index :][:_PER_EXPERT]

    def _projected(self, parameters: list[Tensor], context: Context) -> list[Tensor]:
        """Return the projected features of the gate, and of each expert (empty if unused)."""
        import torch

        from graphtemper.calibrators.training import product

        read = [i for i, expert in enumerate(self.experts) if "features" in expert.split("+")]
        layers = [parameters[:2], *(self._own(parameters, i)[:2] for i in read)]
        # One sparse product for all.
        weights, shifts = (torch.cat(part, dim=-1) for part in zip(*layers, strict=True))
        together = product(context.features, context.transposed, weights) + shifts
        gate, *found = together.view(len(together), -1, self.feature_width).unbind(dim=1)
        by_expert = dict(zip(read, found, strict=True))
        return [gate, *(by_expert.get(i, gate[:, :0]) for i in range(len(self.experts)))]

    def _experts(
        self,
        parameters: list[Tensor],
        context: Context,
        projected: list[Tensor],
        generator: Generator | None,
    ) -> Tensor:
        """Return what every expert says of every node, (N, experts, outputs)."""
        import torch

        from graphtemper.calibrators.training import dropped, product

        matrix, hidden, first_biases, last, last_biases = context.operator, [], [], [], []
        for index, expert in enumerate(self.experts):
            _, _, table, first, first_bias, second, second_bias = self._own(parameters, index)
            names = expert.split("+")
            parts = [context.logits] if "logits" in names else []
            parts += [projected[index]] if "features" in names else []
            parts += [table[context.degree]] if "degree" in names else []
            hidden.append(torch.cat(parts, dim=1) @ first)
            first_biases.append(first_bias)
            last.append(second)
            last_biases.append(second_bias)
        # The convolutions of all experts in one product of their columns.
        mixed = product(matrix, matrix, torch.cat(hidden, dim=1)) + torch.cat(first_biases)
        mixed = dropped(mixed.relu(), self.dropout, generator)
        shape = (len(mixed), len(self.experts), -1)
        columns = torch.einsum("neh,eho->neo", mixed.view(shape), torch.stack(last))
        outputs = product(matrix, matrix, columns.flatten(1)).view(shape)
        return outputs + torch.stack(last_biases)

    def _gate(
        self,
        parameters: list[Tensor],
        context: Context,
        features: Tensor,
        generator: Generator | None,
    ) -> Gate:
        import torch

        scores, noise = parameters[2:_OF_GATE]
        inputs = torch.cat([features, context.logits], dim=1)
        clean = inputs @ scores
        deviation = torch.nn.functional.softplus(inputs @ noise) + _LEAST_NOISE
        noisy = clean
        if generator is not None:
            noisy = clean + deviation * torch.randn(clean.shape, generator=generator)
        largest, index = noisy.topk(self.active, dim=1)
        gates = torch.zeros_like(noisy).scatter(1, index, largest.softmax(dim=1))
        return Gate(gates, clean, noisy, deviation)

    def _problem(self, inputs: Inputs, context: Context) -> Problem:
        problem = super()._problem(inputs, context)

        def loss(
            parameters: list[Tensor], rows: Tensor, labels: Tensor, generator: Generator
        ) -> Tensor:
            return problem.loss(parameters, rows, labels, generator) + self._load()

        return replace(problem, loss=loss)

    def _load(self) -> Tensor | float:
        """Return the load loss of the experts in this step, whatever the labels."""
        if len(self.experts) == 1 or self.balance == 0.0:
            return 0.0
        gate = self._drawn
        importance, load = gate.gates.sum(dim=0), expected_load(gate, self.active)
        return self.balance * (squared_variation(importance) + squared_variation(load))

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        if self.scale == "node_class":
            raise errors.conflict(
                'GETS(scale="node_class") has one scale per class; use transform.'
            )
        return super()._temperatures(inputs)

    def _transform(self, inputs: Inputs) -> FloatArray:
        if self.scale == "node":
            return super()._transform(inputs)
        return temperature.apply(inputs.logits * self._scales(inputs))


def nearest_degree(degrees: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each degree among sorted ones, or of the largest smaller one.

    Examples
    --------
    >>> nearest_degree(np.array([0, 2, 3, 9]), np.array([1, 2, 5])).tolist()
    [0, 1, 1, 2]
    """
    return np.maximum(np.searchsorted(among, degrees, side="right") - 1, 0).astype(np.int64)


def squared_variation(values: Tensor) -> Tensor:
    """Return the variance over the squared mean.

    Examples
    --------
    >>> import torch
    >>> round(squared_variation(torch.tensor([1.0, 3.0])).item(), 4)   # 2 / 4
    0.5
    """
    return values.var() / (values.mean() ** 2 + 1e-10)


def expected_load(gate: Gate, active: int) -> Tensor:
    """Return the expected number of nodes that use each expert if its noise were drawn again.

    An expert is in when its noisy score is above the k-th largest of the others' (Shazeer et al.,
    ICLR 2017); where all experts are active, each has every node.
    """
    import torch

    rows, count = gate.clean.shape
    if active >= count:
        return torch.full((count,), float(rows))
    top = gate.noisy.topk(active + 1, dim=1).values
    # The bar to pass: the next score below for those inside, the last one inside for the others.
    bar = torch.where(gate.gates > 0, top[:, active:], top[:, active - 1 : active])
    chance: Tensor = torch.special.ndtr((gate.clean - bar) / gate.deviation)
    return chance.sum(dim=0)
