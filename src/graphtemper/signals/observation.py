"""An observation: what a frozen predictor shows on a graph without labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.lazy import cached_property
from graphtemper._core.reproducible import Keys
from graphtemper.graph.graph import Graph, Nodes, select_nodes
from graphtemper.graph.operators import adjacency, column_moments, graph_moments
from graphtemper.models.passes import Passes, passes_of
from graphtemper.models.predictor import Predictor, checked_logits, predict
from graphtemper.signals import passes as perturb
from graphtemper.signals.passes import Kind
from graphtemper.signals.pointwise import kappa

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Part:
    """What is known of a whole graph where a part of it is observed at a sample of its nodes.

    Attributes
    ----------
    moments
        Mean and standard deviation of the feature columns of the whole graph.
    links, weights : (m,) arrays
        Numbers of some links of the part, a sample of the whole graph's, at whose ends the model
        has the logits of the whole graph; and how many links each stands for, up to a factor.
    """

    moments: tuple[FloatArray, FloatArray]
    links: NDArray[np.int64]
    weights: FloatArray


def unlabelled(graph: Graph) -> Graph:
    """Return the graph without labels and masks; itself if it has none."""
    known = ("labels", "train_masks", "val_masks", "test_masks")
    given = {name: None for name in known if getattr(graph, name) is not None}
    return graph.replace(**given) if given else graph


class Observation:
    """A frozen predictor on a graph, measured at some of its nodes and without labels.

    Labels and masks are removed on entry, before the predictor runs, so that nothing computed
    from an observation can depend on them. The predictor runs once when an observation is made,
    unless its logits are given; what else is measured is computed on first use and then cached.

    Parameters
    ----------
    predictor : callable ``graph -> logits (N, K)``, or an (N, K) array of logits
        With an array there is no model to run again, so `votes` is unavailable.
    graph : Graph
    nodes : boolean mask or indices, optional
        The nodes to observe (default all). The others are still neighbours.
    temperature : float
        Divides the logits in `probabilities`; logits themselves are the model's own.
    seed : int
        Seed of the perturbed passes.
    logits : (N, K) array, optional
        The predictor's logits on the graph, if they are already available.
    passes : Passes, optional
        The model's passes on changed input, if the logits were made with them; default its own.
    part : Part, optional
        For a part of a larger graph, whose observed nodes are a sample of it: see
        `graphtemper.signals.sample`.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.8, snr=1.0)
    >>> observation = Observation(SIGN().fit(g), g, nodes=range(100))
    >>> observation.logits.shape, observation.all_logits.shape, observation.graph.labels is None
    ((100, 2), (300, 2), True)
    >>> observation.votes("edge", passes=4)[:2].sum(axis=1).tolist()
    [4, 4]
    """

    def __init__(
        self,
        predictor: Predictor | ArrayLike,
        graph: Graph,
        nodes: Nodes = None,
        *,
        temperature: float = 1.0,
        seed: int = 0,
        logits: ArrayLike | None = None,
        passes: Passes | None = None,
        part: Part | None = None,
    ) -> None:
        selected = select_nodes(nodes, graph.num_nodes, graph.classified)
        counts = np.bincount(selected)
        if counts.max() > 1:
            raise errors.repeated(
                f"node {counts.argmax()} is selected {counts.max()} times; select every node once, "
                "since repeated ones would count as evidence."
            )
        if not (np.isfinite(temperature) and temperature > 0):
            raise errors.range(f"temperature must be positive and finite, not {temperature!r}.")
        self._predictor, self._passes = predictor, passes
        self.graph = unlabelled(graph)
        """The graph, without labels and masks."""
        self.nodes = selected
        """Indices of the observed nodes, (n,)."""
        self.temperature = float(temperature)
        self.seed = seed
        """Seed of the perturbed passes."""
        self.part = part
        """What is known of the whole graph, if this is a part of one."""
        self.memo: dict[tuple[Hashable, ...], Any] = {}
        """Measurements of this observation by a key, so that each is made once."""
        self.all_logits = self._run() if logits is None else self._checked(logits)
        """The model's logits of every node of the graph, (N, K)."""

    def _run(self) -> FloatArray:
        if callable(self._predictor):
            return predict(self._predictor, self.graph)
        return self._checked(self._predictor)

    def _checked(self, logits: ArrayLike) -> FloatArray:
        return checked_logits(logits, self.graph.num_nodes)

    def once(self, key: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
        """Return a measurement by its key, which is made on first use."""
        if key not in self.memo:
            self.memo[key] = make()
        made: Made = self.memo[key]
        return made

    @property
    def has_model(self) -> bool:
        """Whether the predictor can be run again, so that `votes` works."""
        return callable(self._predictor)

    @property
    def predictor(self) -> Predictor:
        """The model itself; an error if the observation was made from logits."""
        predictor = self._predictor
        if not callable(predictor):
            raise errors.missing(
                "this needs the model, but the observation was made from logits alone; pass a "
                "predictor."
            )
        return predictor

    @cached_property
    def passes(self) -> Passes:
        """The model's passes on changed input; an error if the observation is of logits."""
        return passes_of(self.predictor) if self._passes is None else self._passes

    @cached_property
    def own_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the feature columns over the observed nodes alone."""
        if self.nodes.size == self.graph.num_nodes:
            return self.column_moments
        return column_moments(self.graph.features[self.nodes])

    @cached_property
    def column_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the graph's feature columns."""
        return graph_moments(self.graph) if self.part is None else self.part.moments

    @property
    def centre(self) -> NDArray[np.int64] | None:
        """The nodes over which views are centred: None for all, or a sample of a larger graph."""
        return None if self.part is None else self.nodes

    @cached_property
    def some_nodes(self) -> NDArray[np.int64] | None:
        """The observed nodes; None if they are all of the graph, so that nothing is copied."""
        everything = np.array_equal(self.nodes, np.arange(self.graph.num_nodes))
        return None if everything else self.nodes

    @property
    def num_nodes(self) -> int:
        """Number of observed nodes, n."""
        return int(self.nodes.size)

    @property
    def num_classes(self) -> int:
        """Number of classes, K: the columns of the logits."""
        return int(self.all_logits.shape[1])

    @cached_property
    def logits(self) -> FloatArray:
        """The model's logits of the observed nodes, (n, K)."""
        return self.all_logits if self.some_nodes is None else self.all_logits[self.nodes]

    @cached_property
    def probabilities(self) -> FloatArray:
        """Softmax of `logits` over the temperature, (n, K)."""
        return temperatures.apply(self.logits, self.temperature)

    @cached_property
    def all_predictions(self) -> NDArray[np.intp]:
        """Predicted class of every node of the graph, (N,)."""
        return np.asarray(self.all_logits.argmax(axis=1))

    @cached_property
    def predictions(self) -> NDArray[np.intp]:
        """Predicted class of the observed nodes, (n,)."""
        return self.all_predictions[self.nodes]

    @cached_property
    def link_keys(self) -> Keys:
        """A number per link by its ends, see `signals.passes.link_keys`."""
        return perturb.link_keys(self.graph)

    @cached_property
    def neighbours(self) -> sp.csr_matrix:
        """The observed nodes' rows of the adjacency matrix, (n, N) CSR."""
        return sp.csr_matrix(adjacency(self.graph)[self.nodes])

    def agreement(self, logits: FloatArray, held_out: NDArray[np.int32]) -> float:
        """Return Cohen's kappa of predictions across held-out links, or across a part's sample.

        ``logits`` (N, K) are those on a graph without the links ``held_out``, (m, 2).
        """
        predicted, classes = logits.argmax(axis=1), logits.shape[1]
        if self.part is None:
            return kappa(predicted[held_out], classes)
        sampled = self.graph.links[self.part.links]
        return kappa(predicted[sampled], classes, self.part.weights)

    def votes(
        self, kind: Kind, passes: int = 8, *, level: float = 0.3, share: float = 0.3
    ) -> NDArray[np.int64]:
        """Return how often each observed node is assigned each class under perturbation, (n, K).

        Parameters
        ----------
        kind : {"feature", "edge", "both"}
            See `graphtemper.signals.passes.passes`.
        passes : int
            Number of perturbed passes.
        level, share : float
            Strength of feature noise (in column std) and of edge dropout (fraction of the edges).
        """
        noise, loss = (level if kind != "edge" else None), (share if kind != "feature" else None)
        key = (kind, passes, noise, loss)

        def counted() -> NDArray[np.int64]:
            runs = perturb.passes(
                self.predictor, self.graph, kind, passes, level=level, share=share, seed=self.seed
            )
            return perturb.count_votes(logits[self.nodes] for logits in runs)

        return self.once(key, counted)
