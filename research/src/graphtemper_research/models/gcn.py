r"""The graph convolutional network of Kipf and Welling (2017): trained with torch, run with NumPy.

A layer is :math:`H' = S H W + b` with the self-loop operator S of `graphtemper.graph.operators`,
and there is a rectifier between layers. Only ``fit`` needs torch.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from graphtemper.estimators import HasParameters
from graphtemper.graph import Graph, Nodes, operator, select_labelled
from graphtemper.models import ProjectedPasses


class GCN(HasParameters):
    """A graph convolutional network for node classification.

    Parameters
    ----------
    hidden : int
        Width of the hidden layers.
    layers : int
        Number of layers, and of hops that a prediction depends on.
    epochs : int
        Steps of Adam, each on the whole graph.
    lr, weight_decay : float
        Adam's step size and L2 penalty (on weights and biases).
    dropout : float
        Fraction of hidden units dropped in training; the input features are not dropped.
    loss : {"cross-entropy", "focal", "gcl"}
        Training loss; see `graphtemper_research.models.losses`.
    gamma : float, optional
        Strength of the focal or GCL loss; None means that loss's default.
    seed : int
        Seed of the initial weights and of the dropout.

    Attributes
    ----------
    layers_ : list of (weights, bias)
        Arrays of shape (in, out) and (out,) for each layer.
    losses_ : (epochs,) array
        Training loss of every epoch (shorter if patience ended the training).
    best_epoch_ : int
        The epoch, counted from 1, that the weights are from.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(300, degree=10, homophily=0.9, snr=1.0, num_classes=3, seed=1)
    >>> model = GCN(hidden=8, epochs=30).fit(g, nodes=range(150))
    >>> model(g).shape
    (300, 3)
    """

    unread: ClassVar = ("edge_features", "edge_type", "node_type")

    def __init__(
        self,
        hidden: int = 32,
        layers: int = 2,
        epochs: int = 120,
        lr: float = 0.01,
        weight_decay: float = 5e-4,
        dropout: float = 0.5,
        loss: str = "cross-entropy",
        gamma: float | None = None,
        seed: int = 0,
    ) -> None:
        self.hidden = hidden
        self.layers = layers
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.loss = loss
        self.gamma = gamma
        self.seed = seed

    def fit(
        self,
        graph: Graph,
        nodes: Nodes = None,
        val_nodes: Nodes = None,
        *,
        patience: int | None = None,
    ) -> GCN:
        """Train on labelled nodes.

        The same seed gives the same weights. Torch's global random state does not change. Small
        graphs are trained on one torch thread; the number of threads is restored afterwards.

        Parameters
        ----------
        graph
            The labelled graph.
        nodes
            The nodes to train on, as a boolean mask or indices (default all labelled nodes).
        val_nodes
            If given, the weights are those of the epoch with the lowest loss on these nodes, and
            otherwise those of the last epoch.
        patience
            If given, training ends after this number of epochs in which both loss and accuracy on
            ``val_nodes`` are worse than the best so far. The weights are then those of the last
            epoch in which neither is.
        """
        from graphtemper_research.models.gcn_training import Watch, train

        rows = select_labelled(graph, nodes)[0]
        val_rows = None if val_nodes is None else select_labelled(graph, val_nodes)[0]
        self.layers_, self.losses_, self.best_epoch_ = train(
            self, graph, rows, val_rows, Watch(patience)
        )
        return self

    def __call__(self, graph: Graph) -> NDArray[np.float32]:
        """Return logits (N, K) for every node."""
        return self._passes().logits(graph)

    def predict(self, graph: Graph) -> NDArray[np.intp]:
        """Return the class with the largest logit of every node, (N,)."""
        return np.asarray(self(graph).argmax(axis=1))

    def fast_passes(self) -> ProjectedPasses | None:
        """Return the model's fast passes, or None for a subclass that overrides ``__call__``."""
        return self._passes() if type(self).__call__ is GCN.__call__ else None

    def _passes(self) -> ProjectedPasses:
        return ProjectedPasses(self.layers_[0][0], self.finish)

    def finish(self, projected: NDArray[np.float32], graph: Graph) -> NDArray[np.float32]:
        """Return the logits (N, K) from X W_1 and the edges of a graph."""
        matrix = operator(graph, "self-loop")
        signal = matrix @ projected + self.layers_[0][1]
        for weights, bias in self.layers_[1:]:
            signal = matrix @ (np.maximum(signal, 0.0) @ weights) + bias
        return np.asarray(signal, dtype=np.float32)
