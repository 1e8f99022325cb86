"""What a calibrator is: fitted on a labelled source graph, applied to the same or another graph."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import temperature
from graphtemper._core.arrays import FloatArray, as_array, check_labels, check_matrix
from graphtemper._core.checks import check_number
from graphtemper._core.parameters import HasParameters
from graphtemper.errors import InputError, MissingExtraError
from graphtemper.graph.graph import Graph, Nodes, select_nodes

Granularity = Literal["global", "class", "node", "node_class", "set", "model"]
Need = Literal["labels", "graph", "features", "train_nodes", "embeddings", "predictor", "retrain"]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Seen:
    """What a calibrator may look at on one graph: never a label.

    ``train_nodes`` are the nodes of *this* graph that the base model was trained on; a target
    graph has none.
    """

    logits: FloatArray
    graph: Graph | None
    train_nodes: Rows | None = None
    embeddings: FloatArray | None = None

    @property
    def network(self) -> Graph:
        """The graph of a calibrator whose ``needs`` name it."""
        if self.graph is None:
            raise InputError("this calibrator needs graph=...; pass the graph of the logits.")
        return self.graph


@dataclass(frozen=True, eq=False)
class Labelled:
    """The calibration nodes, their labels, and those of the training nodes where they are known."""

    nodes: Rows
    labels: NDArray[np.intp]
    train_nodes: Rows | None
    train_labels: NDArray[np.intp] | None


class Calibrator(HasParameters, ABC):
    """A map from logits to probabilities, fitted to labels of the source.

    Attributes
    ----------
    preserves_argmax : bool
        Whether the predicted class of every node stays as it is.
    needs : tuple of str
        Which arguments matter. ``"labels"`` are those of ``fit``; ``"graph"`` also in `transform`;
        ``"features"`` are the graph's; ``"retrain"``: the base model is trained anew.
    granularity : str
        What has a scale of its own: ``"global"``, ``"class"``, ``"node"``, ``"node_class"``; or
        ``"set"``: its aim is prediction sets; ``"model"``: it predicts anew instead of scaling.
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
        nodes: Nodes = None,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
        embeddings: ArrayLike | None = None,
    ) -> Self:
        """Learn from the labels of the calibration nodes.

        Parameters
        ----------
        logits : (N, K) array
            Logits of every node of the graph.
        labels : (N,) integer array
            One a node, as in ``graph.labels``; only those of ``nodes`` (and of ``train_nodes``)
            are read, the others may be -1.
        nodes : boolean mask or indices, optional
            The calibration nodes: labelled, and not used to train the base model. Default: all
            labelled nodes.
        graph : Graph, optional
            The graph of the logits; its own labels and masks are not read.
        train_nodes : boolean mask or indices, optional
            The nodes the base model was trained on, for the methods that use them.
        embeddings : (N, D) array, optional
            Hidden representations, for the methods that use them.
        """
        self._check_extra()
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # what an earlier fit learned
        seen = self._seen(logits, graph, train_nodes, embeddings)
        truth = as_array(labels, "labels")
        if truth.shape != (len(seen.logits),):
            raise InputError(
                f"labels must have shape ({len(seen.logits)},), one a node of the graph, "
                f"not {truth.shape}."
            )
        if truth.dtype.kind not in "iu":
            raise InputError(f"labels must be integer class indices, not {truth.dtype}.")
        rows = select_nodes(truth >= 0 if nodes is None else nodes, len(truth))
        classes = seen.logits.shape[1]
        train_labels = None
        if seen.train_nodes is not None and (truth[seen.train_nodes] >= 0).all():
            train_labels = check_labels(truth[seen.train_nodes], seen.train_nodes.size, classes)
        found = check_labels(truth[rows], rows.size, classes)
        self._fit(seen, Labelled(rows, found, seen.train_nodes, train_labels))
        self.num_classes_ = classes
        return self

    def transform(
        self,
        logits: ArrayLike,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
        embeddings: ArrayLike | None = None,
    ) -> FloatArray:
        """Return calibrated probabilities (N, K) on the source graph or on another one.

        What depends on a graph (degrees, distances, aggregates) is computed from the graph given
        here. ``train_nodes`` are those among *its* nodes: leave them out on a target.
        """
        return self._transform(self._ready(logits, graph, train_nodes, embeddings))

    @abstractmethod
    def _fit(self, seen: Seen, labelled: Labelled) -> None:
        """Learn; every argument is checked."""

    @abstractmethod
    def _transform(self, seen: Seen) -> FloatArray:
        """Return probabilities (N, K); every argument is checked."""

    def _ready(
        self, logits: ArrayLike, graph: Graph | None, train_nodes: Nodes, embeddings: Any
    ) -> Seen:
        self._check_extra()
        if not hasattr(self, "num_classes_"):
            raise InputError(
                f"this {type(self).__name__} is not fitted; call fit(logits, labels, nodes) first."
            )
        seen = self._seen(logits, graph, train_nodes, embeddings)
        if seen.logits.shape[1] != self.num_classes_:
            raise InputError(
                f"the logits have {seen.logits.shape[1]} classes but this {type(self).__name__} "
                f"was fitted on {self.num_classes_}; use the same classes in the same order."
            )
        return seen

    def _seen(
        self, logits: ArrayLike, graph: Graph | None, train_nodes: Nodes, embeddings: Any
    ) -> Seen:
        z = check_matrix(logits, "logits").astype(np.float64)
        check_finite(z, "logits")
        if graph is None:
            if "graph" in self.needs:
                raise InputError(
                    f"{type(self).__name__} needs graph=...; pass the graph of the logits."
                )
        elif graph.num_nodes != len(z):
            raise InputError(
                f"the logits have {len(z)} rows but the graph has {graph.num_nodes} nodes; "
                "pass the logits of every node."
            )
        else:
            graph = graph.replace(labels=None, train_masks=None, val_masks=None, test_masks=None)
        hidden = None
        if embeddings is not None:
            hidden = np.asarray(as_array(embeddings, "embeddings"), dtype=np.float64)
            if hidden.ndim != 2 or len(hidden) != len(z):
                raise InputError(f"embeddings must have shape ({len(z)}, D), not {hidden.shape}.")
            check_finite(hidden, "embeddings")
        rows = None if train_nodes is None else select_nodes(train_nodes, len(z))
        return Seen(z, graph, rows, hidden)

    def _check_extra(self) -> None:
        if not self.extra:
            return
        try:
            importlib.import_module("torch")
        except ImportError as error:
            raise MissingExtraError(
                f"{type(self).__name__} needs torch, which is in the extra [{self.extra}]; "
                f"run pip install 'graphtemper[{self.extra}]'."
            ) from error


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides logits by temperatures, so that every argmax stays."""

    preserves_argmax = True

    def temperatures(
        self,
        logits: ArrayLike,
        graph: Graph | None = None,
        *,
        train_nodes: Nodes = None,
        embeddings: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the temperature of every node, (N,); the arguments are those of `transform`."""
        return self._temperatures(self._ready(logits, graph, train_nodes, embeddings))

    @abstractmethod
    def _temperatures(self, seen: Seen) -> FloatArray:
        """Return temperatures (N,)."""

    def _transform(self, seen: Seen) -> FloatArray:
        return temperature.apply(seen.logits, self._temperatures(seen))


