"""Checks of a graph's arrays: each error names the field and the first bad entry."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import as_array
from graphtemper.errors import GraphTemperWarning

Nodes = ArrayLike | None
Features = NDArray[np.float32] | sp.csr_matrix
NOT_FINITE = "; replace non-finite entries."
# The smallest number in an array of integers, one per node or edge, and what its error advises.
_TYPES = (0, "; types are numbered from 0.")
NUMBERED = {
    "labels": (-1, "; number classes from 0 without large gaps; -1 means unlabelled."),
    "environment": (-1, "; environments are numbered from 0, and -1 means unknown."),
    "time": (np.iinfo(np.int64).min, ""),
    "edge_type": _TYPES,
    "node_type": _TYPES,
}


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def refuse(
    bad: NDArray[np.bool_],
    values: NDArray[Any],
    key: str,
    advice: str,
    kind: errors.Kind[Any] = errors.range,
) -> None:
    """Raise an error that names the first bad entry of an array; ``advice`` ends the sentence.

    Examples
    --------
    >>> refuse(np.array([False, True]), np.array([3, -1]), "labels", "; start at 0.")
    Traceback (most recent call last):
    graphtemper.errors.InputError: labels[1] is -1; start at 0.
    """
    if bad.any():
        place = tuple(np.argwhere(bad)[0].tolist())
        raise kind(f"{key}[{', '.join(map(str, place))}] is {values[place]}{advice}")


def checked_features(features: Any) -> Features:
    """Check and convert features to float32, dense or CSR."""
    sparse = sp.issparse(features)
    array: Any = features if sparse else as_array(features, "features")
    if array.dtype.kind not in ("fiub" if sparse else "fiubO"):
        raise errors.wrong_type(
            f"features must be a numeric (N, F) array of real numbers, not {array.dtype}."
        )
    if len(array.shape) != 2:
        raise errors.shape(f"features must be a real (N, F) array, but has shape {array.shape}.")
    if 0 in array.shape:
        raise errors.empty(
            f"features is empty, shape {array.shape}; a graph needs a node and a column."
        )
    if sparse:
        return _checked_sparse(array)
    try:
        with np.errstate(over="ignore"):  # numbers too large for float32 are reported below
            dense = np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise errors.wrong_type("features must be a numeric (N, F) array.") from error
    refuse(~np.isfinite(dense), array, "features", NOT_FINITE, errors.not_finite)
    return read_only(dense)


def names_of_columns(features: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table such as a pandas DataFrame, if it has any."""
    columns = list(getattr(features, "columns", ()))
    named = bool(columns) and all(isinstance(name, str) for name in columns)
    return tuple(columns) if named else None


