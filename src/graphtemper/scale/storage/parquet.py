"""Parquet files: opening, batches, and columns as arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import DamagedError, MissingExtraError, TableError


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            "Parquet and text tables need pyarrow; run pip install 'graphtemper[scale]'."
        ) from error


def parquet_files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a directory sorted by name.

    Names that start with a dot or an underscore are skipped, as Spark does.
    """
    if path.is_file():
        return [path]
    candidates = (p for p in path.glob("*.parquet") if p.name[0] not in "._")
    files = sorted(p for p in candidates if not os.path.isdir(p))
    if not files:
        raise DamagedError(f"{path} is neither a Parquet file nor a directory of them.")
    return files


def open_parquet(path: Path) -> Any:
    """Open a Parquet file."""
    with open_regular(path):
        pass
    try:
        # Checksums are those of files that have them.
        file = arrow("pyarrow.parquet").ParquetFile(path, page_checksum_verification=True)
        _ = file.schema_arrow.names  # they may not be UTF-8
        return file
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise DamagedError(f"{path} is truncated, damaged or not Parquet.") from error


def same_columns(files: list[Path]) -> list[str]:
    """Return the columns of Parquet files, which must be the same in all of them."""
    names: list[str] = open_parquet(files[0]).schema_arrow.names
    for file in files[1:]:
        other_names = open_parquet(file).schema_arrow.names
        if other_names != names:
            differing = sorted(set(other_names) ^ set(names)) or ["another order"]
            raise TableError(
                f"{file.name} does not have the columns of {files[0].name} ({differing[0]}); do "
                "not mix tables of different schema."
            )
    return names


def read_batches(path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet file in batches of a limited number of rows."""
    file = open_parquet(path)
    try:
        yield from file.iter_batches(batch_size=rows, columns=columns)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise DamagedError(f"{path} is truncated or damaged.") from error


def to_floats(batch: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    """Return columns of a batch as an (m, C) array of floats."""
    types = arrow("pyarrow.types")
    values = np.empty((batch.num_rows, len(names)))
    for position, name in enumerate(names):
        column = batch.column(name)
        real = types.is_floating(column.type) or types.is_integer(column.type)
        if not (real or types.is_boolean(column.type)) or column.null_count:
            raise TableError(
                f"{path}: column {name!r} must hold real numbers without gaps, not {column.type}."
            )
        with np.errstate(invalid="ignore"):  # a signalling NaN warns; the caller refuses any NaN
            values[:, position] = column.to_numpy(zero_copy_only=False)
    return values
