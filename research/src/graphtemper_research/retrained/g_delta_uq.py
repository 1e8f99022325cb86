"""G-DeltaUQ: a GCN trained on differences to random anchors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import temperature
from graphtemper.calibrators import Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray, stream
from graphtemper_research.retrained.base import Context, Retrained, training_nodes

if TYPE_CHECKING:
    from torch import Generator, Tensor

Rescale = Literal["none", "sigma"]


class GDeltaUQ(Retrained):
    r"""A two-layer GCN of [x - a, a], averaged over anchors a; its spread can lower confidence.

    .. math:: z_i^{(m)} = f([X - a_m,\ a_m])_i, \qquad
       \bar z_i = \frac1M \sum_m z_i^{(m)}, \qquad
       z_i = \frac{\bar z_i}{1 + e^{c_i}} \ \text{(sigma)}

    with :math:`c_i` the mean over classes of the deviation of sigmoid(z) over anchors. In training
    each node gets the features of a random training node as its anchor, redrawn in every pass; at
    prediction M anchors of the training nodes are used for all nodes. The first layer is linear in
    the anchor, so anchors cost no second pass over the features and sparse features stay sparse.

    Parameters
    ----------
    rescale : {"none", "sigma"}
        What is done with the spread. ``"none"`` is what the authors' node results used;
        ``"sigma"`` is the formula, which halves the logits even where the anchors agree.
    anchors : int
        M, in training and prediction.
    hidden, dropout, lr, weight_decay, epochs, seed
        The network and its training.

    References
    ----------
    Trivedi et al., "Accurate and Scalable Estimation of Epistemic Uncertainty for Graph Neural
    Networks", ICLR 2024.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> model = GDeltaUQ(epochs=3).fit(np.zeros((200, 2)), g.labels, g, range(100))
    >>> model.transform(np.zeros((200, 2)), graph=g).shape
    (200, 2)
    """

    reference = "Trivedi et al., ICLR 2024"
    differs = (
        "anchors are features of training nodes (the authors' shuffle), not Gaussian draws; "
        "anchors at the input only"
    )

    def __init__(
        self,
        rescale: Rescale = "none",
        anchors: int = 10,
        hidden: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        seed: int = 0,
    ) -> None:
        self.rescale: Rescale = rescale
        self.anchors = anchors
        self._set_model(hidden, dropout, lr, weight_decay, epochs, seed)

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from graphtemper.calibrators.training import glorot, zeros

        context = self._context(inputs.required_graph)
        rows, _ = training_nodes(labelled)
        columns, classes = context.features.shape[1], inputs.logits.shape[1]
        chosen = stream(self.seed, "anchors").choice(rows, self.anchors)
        self.anchors_ = sp.csr_matrix(context.features[chosen])

        def initial(generator: Generator) -> list[Tensor]:
            weights = [glorot((columns, self.hidden), generator) for _ in range(2)]
            second = glorot((self.hidden, classes), generator)
            return [*weights, zeros(self.hidden), second, zeros(classes)]

        self._train(
            inputs,
            labelled,
            initial,
            lambda parameters, generator: self._training_logits(
                parameters, context, rows, generator
            ),
            lambda parameters: self._output(
                parameters, context, self._anchored(parameters, context).mean(dim=0)
            ),
        )

    def _training_logits(
        self,
        parameters: list[Tensor],
        context: Context,
        rows: NDArray[np.int64],
        generator: Generator,
    ) -> Tensor:
        """Return the mean logits of passes in which every node has an anchor of its own."""
        import torch

        from graphtemper.calibrators.training import product

        of_input, of_anchor = parameters[:2]
        matrix, of_rows = context.operator, context.features[rows]
        own = product(matrix, matrix, product(context.features, context.transposed, of_input))
        # [x - a, a] W = x W_1 + a (W_2 - W_1): the anchor's part is a row of X (W_2 - W_1).
        shifts = product(of_rows, sp.csr_matrix(of_rows.T), of_anchor - of_input)
        total = torch.zeros(1)
        for _ in range(self.anchors):
            drawn = torch.randint(len(shifts), (len(own),), generator=generator)
            moved = product(matrix, matrix, shifts.index_select(0, drawn))
            total = total + self._hidden(parameters, own + moved, generator)
        # The second layer is linear: the mean of its inputs gives the mean of the logits.
        return self._output(parameters, context, total / self.anchors)

    def _anchored(self, parameters: list[Tensor], context: Context) -> Tensor:
        """Return the hidden layer for each of the fixed anchors, (M, N, hidden)."""
        import torch

        from graphtemper.calibrators.training import product

        of_input, of_anchor = parameters[:2]
        matrix = context.operator
        own = product(matrix, matrix, product(context.features, context.transposed, of_input))
        shifts = torch.from_numpy(self.anchors_ @ (of_anchor - of_input).detach().numpy())
        # All nodes have the same anchor: S times a constant column is the row sums of S.
        sums = torch.from_numpy(np.asarray(matrix.sum(axis=1), dtype=np.float32))
        return torch.stack([self._hidden(parameters, own + sums * row, None) for row in shifts])

    def _hidden(
        self, parameters: list[Tensor], aggregated: Tensor, generator: Generator | None
    ) -> Tensor:
        from graphtemper.calibrators.training import dropped

        return dropped((aggregated + parameters[2]).relu(), self.dropout, generator)

    def _output(self, parameters: list[Tensor], context: Context, hidden: Tensor) -> Tensor:
        from graphtemper.calibrators.training import product

        second, second_bias = parameters[3:]
        return product(context.operator, context.operator, hidden @ second) + second_bias

    def _transform(self, inputs: Inputs) -> FloatArray:
        import torch

        from graphtemper.calibrators.training import threads_for

        parameters = [torch.from_numpy(array) for array in self.parameters_]
        context = self._context(inputs.required_graph)
        with torch.no_grad(), threads_for(len(inputs.logits) * self.hidden):
            hidden = self._anchored(parameters, context)
            each = torch.stack([self._output(parameters, context, layer) for layer in hidden])
        passes = each.numpy().astype(np.float64)
        logits = passes.mean(axis=0)
        return temperature.apply(logits if self.rescale == "none" else damped(passes))


def damped(passes: FloatArray) -> FloatArray:
    r"""Return the mean logits divided by :math:`1 + e^{c}`, c the mean deviation over classes.

    Examples
    --------
    >>> damped(np.array([[[2.0, -4.0]], [[2.0, -4.0]]])).tolist()   # no spread: halved
    [[1.0, -2.0]]

    The deviation divides by M - 1, as in the authors' code (by 1 for a single anchor).
    """
    with np.errstate(over="ignore"):
        spread = 1.0 / (1.0 + np.exp(-passes))
        spread = spread.std(axis=0, ddof=int(len(passes) > 1)).mean(axis=1)
    return np.asarray(passes.mean(axis=0) / (1.0 + np.exp(spread))[:, None])
