"""Predictors: any callable ``graph -> logits (N, K)``, called, checked and recognised here.

A model is recognised by its logits on a small fixed graph (`fingerprint`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import SUM_TOLERANCE, FloatArray, as_array
from graphtemper.graph.checks import Features, read_only
from graphtemper.graph.graph import Graph
from graphtemper.graph.pyg_conversion import is_hetero, is_pyg, pyg_losses

if TYPE_CHECKING:
    from torch_geometric.data import Data

Predictor = Callable[[Graph], Any]
BUNDLED_UNREAD = ("edge_features", "edge_type", "node_type")
"""What SIGN and SGC do not read."""
_FINGERPRINT_NODES = 6
# How to make a graph of an object, by the library that it is from.
_ADVICE = {
    "networkx": "Graph.from_networkx(graph, features=...) converts it",
    "pandas": "a table is converted with Graph(features=table.to_numpy(), edges=pairs)",
    "": "Graph(features=..., edges=...) makes one",
}


def predict(predictor: Predictor, graph: Graph) -> FloatArray:
    """Call the predictor and return its logits, checked, as read-only (N, K) float64.

    Raises `InputError` if the output has the wrong shape, is not finite (the node is named) or
    holds probabilities, or if the predictor writes to the graph. Memory that a model shares, as
    ``torch.from_numpy`` does, can be written to in spite of its flags, so contents are compared.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 1.0], [0.0, -2.0]], edges=[[0, 1]])
    >>> predict(lambda graph: graph.features, g).tolist()
    [[0.0, 1.0], [0.0, -2.0]]
    """
    before = _contents(graph)
    try:
        output = predictor(graph)
    except AttributeError as error:
        if error.obj is not graph:
            raise
        raise errors.predictor(
            f"the model gets a graphtemper.Graph, which has no {error.name!r}; for a PyG module, "
            "pass graphtemper.pyg.predictor(net) or predictor(net, adapter=...)."
        ) from error
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise errors.changed_graph(
            "the predictor writes to the graph's arrays, which are read-only; make it work on a "
            "copy."
        ) from error
    if _contents(graph) != before:
        raise errors.changed_graph(
            "the predictor changed the graph's features in place; make it work on a copy, as "
            "torch.tensor(graph.features) or ReLU(inplace=False) do, and load the graph again."
        )
    if isinstance(output, tuple | dict) or output is None:
        raise errors.not_logits(
            f"the predictor returned a {type(output).__name__}; return the logits alone, one array "
            "or tensor of shape (N, K)."
        )
    return checked_logits(output, graph.num_nodes)


def checked_logits(output: ArrayLike, num_nodes: int) -> FloatArray:
    """Return logits as read-only (N, K) float64, or raise an error that says what is wrong.

    Examples
    --------
    >>> checked_logits([[0.0, float("nan")]], 1)
    Traceback (most recent call last):
    graphtemper.errors.InputError: the logits of node 0 hold nan; every logit must be finite.
    """
    array = _detached(output)
    if array.dtype.kind not in "fiu":
        kind = type(output).__name__ if array.dtype.kind == "O" else f"of type {array.dtype}"
        raise errors.not_logits(f"the logits must be an array of real numbers, not {kind}.")
    if array.ndim != 2 or array.shape[0] != num_nodes or array.shape[1] < 2:
        raise errors.not_logits(
            f"the logits must have shape ({num_nodes}, K), one row per node and K >= 2 columns, "
            f"not {array.shape}; write a binary score g as [0, g]."
        )
    with np.errstate(invalid="ignore", over="ignore"):  # reported below, with the node
        logits = array.astype(np.float64)
    finite = np.isfinite(logits)
    if not finite.all():
        node = int(np.argmin(finite.all(axis=1)))
        value = logits[node][~np.isfinite(logits[node])][0]
        raise errors.not_finite(
            f"the logits of node {node} hold {value}; every logit must be finite."
        )
    # Equal rows say nothing: a model may give them where its input was taken away.
    if (
        logits.min() >= 0.0
        and (logits != logits[0]).any()
        and bool((np.abs(logits.sum(axis=1) - 1.0) < SUM_TOLERANCE).all())
    ):
        raise errors.not_logits(
            "these are probabilities (every row is non-negative and sums to 1), not logits; give "
            "logits, or the logarithm of the probabilities."
        )
    return read_only(logits)


def check_columns(features: Features, width: int) -> None:
    """Raise `InputError` if the features do not have the columns that a model was fitted on."""
    if features.shape[1] != width:
        raise errors.other_features(
            f"the model was fitted on {width} feature columns but the graph has "
            f"{features.shape[1]}; use the same feature space."
        )


def _detached(output: Any) -> NDArray[Any]:
    """Return an output as an array; tensors may need gradients, be on a device or in bfloat16."""
    if hasattr(output, "detach") and hasattr(output, "is_floating_point"):
        if "strided" not in str(output.layout):
            raise errors.not_logits(
                "the logits are a sparse tensor; return a dense one, as logits.to_dense() makes."
            )
        tensor = output.detach().cpu()
        output = tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
    return as_array(output, "logits")


def check_one_node_type(graph: Graph, model: str) -> None:
    """Raise `InputError` if the nodes that are classified are only a part of the graph.

    Examples
    --------
    >>> check_one_node_type(Graph(features=[[1.0], [0.0]], edges=[[0, 1]]), "SIGN")
    """
    if graph.target_type is not None:
        raise errors.other_types(
            f"{model} is for graphs with one type of nodes; use a PyTorch Geometric module for "
            "several, wrapped with graphtemper.pyg.predictor."
        )


def _contents(graph: Graph) -> list[tuple[int, int]]:
    """Return the address and a checksum of the features and of the edges."""
    features = graph.features
    arrays = [features] if isinstance(features, np.ndarray) else [features.data]
    arrays += [] if isinstance(features, np.ndarray) else [features.indices, features.indptr]
    return [(array.ctypes.data, _checksum(array)) for array in (*arrays, graph.edges)]


def _checksum(array: NDArray[Any]) -> int:
    """Return a sum of the bytes, eight at a time, each times an odd number of its place.

    So it changes where rows are swapped, too.
    """
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = flat.size // 8 * 8
    words, total = flat[:whole].view(np.uint64), int(flat[whole:].sum())
    for block, start in enumerate(range(0, words.size, _PLACES.size)):
        part = words[start : start + _PLACES.size]
        total += (2 * block + 1) * int(np.dot(part, _PLACES[: part.size]))
    return total % 2**64


_PLACES = 2 * np.arange(65_536, dtype=np.uint64) + np.uint64(1)


def probe_graph(num_features: int) -> Graph:
    """Return a path of six nodes with fixed random features, by which models are recognised."""
    rng = np.random.default_rng(12345)
    features = rng.standard_normal((_FINGERPRINT_NODES, num_features), dtype=np.float32)
    steps = np.arange(_FINGERPRINT_NODES - 1)
    return Graph(features=features, edges=np.column_stack([steps, steps + 1]))


def as_graph(source: Graph | Data, predictor: object = None, target: str | None = None) -> Graph:
    """Return ``source`` itself if it is a `Graph`, and convert it if it is a PyG ``Data``.

    Fields of a ``Data`` that a `Graph` cannot hold are dropped if the predictor has a method
    ``check`` (see `compared`), which finds out whether the model reads them, and refused otherwise.
    ``target`` is the node type that is classified in a ``HeteroData`` without labels.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> data = csbm.sample(50, degree=4, homophily=0.8, snr=1.0).to_pyg()
    >>> as_graph(data).num_nodes
    50
    >>> as_graph("cora.npz")
    Traceback (most recent call last):
    graphtemper.errors.InputError: the graph must be a Graph or a PyG Data, not str; ...
    """
    if any(base.__module__.startswith("torch.nn.") for base in type(predictor).__mro__):
        raise errors.predictor(
            f"{type(predictor).__name__} is a torch module; wrap it with "
            "graphtemper.pyg.predictor(module)."
        )
    if isinstance(predictor, str | os.PathLike):
        raise errors.predictor("the model is a path; read it with graphtemper.models.load(path).")
    if hasattr(predictor, "predict_proba") and not callable(predictor):
        raise errors.predictor(
            f"the model must be a function graph -> logits (N, K), not {_name(predictor)}; "
            "for a classifier of feature rows, pass "
            "lambda graph: np.log(classifier.predict_proba(graph.features))."
        )
    if isinstance(source, Graph):
        return source
    if not is_pyg(source):
        advice = _ADVICE.get(type(source).__module__.partition(".")[0], _ADVICE[""])
        if isinstance(predictor, Graph) or is_pyg(predictor):
            advice = "the model comes before the graph"
        elif isinstance(source, str | os.PathLike):
            advice = "Graph.load(path) reads a file"
        raise errors.wrong_type(
            f"the graph must be a Graph or a PyG Data, not {_name(source)}; {advice}."
        )
    dropped = pyg_losses(source) if callable(getattr(predictor, "check", None)) else ()
    return Graph.from_pyg(source, drop=dropped, target=target if is_hetero(source) else None)


def compared(
    source: Graph | Data, predictor: object, graph: Graph, target: str | None = None
) -> tuple[Graph, Any]:
    """Return the graph and logits that were made to compare a model with its module on a ``Data``.

    ``graph`` is that of `as_graph`. A predictor with a method ``check``
    (`graphtemper.pyg.Predictor`) compares its logits on it with those of its module on the
    ``Data``, or raises. For any other predictor, and for a `Graph`, there are no logits (None).
    """
    check = getattr(predictor, "check", None)
    if source is graph or not callable(check):
        return graph, None
    agreement = check(source, target=target) if is_hetero(source) and target else check(source)
    return agreement.graph, agreement.logits


def _name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")


# Sums on many threads or a GPU differ by far less than this part of the largest logit.
_REPEATED = 1e-4


def fingerprint(predictor: Predictor, num_features: int) -> FloatArray | None:
    """Return the logits on `probe_graph`, or None if the model cannot run on it.

    It is enough to recognise a model, and nothing of anybody's data. A model may refuse it, for
    instance because it looks up known nodes; one that changes its input is refused here, before it
    has seen any other graph.
    """
    try:
        return np.asarray(predict(predictor, probe_graph(num_features)))
    except Exception as error:  # the model may raise anything
        if getattr(error, "code", None) == "changed-graph":
            raise
        return None


def check_repeatable(predictor: Predictor, graph: Graph) -> None:
    """Raise `InputError` if the model answers a graph differently when it is called again.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> check_repeatable(lambda graph: rng.standard_normal((6, 2)), probe_graph(3))
    Traceback (most recent call last):
    graphtemper.errors.InputError: the model answers the same graph differently when it is ...
    """
    first, second = predict(predictor, graph), predict(predictor, graph)
    size = float(np.abs(first).max())
    if first.shape != second.shape or not np.allclose(first, second, 0.0, _REPEATED * size):
        raise errors.other_model(
            "the model answers the same graph differently when it is called again; switch off "
            "dropout, as module.eval() does, and whatever else is random or changes with every "
            "call."
        )
