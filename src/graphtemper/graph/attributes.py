"""Attributes of edges and types of nodes: checks, links between nodes, and rows that stay aligned.

An undirected `Graph` holds every edge once and its attributes for both directions. A directed one
holds ordered pairs, where self-loops and repeated pairs are allowed. The *links* of a graph are the
pairs of different nodes that an edge joins in either direction, each once: they define who is
whose neighbour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import as_array
from graphtemper.graph.checks import NOT_FINITE, read_only, refuse

EDGE_FIELDS = ("edge_weight", "edge_features", "edge_type")
NODE_FIELDS = (
    "labels",
    "time",
    "train_masks",
    "val_masks",
    "test_masks",
    "node_type",
    "environment",
)
TYPE_NAMES = {"edge_type_names": "edge_type", "node_type_names": "node_type"}
Pairs = NDArray[np.int32]


def checked_edge_values(values: Any, key: str, num_edges: int) -> NDArray[Any]:
    """Check weights (E,) or features (E,), (E, D) of edges: finite, one row per edge.

    Real numbers become float32. Integer features stay integers, as they may be codes.

    Examples
    --------
    >>> checked_edge_values([0.5, float("nan")], "edge_weight", 2)
    Traceback (most recent call last):
    graphtemper.errors.InputError: edge_weight[1] is nan; replace non-finite entries.
    """
    array = as_array(values, key)
    dimensions = (1,) if key == "edge_weight" else (1, 2)
    if array.dtype.kind not in "fiub":
        raise errors.wrong_type(f"{key} must hold real numbers, not {array.dtype}.")
    if array.ndim not in dimensions or array.shape[0] != num_edges or 0 in array.shape[1:]:
        shape = f"({num_edges},)" + ("" if key == "edge_weight" else f" or ({num_edges}, D)")
        raise errors.shape(
            f"{key} must have shape {shape}, one row per edge, but has shape {array.shape}."
        )
    if key == "edge_features" and array.dtype.kind in "iu":
        return read_only(array.astype(np.int64))
    with np.errstate(over="ignore"):
        real = array.astype(np.float32)
    refuse(~np.isfinite(real), array, key, NOT_FINITE, errors.not_finite)
    return read_only(real)


def checked_columns(values: Any, num_features: int) -> NDArray[np.int64]:
    """Check the first and the last + 1 column of every node type, (T, 2).

    Ranges are equal or do not overlap, so that every column belongs to one set of nodes.

    Examples
    --------
    >>> checked_columns([[0, 2], [2, 5]], 5).tolist()
    [[0, 2], [2, 5]]
    """
    array = as_array(values, "type_columns")
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise errors.wrong_type(
            f"type_columns must be integers of shape (T, 2), not {array.shape}."
        )
    array = array.astype(np.int64)
    bad = np.flatnonzero(
        (array[:, 0] < 0) | (array[:, 1] <= array[:, 0]) | (array[:, 1] > num_features)
    )
    if bad.size:
        raise errors.range(
            f"type_columns[{bad[0]}] is {array[bad[0]].tolist()}, no range within the "
            f"{num_features} columns."
        )
    ranges = np.unique(array, axis=0)
    if (ranges[1:, 0] < ranges[:-1, 1]).any():
        raise errors.range("type_columns overlap; ranges must be equal or have no common column.")
    return read_only(array)


def check_types(fields: Mapping[str, Any]) -> None:
    """Check that names, columns and the target type fit the types of the nodes and edges.

    Examples
    --------
    >>> check_types({"node_type": np.array([0, 1]), "node_type_names": ("user",)})
    Traceback (most recent call last):
    graphtemper.errors.InputError: node_type reaches 1 but node_type_names has 1 entries; name ...
    """
    node_type: Any = fields.get("node_type")
    columns = fields.get("type_columns")
    for key, of in TYPE_NAMES.items():
        names, types = fields.get(key), cast("Any", fields.get(of))
        if names is not None and types is None:
            raise errors.missing(f"{key} needs {of}.")
        if names is not None and types.max(initial=-1) >= len(names):
            raise errors.range(
                f"{of} reaches {types.max()} but {key} has {len(names)} entries; name every type."
            )
    for key in ("type_columns", "target_type"):
        if fields.get(key) is not None and node_type is None:
            raise errors.missing(f"{key} needs node_type.")
    if columns is not None and node_type.max(initial=-1) >= len(columns):
        raise errors.range(
            f"node_type reaches {node_type.max()} but type_columns has {len(columns)} rows; give "
            "every type its columns."
        )
    target = fields.get("target_type")
    if target is not None and not (node_type == target).any():
        raise errors.range(f"no node has the target type {target}; choose a type that occurs.")


def link_numbers(edges: NDArray[Any], num_nodes: int) -> tuple[Pairs, NDArray[np.int64]]:
    """Return all links (L, 2), sorted, and the number of each edge's link (E,), -1 for self-loops.

    Examples
    --------
    >>> links, number = link_numbers(np.array([[2, 0], [0, 2], [1, 1], [0, 1]]), 3)
    >>> links.tolist(), number.tolist()
    ([[0, 1], [0, 2]], [1, 1, -1, 0])
    """
    low = edges.min(axis=1, initial=num_nodes).astype(np.int64)
    high = edges.max(axis=1, initial=0)
    inner = low != high
    keys, inverse = np.unique((low * num_nodes + high)[inner], return_inverse=True)
    number = np.full(len(edges), -1, dtype=np.int64)
    number[inner] = inverse
    return np.column_stack(np.divmod(keys, max(num_nodes, 1))).astype(np.int32), number


def both_directions(
    edges: NDArray[Any], directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ordered pairs of a graph, (A, 2), and the edge that each is of, (A,).

    Examples
    --------
    >>> pairs, edge = both_directions(np.array([[0, 1], [1, 2]]), directed=False)
    >>> pairs.tolist(), edge.tolist()
    ([[0, 1], [1, 2], [1, 0], [2, 1]], [0, 1, 0, 1])
    """
    pairs, number = edges.astype(np.int64), np.arange(len(edges))
    if directed:
        return pairs, number
    return np.concatenate([pairs, pairs[:, ::-1]]), np.concatenate([number, number])


