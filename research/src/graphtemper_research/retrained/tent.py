"""Tent: minimise the entropy of the predictions on the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.retrained.base import Context, Retrained

if TYPE_CHECKING:
    from torch import Generator, Tensor

_VARIANCE_FLOOR = 1e-5


class Tent(Retrained):
    r"""Adapt a batch-normalised GCN to the target by lowering the entropy of its predictions.

    .. math:: H = \mathrm{relu}(g \odot \mathrm{norm}(S X W_1) + b), \quad
       z = S H W_2 + b_2, \qquad \min_{g, b}\ -\frac1N \sum_{ik} p_{ik} \log p_{ik}

    The network is trained at the source (Tent needs normalisation layers, which the package's GCN
    does not have). At the target the normalisation takes the target's own means and variances, and
    only g and b change. A test-time baseline: lower entropy means higher confidence, whether right
    or wrong.

    Parameters
    ----------
    steps : int
        Steps of Adam at the target. The authors take one per batch of a stream; a graph is a single
        batch, so it is repeated. With 0 only the statistics adapt.
    step_size : float
        Adam's step size at the target.
    hidden, dropout, lr, weight_decay, epochs, seed
        The network and its training at the source.

    References
    ----------
    Wang et al., "Tent: Fully Test-Time Adaptation by Entropy Minimization", ICLR 2021.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> tent = Tent(epochs=5).fit(np.zeros((200, 2)), g.labels, g, range(100))
    >>> tent.transform(np.zeros((200, 2)), graph=g).shape
    (200, 2)
    """

    reference = "Wang et al., ICLR 2021"
    differs = "adapts a two-layer GCN with batch normalisation of its own; all nodes are one batch"

    def __init__(
        self,
        steps: int = 10,
        step_size: float = 1e-3,
        hidden: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        seed: int = 0,
    ) -> None:
        self.steps = steps
        self.step_size = step_size
        self._set_model(hidden, dropout, lr, weight_decay, epochs, seed)

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        from graphtemper.calibrators.training import glorot, zeros

        context = self._context(inputs.required_graph)
        columns, classes = context.features.shape[1], inputs.logits.shape[1]

        def initial(generator: Generator) -> list[Tensor]:
            import torch

            first = glorot((columns, self.hidden), generator)
            gain = torch.ones(self.hidden, requires_grad=True)
            second = glorot((self.hidden, classes), generator)
            return [first, gain, zeros(self.hidden), second, zeros(classes)]

        self._train(
            inputs,
            labelled,
            initial,
            lambda parameters, generator: self._logits(parameters, context, generator),
            lambda parameters: self._logits(parameters, context, None),
        )

    def _logits(
        self, parameters: list[Tensor], context: Context, generator: Generator | None
    ) -> Tensor:
        from graphtemper.calibrators.training import dropped, product

        first, gain, shift, second, bias = parameters
        matrix = context.operator
        hidden = product(matrix, matrix, product(context.features, context.transposed, first))
        deviation = (hidden.var(dim=0, unbiased=False) + _VARIANCE_FLOOR).sqrt()
        hidden = (gain * (hidden - hidden.mean(dim=0)) / deviation + shift).relu()
        hidden = dropped(hidden, self.dropout, generator)
        return product(matrix, matrix, hidden @ second) + bias

    def _transform(self, inputs: Inputs) -> FloatArray:
        import torch

        from graphtemper.calibrators.training import threads_for

        context = self._context(inputs.required_graph)
        parameters = [torch.from_numpy(array.copy()) for array in self.parameters_]
        moving = [parameters[1].requires_grad_(), parameters[2].requires_grad_()]
        optimiser = torch.optim.Adam(moving, lr=self.step_size)
        with threads_for(inputs.logits.shape[0] * self.hidden):
            for _ in range(self.steps):
                optimiser.zero_grad()
                log_p = self._logits(parameters, context, None).log_softmax(dim=1)
                torch.autograd.backward([-(log_p.exp() * log_p).sum(dim=1).mean()])
                optimiser.step()
            with torch.no_grad():
                logits = self._logits(parameters, context, None)
        return temperature.apply(logits.numpy().astype(np.float64))
