"""Compare a wrapped module with the module itself on the user's own PyG ``Data``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from graphtemper.errors import GraphTemperError
from graphtemper.graph.graph import Graph
from graphtemper.graph.pyg_conversion import is_hetero

if TYPE_CHECKING:
    from torch_geometric.data import Data

Logits = NDArray[np.floating[Any]]

# Summing messages in another order moves float32 logits by about 1e-6 of their size per layer.
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 5e-2


@dataclass(frozen=True)
class Agreement:
    """The outcome of `Predictor.check`: the wrapped module gives the module's own logits.

    Attributes
    ----------
    graph : Graph
        The data as a graph, without what the module does not read.
    dropped : tuple of str
        What the data holds and the graph does not, in the names of `Graph.from_pyg`.
    equal_predictions : float
        Fraction of nodes with equal predictions.
    largest_difference : float
        Largest difference between two logits.
    logits : (N, K) array
        The logits of the wrapped module on the graph.
    """

    graph: Graph = field(repr=False)
    dropped: tuple[str, ...]
    equal_predictions: float
    largest_difference: float
    logits: Logits = field(repr=False)


def tolerance(dtype: torch.dtype) -> float:
    """Return how far logits may differ, relative to their size, for weights of this type.

    Examples
    --------
    >>> tolerance(torch.float64)
    0.0001
    """
    return _HALF_TOLERANCE if torch.finfo(dtype).bits < 32 else _TOLERANCE


def differs(logits: Logits, others: Logits, relative: float) -> bool:
    """Return whether logits differ by more than rounding at any node.

    A node's logits are measured against their own size and that of an ordinary node, so that the
    large logits of a few hubs hide nothing.

    Examples
    --------
    >>> differs(np.array([[0.0, 1.0]]), np.array([[0.0, 1.00001]]), 1e-4)
    False
    """
    if logits.shape != others.shape:
        return True
    size = np.abs(logits).max(axis=1)
    return bool((np.abs(logits - others).max(axis=1) > relative * (size + np.median(size))).any())


def compare(logits: Logits, others: Logits) -> tuple[float, float]:
    """Return the fraction of equal predictions and the largest difference between two logits.

    Examples
    --------
    >>> compare(np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    (0.5, 3.0)
    """
    equal = logits.argmax(axis=1) == others.argmax(axis=1)
    return float(equal.mean()), float(np.abs(logits - others).max())


def in_words(logits: Logits, others: Logits) -> str:
    """Return how two answers differ, as part of a sentence."""
    if logits.shape != others.shape:
        return f"its logits have shape {others.shape} and not {logits.shape}"
    equal, largest = compare(logits, others)
    return f"{equal:.1%} of its predictions are equal and its logits differ by up to {largest:.3g}"


def inputs_read(run: Callable[[Data], Logits], data: Data, relative: float) -> list[str]:
    """Return the things in ``data``, in words, without which ``run`` fails or answers differently.

    What a `Graph` carries is not tried.
    """
    logits, names = run(data), []
    for name, other in _reduced(data):
        try:
            changed = differs(logits, run(other), relative)
        except GraphTemperError:
            changed = True
        if changed:
            names.append(name)
    return names


# What a graph carries of a Data; taking it away would tell nothing about the conversion.
_CARRIED = ("x", "edge_index", "adj_t", "edge_weight", "edge_attr", "edge_type", "node_type")


def _reduced(data: Data) -> Iterator[tuple[str, Data]]:
    """Yield copies of the data that lack one thing each, with its name."""
    if is_hetero(data):
        return
    if data.x.dtype == torch.float64:
        rounded = data.clone()
        rounded.x = rounded.x.float()
        yield "features in float64", rounded
    for key in sorted(data.keys()):  # PyG lists them in any order
        if key not in _CARRIED:
            other = data.clone()
            del other[key]
            yield f"data.{key}", other
