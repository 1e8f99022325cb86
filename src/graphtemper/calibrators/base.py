"""The protocol of calibrators: fitted on a labelled source graph, applied to any graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors, temperature
from graphtemper._core.checks import (
    FloatArray,
    as_array,
    check_finite_rows,
    check_instance,
    check_labels,
    check_matrix,
)
from graphtemper._core.parameters import HasParameters
from graphtemper._core.reproducible import stream
from graphtemper.errors import require
from graphtemper.graph.graph import Graph, Nodes, select_nodes

Granularity = Literal["global", "class", "node", "node_class", "set", "model"]
Need = Literal["labels", "graph", "features", "train_nodes", "predictor", "retrain"]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a calibrator may read of one graph: never a label.

    ``train_nodes`` are the nodes of *this* graph that the base model was trained on; a target
    graph has none.
    """

    logits: FloatArray
    graph: Graph | None
    train_nodes: Rows | None = None

    @property
    def required_graph(self) -> Graph:
        """The graph, for a calibrator whose ``needs`` include it."""
        if self.graph is None:
            raise errors.missing("this calibrator needs graph=...; pass the graph of the logits.")
        return self.graph


@dataclass(frozen=True, eq=False)
class Labelled:
    """The calibration nodes and their labels, and the training nodes and theirs if available."""

    nodes: Rows
    labels: NDArray[np.intp]
    train_nodes: Rows | None
    train_labels: NDArray[np.intp] | None


