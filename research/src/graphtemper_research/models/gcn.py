r"""The graph convolutional network of Kipf and Welling (2017): trained with torch, run with NumPy.

A layer is :math:`H' = S H W + b` with the self-loop operator S of `graphtemper.graph.operators`,
and there is a rectifier between layers. Only ``fit`` needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import check_integer, check_number
from graphtemper._core.parameters import HasParameters
from graphtemper.graph import Graph, Nodes, select_labelled
from graphtemper.graph.operators import multiply, operator, project
from graphtemper.models.passes import ProjectedPasses
from graphtemper.models.predictor import BUNDLED_UNREAD, as_graph, check_one_node_type
from graphtemper_research.models.losses import named

if TYPE_CHECKING:
    from torch_geometric.data import Data


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

    unread: ClassVar = BUNDLED_UNREAD

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
        self.hidden = check_integer(hidden, "hidden", 1)
        self.layers = check_integer(layers, "layers", 1)
        self.epochs = check_integer(epochs, "epochs", 1)
        self.lr = check_number(lr, "lr")
        if not 0 < self.lr < float("inf"):
            raise errors.range(f"lr must be positive and finite, not {lr}.")
        self.weight_decay = check_number(weight_decay, "weight_decay")
        if not 0 <= self.weight_decay < float("inf"):
            raise errors.range(f"weight_decay must be 0 or more and finite, not {weight_decay}.")
        self.dropout = check_number(dropout, "dropout")
        if not 0 <= self.dropout < 1:
            raise errors.range(f"dropout must be in [0, 1), not {dropout}.")
        if not isinstance(loss, str):
            raise errors.choice(f"loss must be the name of a loss, not {type(loss).__name__}.")
        self.loss = loss
        self.gamma = None if gamma is None else check_number(gamma, "gamma")
        named(self.loss, self.gamma)
        self.seed = check_integer(seed, "seed", 0, 2**63 - 1)

    def fit(
        self,
        graph: Graph | Data,
        nodes: Nodes = None,
        val_nodes: Nodes = None,
        *,
        patience: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> GCN:
        """Train on labelled nodes.

        The same seed gives the same weights. Torch's global random state does not change. Small
        graphs are trained on one torch thread; the number of threads is restored afterwards.

        Parameters
        ----------
        graph
            The labelled graph; a PyG ``Data`` is converted.
        nodes
            The nodes to train on, as a boolean mask or indices (default all labelled nodes).
        val_nodes
            If given, the weights are those of the epoch with the lowest loss on these nodes, and
            otherwise those of the last epoch.
        patience
            If given, training ends after this number of epochs in which both loss and accuracy on
            ``val_nodes`` are worse than the best so far. The weights are then those of the last
            epoch in which neither is.
        progress
            Called with (epoch, number of epochs) after every epoch.
        """
        from graphtemper_research.models.gcn_training import Settings, train

        if patience is not None:
            check_integer(patience, "patience", 1)
            if val_nodes is None:
                raise errors.missing(
                    "patience needs val_nodes=..., the nodes that it is measured on."
                )
        graph = as_graph(graph)
        check_one_node_type(graph, "GCN")
        rows, labels = select_labelled(graph, nodes)
        if np.unique(labels).size < 2:
            raise errors.too_few("the nodes have one class; fit needs at least two.")
        trained = train(
            graph,
            operator(graph, "self-loop"),
            rows,
            None if val_nodes is None else select_labelled(graph, val_nodes)[0],
            Settings(
                widths=[graph.num_features, *[self.hidden] * (self.layers - 1), graph.num_classes],
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                dropout=self.dropout,
                loss=named(self.loss, self.gamma),
                seed=self.seed,
                patience=patience,
            ),
            progress,
        )
        self.layers_, self.losses_ = trained.layers, trained.losses
        self.best_epoch_ = trained.epoch
        return self

    def __call__(self, graph: Graph | Data) -> NDArray[np.float32]:
        """Return logits (N, K) for every node."""
        return self._passes().logits(as_graph(graph))

    def predict(self, graph: Graph | Data) -> NDArray[np.intp]:
        """Return the class with the largest logit of every node, (N,)."""
        return np.asarray(self(graph).argmax(axis=1))

    def fast_passes(self) -> ProjectedPasses | None:
        """Return the model's fast passes, or None for a subclass that overrides ``__call__``."""
        return self._passes() if type(self).__call__ is GCN.__call__ else None

    def _passes(self) -> ProjectedPasses:
        self._check_fitted()
        return ProjectedPasses(self.layers_[0][0], self.finish)

    def finish(self, projected: NDArray[np.float32], graph: Graph) -> NDArray[np.float32]:
        """Return the logits (N, K) from X W_1 and the edges of a graph."""
        matrix = operator(graph, "self-loop")
        signal = multiply(matrix, projected) + self.layers_[0][1]
        for weights, bias in self.layers_[1:]:
            signal = multiply(matrix, project(np.maximum(signal, 0.0), weights)) + bias
        return np.asarray(signal, dtype=np.float32)

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            raise errors.not_fitted("this GCN is not fitted; call fit(graph, nodes).")
