"""The ``.npz`` format of a graph: which arrays stand for which field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.graph.attributes import EDGE_FIELDS, NODE_FIELDS
from graphtemper.graph.checks import Features, checked_features

Arrays = dict[str, NDArray[Any]]

_CSR_KEYS = ("features_data", "features_indices", "features_indptr", "features_shape")
_ARRAYS = (*NODE_FIELDS, *EDGE_FIELDS, "type_columns")
_NAME_LISTS = ("class_names", "feature_names", "node_type_names", "edge_type_names")


def to_arrays(fields: Mapping[str, Any]) -> Arrays:
    """Return the arrays of a file for the fields of a `Graph`; fields that are None have none.

    Examples
    --------
    >>> arrays = to_arrays({"features": np.eye(2), "edges": np.array([[0, 1]]), "name": "pair"})
    >>> sorted(arrays)
    ['edges', 'features', 'name']
    """
    arrays: Arrays = {"edges": fields["edges"], "name": np.array(fields["name"])}
    features = fields["features"]
    if isinstance(features, np.ndarray):
        arrays["features"] = features
    else:
        values = (features.data, features.indices, features.indptr, np.array(features.shape))
        arrays.update(zip(_CSR_KEYS, values, strict=True))
    arrays |= {key: fields[key] for key in _ARRAYS if fields.get(key) is not None}
    for key in _NAME_LISTS:
        if fields.get(key) is not None:
            arrays[key] = np.array(fields[key], dtype=np.str_)
    if fields.get("directed"):
        arrays["directed"] = np.array(True)
    if fields.get("target_type") is not None:
        arrays["target_type"] = np.array(fields["target_type"])
    return arrays


def from_arrays(arrays: Arrays) -> dict[str, Any]:
    """Return the fields of a `Graph` from the arrays of a file; unknown keys are ignored.

    Examples
    --------
    >>> from_arrays({"features": np.eye(2), "edges": np.array([[0, 1]])})["name"]
    ''
    """
    return {
        "features": _features(arrays),
        "edges": _required(arrays, "edges"),
        "name": _string(arrays, "name"),
        **{key: arrays.get(key) for key in _ARRAYS},
        **{key: list(map(str, arrays[key].reshape(-1))) for key in _NAME_LISTS if key in arrays},
        "directed": _scalar(arrays, "directed", bool, False),
        "target_type": _scalar(arrays, "target_type", np.integer, None),
    }


def _scalar(arrays: Arrays, key: str, kind: Any, default: Any) -> Any:
    """Read one value, or the default where the key is missing."""
    value = arrays.get(key)
    if value is None:
        return default
    if value.size != 1 or not np.issubdtype(value.dtype, kind):
        raise errors.content(
            f"key {key!r} must hold one {kind.__name__}, not {value.dtype} values."
        )
    return value.reshape(-1)[0].item()


def _required(arrays: Arrays, key: str) -> NDArray[Any]:
    """Return the array at a key that a graph file must have."""
    if key not in arrays:
        raise errors.content(f"key {key!r} is missing; a graph file needs features and edges.")
    return arrays[key]


def _features(arrays: Arrays) -> Features:
    """Read dense or CSR features from the arrays of a graph file."""
    if "features" in arrays:
        return checked_features(arrays["features"])
    if not any(key in arrays for key in _CSR_KEYS):
        raise errors.content("key 'features' is missing; a graph file needs features and edges.")
    data, indices, indptr, shape = (_required(arrays, key) for key in _CSR_KEYS)
    if shape.shape != (2,) or not np.issubdtype(shape.dtype, np.integer) or shape.min() < 0:
        raise errors.content("features_shape must be two non-negative integers.")
    if data.dtype.kind not in "fiub" or {indices.dtype.kind, indptr.dtype.kind} - {"i", "u"}:
        raise errors.wrong_type("CSR features must be real numbers with integer indices.")
    try:
        matrix = sp.csr_matrix((data, indices, indptr.astype(np.int64)), shape=tuple(shape))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise errors.content(f"the parts of the CSR features do not fit: {error}.") from error
    return checked_features(matrix)


def _string(arrays: Arrays, key: str) -> str:
    """Read a string, or an empty string, where the key is missing."""
    value = arrays.get(key)
    return str(value.reshape(-1)[0]) if value is not None and value.size else ""