class Calibrator(HasParameters, ABC):
    """A map from logits to probabilities, fitted to labels of the source.

    Attributes
    ----------
    preserves_argmax : bool
        Whether the predicted class of every node is unchanged.
    needs : tuple of str
        Which arguments matter. ``"labels"`` are those of ``fit``; ``"graph"`` is also needed by
        `transform`; ``"features"`` are the graph's; ``"retrain"``: the base model is retrained.
    granularity : str
        What each scale belongs to: ``"global"``, ``"class"``, ``"node"``, ``"node_class"``; or
        ``"set"``: the method aims at prediction sets; ``"model"``: it makes new predictions instead
        of scaling.
    reference : str
        Where the method was published.
    differs : str
        Where this implementation departs from what was published or released; may be empty.
    extra : str
        The optional dependency, by the name of its extra; empty for the core.
    """

    preserves_argmax: bool = False
    needs: tuple[Need, ...] = ("labels",)
    granularity: Granularity = "global"
    reference: str = ""
    differs: str = ""
    extra: str = ""

    def fit(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        graph: Graph | None = None,
        nodes: Nodes = None,
        *,
        train_nodes: Nodes = None,
    ) -> Self:
        """Learn from the labels of the calibration nodes.

        Parameters
        ----------
        logits : (N, K) array
            Logits of every node of the graph.
        labels : (N,) integer array
            One label per node, as in ``graph.labels``; only those of ``nodes`` (and of
            ``train_nodes``) are read, the others may be -1.
        graph : Graph, optional
            The graph of the logits; its own labels and masks are not read.
        nodes : boolean mask or indices, optional
            The calibration nodes: labelled, and not used to train the base model. Default: all
            labelled nodes.
        train_nodes : boolean mask or indices, optional
            The nodes the base model was trained on, for the methods that use them.
        """
        self._check_extra()
        if graph is not None:
            check_instance(graph, Graph, "graph", "fit(logits, labels, graph, nodes)")
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # learned by an earlier fit
        inputs = self._checked_inputs(logits, graph, train_nodes)
        truth = as_array(labels, "labels")
        if truth.shape != (len(inputs.logits),):
            raise errors.shape(
                f"labels must have shape ({len(inputs.logits)},), one per node of the graph, "
                f"not {truth.shape}."
            )
        if truth.dtype.kind not in "iu":
            raise errors.wrong_type(f"labels must be integer class indices, not {truth.dtype}.")
        rows = select_nodes(truth >= 0 if nodes is None else nodes, len(truth))
        classes = inputs.logits.shape[1]
        train_labels = None
        if inputs.train_nodes is not None and (truth[inputs.train_nodes] >= 0).all():
            train_labels = check_labels(truth[inputs.train_nodes], inputs.train_nodes.size, classes)
        node_labels = check_labels(truth[rows], rows.size, classes)
        self._fit(inputs, Labelled(rows, node_labels, inputs.train_nodes, train_labels))
        self.num_classes_ = classes
        return self

    def transform(
        self,
        logits: ArrayLike,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
    ) -> FloatArray:
        """Return calibrated probabilities (N, K) on the source graph or on another one.

        Everything that depends on a graph (degrees, distances, aggregates) is computed from
        ``graph``. ``train_nodes`` are nodes of that graph: leave them out on a target.
        """
        return self._transform(self._fitted_inputs(logits, graph, train_nodes))

    @abstractmethod
    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        """Learn; every argument is checked."""

    @abstractmethod
    def _transform(self, inputs: Inputs) -> FloatArray:
        """Return probabilities (N, K); every argument is checked."""

    def _fitted_inputs(
        self,
        logits: ArrayLike,
        graph: Graph | None,
        train_nodes: Nodes,
    ) -> Inputs:
        self._check_extra()
        if not hasattr(self, "num_classes_"):
            raise errors.not_fitted(
                f"this {type(self).__name__} is not fitted; "
                "call fit(logits, labels, graph, nodes) first."
            )
        if graph is not None:
            check_instance(graph, Graph, "graph", "transform(logits, graph)")
        inputs = self._checked_inputs(logits, graph, train_nodes)
        if inputs.logits.shape[1] != self.num_classes_:
            raise errors.other_classes(
                f"the logits have {inputs.logits.shape[1]} classes but this {type(self).__name__} "
                f"was fitted on {self.num_classes_}; use the same classes in the same order."
            )
        return inputs

    def _checked_inputs(
        self,
        logits: ArrayLike,
        graph: Graph | None,
        train_nodes: Nodes,
    ) -> Inputs:
        z = check_matrix(logits, "logits").astype(np.float64)
        check_finite_rows(z, "logits")
        if graph is None:
            if "graph" in self.needs:
                raise errors.missing(
                    f"{type(self).__name__} needs graph=...; pass the graph of the logits."
                )
        elif graph.num_nodes != len(z):
            raise errors.too_few(
                f"the logits have {len(z)} rows but the graph has {graph.num_nodes} nodes; "
                "pass the logits of every node."
            )
        else:
            graph = graph.replace(labels=None, train_masks=None, val_masks=None, test_masks=None)
        rows = None if train_nodes is None else select_nodes(train_nodes, len(z))
        return Inputs(z, graph, rows)

    def _check_extra(self) -> None:
        if self.extra:
            require(self.extra, type(self).__name__, "torch")


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides logits by temperatures and so preserves every argmax."""

    preserves_argmax = True

    def temperatures(
        self,
        logits: ArrayLike,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
    ) -> FloatArray:
        """Return the temperature of every node, (N,); the arguments are those of `transform`."""
        return self._temperatures(self._fitted_inputs(logits, graph, train_nodes))

    @abstractmethod
    def _temperatures(self, inputs: Inputs) -> FloatArray:
        """Return temperatures (N,)."""

    def _transform(self, inputs: Inputs) -> FloatArray:
        return temperature.apply(inputs.logits, self._temperatures(inputs))


def fold_numbers(count: int, folds: int, seed: int) -> NDArray[np.int64]:
    """Return a fold 0 ... folds-1 for each of ``count`` rows, of sizes that differ by at most one.

    Examples
    --------
    >>> np.bincount(fold_numbers(7, 3, seed=0)).tolist()
    [3, 2, 2]
    """
    order = stream(seed, "calibration folds").permutation(count)
    numbers = np.empty(count, dtype=np.int64)
    numbers[order] = np.arange(count) % folds
    return numbers
