"""A GCN trained with another loss, which calibrates in training: focal loss, and GCL."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from graphtemper import temperature
from graphtemper.calibrators import Inputs, Labelled
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.models import GCN
from graphtemper_research.retrained.base import Retrained, training_nodes


class _OtherLoss(Retrained):
    loss: ClassVar[str]

    def __init__(
        self,
        hidden: int = 64,
        dropout: float = 0.5,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        seed: int = 0,
    ) -> None:
        self._set_model(hidden, dropout, lr, weight_decay, epochs, seed)

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        graph, (rows, known) = inputs.required_graph, training_nodes(labelled)
        labels = np.full(graph.num_nodes, -1)
        labels[rows] = known
        self.model_ = GCN(**self.get_params(), loss=self.loss).fit(
            graph.replace(labels=labels), rows
        )

    def _transform(self, inputs: Inputs) -> FloatArray:
        return temperature.apply(self.model_(inputs.required_graph))


class FocalLoss(_OtherLoss):
    r"""A GCN trained with the focal loss :math:`-(1 - p_y)^\gamma \log p_y`, otherwise as the GCN.

    Its probabilities are taken as they are: the loss is meant to make them calibrated.

    Parameters
    ----------
    hidden, dropout, lr, weight_decay, epochs, seed
        The network and its training on the training nodes, for all epochs.

    References
    ----------
    Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.zeros((200, 2))
    >>> FocalLoss(epochs=3).fit(z, g.labels, g, range(100)).transform(z, graph=g).shape
    (200, 2)
    """

    loss = "focal"
    reference = "Mukhoti et al., NeurIPS 2020"
    differs = "one fixed strength, not one per confidence (FLSD-53)"


class GCL(_OtherLoss):
    """A GCN trained with the graph calibration loss, otherwise as the GCN.

    Its probabilities are taken as they are; see `graphtemper_research.models.losses`.

    Parameters
    ----------
    hidden, dropout, lr, weight_decay, epochs, seed
        The network and its training on the training nodes, for all epochs.

    References
    ----------
    Wang et al., "GCL: Graph Calibration Loss for Trustworthy Graph Neural Network", ACM MM 2022.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, seed=0)
    >>> z = np.zeros((200, 2))
    >>> GCL(epochs=3).fit(z, g.labels, g, range(100)).transform(z, graph=g).shape
    (200, 2)
    """

    loss = "gcl"
    reference = "Wang et al., ACM MM 2022"
