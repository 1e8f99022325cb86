"""CaGCN: a graph convolution of the logits gives each node its temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphtemper._core.checks import (
    check_at_least,
    check_fraction,
    check_integer,
    check_non_negative,
)
from graphtemper.calibrators.base import Inputs
from graphtemper.calibrators.network import NetworkCalibrator, Stop, Training
from graphtemper.graph.operators import multiply, operator

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Context(NamedTuple):
    """The operator and the aggregated logits S z, which are constant."""

    operator: sp.csr_matrix
    aggregated: Tensor


class CaGCN(NetworkCalibrator):
    r"""A two-layer graph convolution of the logits, whose output scales them.

    .. math:: t = S\,\mathrm{relu}(S z W_1 + b_1) W_2 + b_2, \qquad
       p_i = \mathrm{softmax}(z_i \log(e^{t_i} + f))

    trained on NLL + :math:`\lambda R`, where R is the mean of 1 - p(1) + p(2) at correct nodes and
    of p(1) - p(2) at wrong ones, p(1) and p(2) being the two largest probabilities.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    floor : float
        f: 1.1 is the authors', 1 is the softplus of the version in GATS and GETS.
    margin : float
        :math:`\lambda`: 0.5 is the authors', 0 that of the version in GATS and GETS.
    dropout : float
        Fraction of hidden units dropped in training.
    lr, weight_decay, epochs, patience, seed
        Adam, its L2 penalty, the limits, and the seed of weights and dropout.
    stop : {"folds", "train", "calibration"}
        Which nodes end the training; see `GATS`. The authors use the calibration nodes themselves.

    References
    ----------
    Wang et al., "Be Confident! Towards Trustworthy Graph Neural Networks via Confidence
    Calibration", NeurIPS 2021.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> p = CaGCN(epochs=5).fit(z, g.labels, g, range(100)).transform(z, graph=g)
    >>> p.shape
    (200, 2)
    """

    authors_stop = "calibration"
    reference = "Wang et al., NeurIPS 2021"
    differs = "logits are frozen (the authors' code fits them with the base model's dropout on)"

    def __init__(
        self,
        hidden: int = 16,
        floor: float = 1.1,
        margin: float = 0.5,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-3,
        epochs: int = 2000,
        patience: int = 100,
        stop: Stop = "folds",
        seed: int = 0,
    ) -> None:
        self.hidden = check_integer(hidden, "hidden", 1)
        self.floor = check_at_least(floor, "floor", 1.0)
        self.margin = check_non_negative(margin, "margin")
        self.dropout = check_fraction(dropout, "dropout")
        self._set_training(Training(lr, weight_decay, epochs, patience, stop, seed))

    def _context(self, inputs: Inputs) -> Context:
        import torch

        matrix = operator(inputs.required_graph, "self-loop")
        return Context(matrix, torch.from_numpy(multiply(matrix, inputs.logits.astype(np.float32))))

    def _initial(self, context: Context, generator: Generator) -> list[Tensor]:
        from graphtemper.calibrators.training import glorot, zeros

        classes = context.aggregated.shape[1]
        first = glorot((classes, self.hidden), generator)
        return [first, zeros(self.hidden), glorot((self.hidden, 1), generator), zeros(1)]

    def _multipliers(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        from graphtemper.calibrators.torch_sparse import product
        from graphtemper.calibrators.training import dropped

        first, first_bias, second, second_bias = parameters
        hidden = dropped((context.aggregated @ first + first_bias).relu(), self.dropout, generator)
        output = product(context.operator, context.operator, hidden @ second) + second_bias
        return soft_scale(output[:, 0], self.floor)

    def _penalty(self, logits: Tensor, labels: Tensor) -> Tensor | float:
        return self.margin * margin_loss(logits, labels) if self.margin else 0.0


def soft_scale(output: Tensor, floor: float) -> Tensor:
    r"""Return :math:`\log(e^t + f)`, which is never below log f.

    Examples
    --------
    >>> import torch
    >>> [round(x, 4) for x in soft_scale(torch.tensor([0.0, -100.0, 100.0]), 1.1).tolist()]
    [0.7419, 0.0953, 100.0]
    """
    offset = float(np.log(floor))
    # log(e^t + f) = log f + softplus(t - log f), and softplus does not overflow.
    import torch

    return offset + torch.nn.functional.softplus(output - offset)


def margin_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of 1 - p(1) + p(2) at correct nodes and p(1) - p(2) at wrong ones.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.7, 0.2, 0.1]] * 2)
    >>> round(margin_loss(p.log(), torch.tensor([0, 1])).item(), 4)   # (0.5 + 0.5) / 2
    0.5
    """
    p = logits.softmax(dim=1)
    top, classes = p.topk(2, dim=1)
    gap = top[:, 0] - top[:, 1]
    right = (classes[:, 0] == labels).to(gap.dtype)
    return (right * (1.0 - gap) + (1.0 - right) * gap).mean()
