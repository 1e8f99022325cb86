"""Saved models: a JSON header and finite arrays in one ``.npz``, without pickle."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.files import read_npz, write_npz
from graphtemper._core.safe_reading import parse_json


def save(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model; the header holds its format and constructor arguments."""
    write_npz(path, {"header": np.array(json.dumps(header)), **arrays})


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a saved model's format, its other header fields and its arrays."""
    arrays = read_npz(path)
    if "header" not in arrays:
        raise errors.damaged(f"{path}: key 'header' is missing; this is not a saved model.")
    try:
        header = parse_json(str(arrays.pop("header")), infinite=True)
        return str(header.pop("format")), header, arrays
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise errors.damaged(f"{path}: the header is not that of a saved model.") from error


def check_fields(header: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check that a header names exactly the constructor's arguments.

    Examples
    --------
    >>> check_fields({"hops": 2}, {"hops": 2, "tol": 1e-6})
    Traceback (most recent call last):
    graphtemper.errors.InputError: the header is not that of a saved model: 'tol' is missing.
    """
    for key in sorted(expected.keys() ^ header.keys()):
        word = "missing" if key in expected else "unknown"
        raise errors.content(f"the header is not that of a saved model: {key!r} is {word}.")


def finite_array(arrays: dict[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """Return the array of a key after checking that it is finite in float32."""
    if key not in arrays:
        raise errors.content(f"key {key!r} is missing; this is not a saved model.")
    array = arrays[key]
    with np.errstate(over="ignore"):  # predictions are float32, in which large numbers are inf
        if array.dtype.kind != "f" or not np.isfinite(array.astype(np.float32)).all():
            raise errors.range(f"{key} must hold finite real numbers that fit float32.")
    return array
