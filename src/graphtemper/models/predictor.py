"""Predictors: any callable ``graph -> logits (N, K)``, called and checked here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphtemper._core.arrays import SUM_TOLERANCE, FloatArray
from graphtemper.errors import InputError
from graphtemper.graph.checks import Features, read_only
from graphtemper.graph.graph import Graph

Predictor = Callable[[Graph], Any]
_FINGERPRINT_NODES = 6


def predict(predictor: Predictor, graph: Graph) -> FloatArray:
    """Call the predictor and return its logits, checked, as read-only (N, K) float64.

    Raises `InputError` if the output has the wrong shape, is not finite (the node is named) or
    holds probabilities, or if the predictor writes to the graph.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 1.0], [0.0, -2.0]], edges=[[0, 1]])
    >>> predict(lambda graph: graph.features, g).tolist()
    [[0.0, 1.0], [0.0, -2.0]]
    """
    before = _buffers(graph)
    try:
        output = predictor(graph)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise InputError(
            "the predictor writes to the graph's arrays, which are read-only; make it work on a "
            "copy."
        ) from error
    if any(new is not old for new, old in zip(_buffers(graph), before, strict=True)):
        raise InputError("the predictor changed the graph's features; make it work on a copy.")
    return checked_logits(output, graph.num_nodes)


def checked_logits(output: ArrayLike, num_nodes: int) -> FloatArray:
    """Return logits as read-only (N, K) float64, or raise an error that says what is wrong.

    Examples
    --------
    >>> checked_logits([[0.0, float("nan")]], 1)
    Traceback (most recent call last):
    graphtemper.errors.InputError: the logits of node 0 hold nan; every logit must be finite.
    """
    array = np.asarray(output)
    if array.dtype.kind not in "fiu":
        raise InputError(f"the logits must be real numbers, but their type is {array.dtype}.")
    if array.ndim != 2 or array.shape[0] != num_nodes or array.shape[1] < 2:
        raise InputError(
            f"the logits must have shape ({num_nodes}, K), one row per node and K >= 2 columns, "
            f"not {array.shape}; write a binary score g as [0, g]."
        )
    with np.errstate(invalid="ignore", over="ignore"):  # reported below, with the node
        logits = array.astype(np.float64)
    finite = np.isfinite(logits).all(axis=1)
    if not finite.all():
        node = int(np.argmin(finite))
        value = logits[node][~np.isfinite(logits[node])][0]
        raise InputError(f"the logits of node {node} hold {value}; every logit must be finite.")
    if logits.min() >= 0.0 and bool((np.abs(logits.sum(axis=1) - 1.0) < SUM_TOLERANCE).all()):
        raise InputError(
            "these are probabilities (every row is non-negative and sums to 1), not logits; give "
            "logits, or the logarithm of the probabilities."
        )
    return read_only(logits)


def check_columns(features: Features, width: int) -> None:
    """Raise `InputError` if the features do not have the columns that a model was fitted on."""
    if features.shape[1] != width:
        raise InputError(
            f"the model was fitted on {width} feature columns but the graph has "
            f"{features.shape[1]}; use the same feature space."
        )


def _buffers(graph: Graph) -> tuple[Any, ...]:
    """Return the arrays whose identity shows whether a sparse matrix was edited in place."""
    features = graph.features
    if isinstance(features, np.ndarray):
        return (features,)
    return features.data, features.indices, features.indptr


def fingerprint(predictor: Predictor, num_features: int) -> FloatArray | None:
    """Return the logits on a small fixed graph, or None if the model cannot run on it.

    The graph is a path of six nodes with fixed random features: enough to tell models apart, and
    nothing of anybody's data. A model may refuse it, for instance because it looks up known nodes.
    """
    rng = np.random.default_rng(12345)
    features = rng.standard_normal((_FINGERPRINT_NODES, num_features), dtype=np.float32)
    steps = np.arange(_FINGERPRINT_NODES - 1)
    path = Graph(features=features, edges=np.column_stack([steps, steps + 1]))
    try:
        return np.asarray(predict(predictor, path))
    except Exception:  # the model may raise anything
        return None
