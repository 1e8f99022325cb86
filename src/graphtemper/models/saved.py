"""Models on disk: a JSON header and finite arrays in one ``.npz``, never a pickle."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import FileError, InputError
from graphtemper.files import read_npz, write_npz


def save(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write a model; the header holds its format and constructor arguments."""
    write_npz(path, {"header": np.array(json.dumps(header)), **arrays})


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a saved model's format, its other header fields and its arrays."""
    arrays = read_npz(path)
    if "header" not in arrays:
        raise FileError(f"{path}: key 'header' is missing; this is not a saved model.")
    try:
        header = json.loads(str(arrays.pop("header")))
        return str(header.pop("format")), header, arrays
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path}: the header is not that of a saved model.") from error


def finite_array(arrays: dict[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """Return the array at a key after checking that it holds finite real numbers."""
    if key not in arrays:
        raise InputError(f"key {key!r} is missing; this is not a saved model.")
    if arrays[key].dtype.kind != "f" or not np.isfinite(arrays[key]).all():
        raise InputError(f"{key} must hold finite real numbers.")
    return arrays[key]