def _checked_sparse(features: Any) -> sp.csr_matrix:
    """Check and convert sparse features to canonical float32 CSR."""
    _check_structure(features)
    with np.errstate(over="ignore"):
        matrix = sp.csr_matrix(features, dtype=np.float32)
    _check_structure(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise errors.not_finite(
            f"features[{row}, {matrix.indices[bad[0]]}] is {matrix.data[bad[0]]}; "
            "replace non-finite entries."
        )
    # The matrix stays a plain SciPy one; only its buffers are read-only.
    matrix = sp.csr_matrix(
        (read_only(matrix.data), read_only(matrix.indices), read_only(matrix.indptr)),
        shape=matrix.shape,
    )
    matrix.has_canonical_format = True
    return matrix


def _check_structure(matrix: Any) -> None:
    """Refuse indices that SciPy would follow out of the matrix, and out of the memory.

    Its constructors check them; whoever writes to them later, or builds one by hand, is not.
    """
    try:
        if matrix.format == "coo":
            inside = zip(matrix.coords, matrix.shape, strict=True)
            sound = all(
                x.size == matrix.data.size and (not x.size or 0 <= x.min() <= x.max() < end)
                for x, end in inside
            )
        else:
            sound = True
            if hasattr(matrix, "check_format"):  # compressed formats: CSR, CSC, BSR
                matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise errors.content(
            "features is a malformed sparse matrix: its indices do not fit its shape; build it "
            "again, as scipy.sparse.csr_matrix((data, (rows, columns)), shape) does."
        )


def checked_pairs(edges: Any, num_nodes: int) -> NDArray[np.integer[Any]]:
    """Check that edges are an integer (E, 2) array of existing nodes."""
    array = as_array(edges, "edges")
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise errors.shape(f"edges must have shape (E, 2), but has shape {array.shape}.")
    if not np.issubdtype(array.dtype, np.integer):
        raise errors.wrong_type(f"edges must be integers, not {array.dtype}.")
    if num_nodes > np.iinfo(array.dtype).max:  # small integers cannot be compared with it
        array = array.astype(np.int64)
    advice = f", outside the nodes 0..{num_nodes - 1}."
    refuse((array < 0) | (array >= num_nodes), array, "edges", advice, errors.edges)
    return array


def checked_edges(edges: Any, num_nodes: int) -> NDArray[np.int32]:
    """Check that each undirected edge occurs once, and put its smaller end first."""
    pairs = checked_pairs(edges, num_nodes)
    low, high = pairs.min(axis=1, initial=num_nodes), pairs.max(axis=1, initial=0)
    advice = ", a self-loop; drop self-loops (Graph.from_edges does)."
    refuse(low == high, pairs, "edges", advice, errors.edges)
    keys = low.astype(np.int64) * num_nodes + high
    order = np.argsort(keys, kind="stable")
    repeats = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if repeats.size:
        second = int(order[repeats + 1].min())
        raise errors.edges(
            f"edges[{second}] repeats the edge {low[second]}-{high[second]}; keep each undirected "
            "edge once (Graph.from_edges does)."
        )
    return read_only(np.column_stack([low, high]).astype(np.int32))


def checked_flag(value: Any, key: str) -> bool:
    """Check for True or False."""
    if not isinstance(value, bool | np.bool_):
        raise errors.wrong_type(f"{key} must be True or False, not {value!r}.")
    return bool(value)


def tidy_edges(pairs: NDArray[np.integer[Any]], num_nodes: int) -> NDArray[np.int32]:
    """Sort each pair, drop self-loops and duplicates; the result is in lexicographic order."""
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keep = low != high
    keys = np.sort(low[keep].astype(np.int64) * num_nodes + high[keep])
    keys = keys[np.append(True, keys[1:] != keys[:-1])[: keys.size]]
    return np.column_stack(np.divmod(keys, max(num_nodes, 1))).astype(np.int32)


def checked_integers(values: Any, key: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Check for an integer array of this shape."""
    array = as_array(values, key)
    if array.shape != shape:
        raise errors.shape(f"{key} must have shape {shape}, but has shape {array.shape}.")
    if not np.issubdtype(array.dtype, np.integer):
        raise errors.wrong_type(f"{key} must be integers, not {array.dtype}; convert them first.")
    # Possible for unsigned integers only.
    refuse(array > np.iinfo(np.int64).max, array, key, ", which does not fit int64.")
    return array.astype(np.int64)


def checked_numbers(values: Any, key: str, size: int) -> NDArray[np.int64]:
    """Check classes, times, environments or types: integers, one per node or edge.

    Examples
    --------
    >>> checked_numbers([0, -1], "edge_type", 2)
    Traceback (most recent call last):
    graphtemper.errors.InputError: edge_type[1] is -1; types are numbered from 0.
    """
    array = checked_integers(values, key, (size,))
    least, advice = NUMBERED[key]
    # More classes than nodes would be an error, and would make every (N, K) array huge.
    large = array >= max(size, 2) if key == "labels" else np.zeros(size, bool)
    refuse((array < least) | large, array, key, advice)
    return read_only(array)


def checked_masks(masks: Any, key: str, num_nodes: int) -> NDArray[np.bool_]:
    """Check boolean split masks of shape (S, N)."""
    array = np.atleast_2d(as_array(masks, key))
    if array.dtype != bool:
        raise errors.wrong_type(f"{key} must be boolean, not {array.dtype}.")
    if array.ndim != 2 or array.shape[1] != num_nodes:
        raise errors.shape(f"{key} must have shape (S, {num_nodes}), but has shape {array.shape}.")
    return read_only(np.ascontiguousarray(array))


def checked_names(values: Sequence[str], key: str, num_features: int) -> tuple[str, ...]:
    """Check the names of classes, columns or types."""
    if isinstance(values, str) or not np.iterable(values):
        raise errors.wrong_type(f"{key} must be a list of names, not {type(values).__name__}.")
    names = tuple(str(value) for value in values)
    if key == "feature_names" and len(names) != num_features:
        raise errors.shape(f"feature_names has {len(names)} entries for {num_features} columns.")
    if key.endswith("_type_names") and len(set(names)) < len(names):
        raise errors.repeated(f"{key} repeats a name; name every type differently.")
    return names


def check_labels_are_named(labels: NDArray[np.int64] | None, names: Sequence[str] | None) -> None:
    """Check that every label has a class name, if classes are named."""
    if labels is None or names is None:
        return
    advice = f", which has no name: class_names has {len(names)} entries; name every class."
    refuse(labels >= len(names), labels, "labels", advice)


def select_nodes(
    nodes: Nodes, num_nodes: int, classified: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Turn a boolean mask, an index array or None (all nodes) into an index array.

    Where only some nodes are ``classified``, no others may be selected, and a mask may be one of
    these nodes alone.

    Examples
    --------
    >>> select_nodes([True, False, True], 3).tolist()
    [0, 2]
    >>> select_nodes([2, 0], 3).tolist()
    [2, 0]
    >>> select_nodes([True, False], 3, classified=np.array([1, 2])).tolist()
    [1]
    """
    some = None if classified is None or classified.size == num_nodes else classified
    if nodes is None:
        return np.arange(num_nodes) if some is None else some
    array = as_array(nodes, "nodes")
    if array.ndim != 1:
        raise errors.shape(f"nodes must be one-dimensional, but has shape {array.shape}.")
    if array.dtype == bool:
        if some is not None and array.size == some.size:
            array = some[array]
        elif array.size != num_nodes:
            also = "" if some is None else f", {some.size} of them of the target type"
            raise errors.too_few(
                f"the node mask has {array.size} entries but the graph has {num_nodes} nodes{also}."
            )
        else:
            array = np.flatnonzero(array)
    elif array.size == 0:
        array = array.astype(np.int64)
    elif not np.issubdtype(array.dtype, np.integer):
        raise errors.wrong_type(
            f"nodes must be a boolean mask or integer indices, not {array.dtype}."
        )
    if array.size == 0:
        raise errors.empty("no node is selected; pass at least one.")
    advice = f", outside 0..{num_nodes - 1}; use valid indices."
    refuse((array < 0) | (array >= num_nodes), array, "nodes", advice, errors.foreign)
    others = array[:0] if some is None else array[~np.isin(array, some)]
    if some is not None and others.size:
        raise errors.foreign(
            f"node {others[0]} is not of the target type; pass a mask of the {some.size} nodes of "
            "that type, or their numbers among all nodes, graph.classified."
        )
    return array.astype(np.int64)


def leave_out_unlabelled(
    nodes: Nodes, rows: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the labelled ones of the selected rows; a list of nodes must have no others.

    Examples
    --------
    >>> leave_out_unlabelled([0, 1], np.array([0, 1]), np.array([2, -1]))
    Traceback (most recent call last):
    graphtemper.errors.InputError: node 1 has no label (1 of 2 chosen ones); choose ...
    """
    unlabelled = rows[labels[rows] < 0]
    if not unlabelled.size:
        return rows
    text = f"node {unlabelled[0]} has no label ({unlabelled.size} of {rows.size} chosen ones)"
    if unlabelled.size == rows.size or as_array(nodes, "nodes").dtype != bool:
        raise errors.no_labels(f"{text}; choose labelled nodes, or pass a mask to leave them out.")
    warnings.warn(f"{text}; such nodes are left out.", GraphTemperWarning, stacklevel=4)
    return rows[labels[rows] >= 0]


def place_in(rows: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return the place of every node among ``rows``, -1 outside; a repeated row is refused.

    Examples
    --------
    >>> place_in(np.array([2, 0]), 3).tolist()
    [1, -1, 0]
    """
    place = np.full(num_nodes, -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    repeats = rows[place[rows] != np.arange(rows.size)]
    if repeats.size:
        raise errors.repeated(f"node {repeats[0]} is selected twice; select each node once.")
    return place