def check_finite(values: FloatArray, name: str) -> None:
    """Refuse a number that is not finite, naming its row.

    Examples
    --------
    >>> check_finite(np.array([[0.0, np.nan]]), "logits")
    Traceback (most recent call last):
    graphtemper.errors.InputError: logits[0] holds nan; every number must be finite.
    """
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        value = values[row][~np.isfinite(values[row])][0]
        raise InputError(f"{name}[{row}] holds {value}; every number must be finite.")


def check_choice(value: Any, choices: tuple[Any, ...], name: str) -> Any:
    """Return the value after checking that it is one of the choices.

    Examples
    --------
    >>> check_choice("l2", ("nll", "brier"), "loss")
    Traceback (most recent call last):
    graphtemper.errors.InputError: loss must be one of 'nll', 'brier', not 'l2'.
    """
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")
    return value


def check_range(value: Any, name: str, least: float, *, open_end: bool = False) -> float:
    """Return a finite number of at least ``least`` (above it where ``open_end``).

    Examples
    --------
    >>> check_range(-1.0, "lr", 0.0, open_end=True)
    Traceback (most recent call last):
    graphtemper.errors.InputError: lr must be finite and above 0, not -1.0.
    """
    number = check_number(value, name)
    if not np.isfinite(number) or number < least or (open_end and number == least):
        word = "above" if open_end else "at least"
        raise InputError(f"{name} must be finite and {word} {least:g}, not {value!r}.")
    return number


def check_share(value: Any, name: str) -> float:
    """Return a number in [0, 1).

    Examples
    --------
    >>> check_share(1.0, "dropout")
    Traceback (most recent call last):
    graphtemper.errors.InputError: dropout must be at least 0 and below 1, not 1.0.
    """
    number = check_number(value, name)
    if not 0.0 <= number < 1.0:
        raise InputError(f"{name} must be at least 0 and below 1, not {value!r}.")
    return number