def is_symmetric(
    pairs: NDArray[Any], attributes: Mapping[str, NDArray[Any]], num_nodes: int
) -> bool:
    """Return whether a simple undirected graph holds these ordered pairs without a loss.

    Every pair must occur once and once in the other direction with the same attributes, and no
    pair may be a self-loop.

    Examples
    --------
    >>> is_symmetric(np.array([[0, 1], [1, 0]]), {"edge_weight": np.array([1.0, 2.0])}, 2)
    False
    """
    forward = pairs[:, 0].astype(np.int64) * num_nodes + pairs[:, 1]
    backward = pairs[:, 1].astype(np.int64) * num_nodes + pairs[:, 0]
    order, mirrored = np.argsort(forward, kind="stable"), np.argsort(backward, kind="stable")
    if (forward == backward).any() or not np.array_equal(forward[order], backward[mirrored]):
        return False
    if (forward[order][1:] == forward[order][:-1]).any():
        return False
    return all(np.array_equal(x[order], x[mirrored]) for x in attributes.values())


def reduced_edges(
    pairs: NDArray[Any],
    attributes: Mapping[str, NDArray[Any]],
    num_nodes: int,
    drop: Collection[str],
) -> dict[str, Any]:
    """Return edges, attributes and ``directed`` of a graph that holds these ordered pairs.

    ``drop`` leaves out ``"self_loops"``, ``"multi_edges"`` (all but the first of equal pairs),
    ``"direction"``, or ``"all"`` of these.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [1, 0], [1, 1]])
    >>> reduced_edges(pairs, {}, 2, ())["directed"]
    True
    >>> reduced_edges(pairs, {}, 2, ("self_loops",))
    {'directed': False, 'edges': array([[0, 1]], dtype=int32)}
    """
    rows = np.arange(len(pairs))
    if {"self_loops", "all"} & set(drop):
        rows = rows[pairs[rows, 0] != pairs[rows, 1]]
    if {"multi_edges", "all"} & set(drop):
        keys = pairs[rows, 0].astype(np.int64) * num_nodes + pairs[rows, 1]
        rows = rows[np.sort(np.unique(keys, return_index=True)[1])]
    pairs, attributes = pairs[rows], {key: values[rows] for key, values in attributes.items()}
    merge = {"direction", "all"} & set(drop) or is_symmetric(pairs, attributes, num_nodes)
    if merge:
        return {"directed": False, **merged_edges(pairs, attributes, num_nodes)}
    return {"directed": True, "edges": pairs, **attributes}


def merged_edges(
    pairs: NDArray[Any], attributes: Mapping[str, NDArray[Any]], num_nodes: int
) -> dict[str, NDArray[Any]]:
    """Return undirected edges, each once and sorted, with the attributes that all its rows share.

    Self-loops are dropped. Rows of one link with different attributes are refused.

    Examples
    --------
    >>> weight = {"edge_weight": np.array([3.0, 3.0, 5.0])}
    >>> merged = merged_edges(np.array([[1, 0], [0, 1], [2, 1]]), weight, 3)
    >>> merged["edges"].tolist(), merged["edge_weight"].tolist()
    ([[0, 1], [1, 2]], [3.0, 5.0])
    """
    links, number = link_numbers(pairs, num_nodes)
    inner = np.flatnonzero(number >= 0)
    first = inner[np.unique(number[inner], return_index=True)[1]]
    for key, values in attributes.items():
        differs = values[inner] != values[first][number[inner]]
        bad = inner[differs if differs.ndim == 1 else differs.any(axis=1)]
        if bad.size:
            low, high = links[number[bad[0]]]
            raise errors.other_types(
                f"the edges between {low} and {high} differ in {key}; pass directed=True to keep "
                "all of them, or make the two directions equal."
            )
    return {"edges": links, **{key: values[first] for key, values in attributes.items()}}
