"""An observation: everything that can be seen of a frozen predictor on a graph without labels."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph, Nodes, select_nodes
from graphtemper.graph.moments import column_moments
from graphtemper.graph.operators import adjacency
from graphtemper.models.predictor import Predictor, checked_logits, predict
from graphtemper.signals import passes as perturb
from graphtemper.signals.passes import Kind


class Observation:
    """A frozen predictor on a graph, seen through some of its nodes and without labels.

    Labels and masks are removed on entry, before the predictor runs, so that nothing computed
    from an observation can depend on them. Results are computed when first asked for and kept.

    Parameters
    ----------
    predictor : callable ``graph -> logits (N, K)``, or an (N, K) array of logits
        With an array there is no model to run again, so `votes` is unavailable.
    graph : Graph
    nodes : boolean mask or indices, optional
        The nodes the observation is about (default all). The others are still neighbours.
    temperature : float
        The source temperature; all logits are divided by it.
    seed : int
        Seed of the perturbed passes.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.8, snr=1.0)
    >>> seen = Observation(SIGN().fit(g), g, nodes=range(100))
    >>> seen.logits.shape, seen.all_logits.shape, seen.graph.labels is None
    ((100, 2), (300, 2), True)
    >>> seen.votes("edge", passes=4).sum(axis=1).tolist() == [4] * 100
    True
    """

    def __init__(
        self,
        predictor: Predictor | ArrayLike,
        graph: Graph,
        nodes: Nodes = None,
        *,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.graph = graph.replace(labels=None, train_masks=None, val_masks=None, test_masks=None)
        self.nodes = select_nodes(nodes, graph.num_nodes)
        if not (np.isfinite(temperature) and temperature > 0):
            raise InputError(f"temperature must be positive and finite, not {temperature!r}.")
        self.temperature = float(temperature)
        self.seed = seed
        self._predictor = predictor
        self._votes: dict[tuple[Any, ...], NDArray[np.int64]] = {}

    @property
    def has_model(self) -> bool:
        """Whether the predictor can be run again, so that `votes` works."""
        return callable(self._predictor)

    @property
    def predictor(self) -> Predictor:
        """The model itself; an error where there are only logits."""
        if not callable(self._predictor):
            raise InputError(
                "this needs the model, but the observation was made from logits alone; pass a "
                "predictor."
            )
        return self._predictor

    @cached_property
    def own_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the columns over the observed nodes alone."""
        if self.num_nodes == self.graph.num_nodes:
            return self.column_moments
        return column_moments(self.graph.features[self.nodes])

    @cached_property
    def column_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the graph's feature columns."""
        return column_moments(self.graph.features)

    @property
    def num_nodes(self) -> int:
        """Number of observed nodes, n."""
        return int(self.nodes.size)

    @property
    def num_classes(self) -> int:
        """Number of classes, K: the columns of the logits."""
        return int(self.all_logits.shape[1])

    @cached_property
    def all_logits(self) -> FloatArray:
        """Logits of every node of the graph, (N, K), divided by the source temperature."""
        logits = (
            predict(self._predictor, self.graph)
            if callable(self._predictor)
            else checked_logits(self._predictor, self.graph.num_nodes)
        )
        return logits if self.temperature == 1.0 else logits / self.temperature

    @cached_property
    def logits(self) -> FloatArray:
        """Logits of the observed nodes, (n, K), divided by the source temperature."""
        return self.all_logits[self.nodes]

    @cached_property
    def probabilities(self) -> FloatArray:
        """Softmax of `logits`, (n, K)."""
        return temperatures.apply(self.logits)

    @cached_property
    def all_predictions(self) -> NDArray[np.intp]:
        """Predicted class of every node of the graph, (N,)."""
        return np.asarray(self.all_logits.argmax(axis=1))

    @cached_property
    def predictions(self) -> NDArray[np.intp]:
        """Predicted class of the observed nodes, (n,)."""
        return self.all_predictions[self.nodes]

    @cached_property
    def neighbours(self) -> sp.csr_matrix:
        """The observed nodes' rows of the adjacency matrix, (n, N) CSR."""
        return sp.csr_matrix(adjacency(self.graph)[self.nodes])

    def votes(
        self, kind: Kind, passes: int = 8, *, level: float = 0.3, share: float = 0.3
    ) -> NDArray[np.int64]:
        """Return how often each observed node was given each class under perturbation, (n, K).

        Parameters
        ----------
        kind : {"feature", "edge", "both"}
            See `graphtemper.signals.passes.passes`.
        passes : int
            How many perturbed passes.
        level, share : float
            Strength of feature noise (in column std) and of edge dropout (share of the edges).
        """
        predictor = self._predictor
        if not callable(predictor):
            raise InputError(
                "perturbed passes need the model, but the observation was made from logits alone; "
                "pass a predictor."
            )
        noise, loss = (level if kind != "edge" else None), (share if kind != "feature" else None)
        key = (kind, passes, noise, loss)
        if key not in self._votes:
            runs = perturb.passes(
                predictor, self.graph, kind, passes, level=level, share=share, seed=self.seed
            )
            self._votes[key] = perturb.count_votes(logits[self.nodes] for logits in runs)
        return self._votes[key]
