"""Parquet files: opening, bounds on what they unpack to, and columns as arrays.

Equal values are stored once, so a few hundred bytes can unpack to gigabytes. The footer is checked
before any column is read: it shows whether a column holds more values per row than it should.
Strings are read dictionary-encoded, so that their total length is known before they are expanded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError, MissingExtraError
from graphtemper.scale.storage.parquet_footer import read_footer

# A chunk stores headers, statistics and a dictionary in addition to its values.
_OVERHEAD_BYTES = 1 << 20
# The widest number is a decimal of 32 bytes, which may occur in a dictionary and as an index.
_NUMBER_BYTES = 64
# Real tables beyond this size are not compressed by more than this factor.
_BOMB_BYTES, _BOMB_RATIO = 64_000_000, 200
NAME_BYTES = 1000
"""Largest mean length of node names, over the rows that are read at a time."""


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
        raise FileError(f"{path} is neither a Parquet file nor a directory of them.")
    return files


def open_parquet(path: Path, dictionary_columns: Sequence[str] = ()) -> Any:
    """Open a Parquet file; the named string columns are read dictionary-encoded."""
    with open_regular(path):
        pass
    try:
        file = arrow("pyarrow.parquet").ParquetFile(
            path,
            read_dictionary=list(dictionary_columns) or None,
            page_checksum_verification=True,  # of files that have checksums
        )
        _ = file.schema_arrow.names  # they may not be UTF-8
        return file
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise FileError(f"{path} is truncated, damaged or not Parquet.") from error


def check_same_columns(files: list[Path], names: list[str]) -> None:
    """Refuse Parquet files that do not all have the columns of the first."""
    for file in files[1:]:
        other_names = open_parquet(file).schema_arrow.names
        if other_names != names:
            differing = sorted(set(other_names) ^ set(names)) or ["another order"]
            raise FileError(
                f"{file.name} does not have the columns of {files[0].name} ({differing[0]}); do "
                "not mix tables of different schema."
            )


def check_footer(path: Path, values_per_row: Mapping[str, int]) -> int:
    """Return the number of rows of a Parquet file whose columns hold no more than they should.

    Columns with more values per row than stated, columns that would unpack to more bytes than
    their rows can need, and files that state far more values than any real table of their size are
    refused. Columns that are not named are ignored, because they are never read. The footer's
    statements about its pages are trusted.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> path = Path(tempfile.mkdtemp()) / "z.parquet"
    >>> pq.write_table(pa.table({"logits": [[0.0, 1.0], [0.0] * 1000]}), path)
    >>> check_footer(path, {"logits": 2})
    Traceback (most recent call last):
    graphtemper.errors.FileError: ...: column 'logits' holds 1002 values in 2 rows, not 2 per row.
    """
    groups, total = read_footer(path), 0
    for group in groups:
        for chunk in group.columns:
            name = _column_of(chunk.path, values_per_row)
            if name is None:
                continue
            limit = group.num_rows * values_per_row[name]
            if chunk.num_values > limit:
                raise FileError(
                    f"{path}: column {name!r} holds {chunk.num_values} values in "
                    f"{group.num_rows} rows, not {values_per_row[name]} per row."
                )
            width = NAME_BYTES if chunk.strings else _NUMBER_BYTES
            if chunk.num_bytes > limit * width + _OVERHEAD_BYTES:
                raise FileError(
                    f"{path}: column {name!r} would unpack to {chunk.num_bytes} "
                    f"bytes, more than {group.num_rows} rows can need; it is not read."
                )
            total += max(chunk.num_values, group.num_rows)
    if 8 * total > max(_BOMB_BYTES, _BOMB_RATIO * path.stat().st_size):
        raise FileError(
            f"{path} states {total} values in {path.stat().st_size} bytes, more than any real "
            "table; it is not read."
        )
    return sum(group.num_rows for group in groups)


def _column_of(leaf: str, columns: Mapping[str, int]) -> str | None:
    """Return the column that a leaf of the schema belongs to; names may contain dots."""
    parts = leaf.split(".")
    candidates = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in candidates if name in columns), None)


def expand_names(names: Any, kind: Any, path: Path) -> Any:
    """Return dictionary-encoded names as plain values of type ``kind``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = pa.array(["a", "b", "a"])
    >>> expand_names(names.dictionary_encode(), names.type, Path("z.parquet")).to_pylist()
    ['a', 'b', 'a']
    """
    types, compute = import_module("pyarrow.types"), import_module("pyarrow.compute")
    if types.is_dictionary(kind) or not types.is_dictionary(names.type):
        return names
    total = compute.sum(compute.binary_length(names.dictionary).take(names.indices)).as_py() or 0
    if total > NAME_BYTES * len(names):
        raise FileError(
            f"{path}: {len(names)} names take {total} bytes; use names of less than "
            f"{NAME_BYTES} bytes each."
        )
    return names.dictionary_decode().cast(kind)


def empty_table(file: Any, columns: list[str]) -> Any:
    """Return columns without rows, to check their types before anything is unpacked."""
    return file.schema_arrow.empty_table().select(columns)


def to_floats(batch: Any, names: list[str], path: Path) -> NDArray[np.float64]:
    """Return columns of a batch as an (m, C) array of floats."""
    types = arrow("pyarrow.types")
    values = np.empty((batch.num_rows, len(names)))
    for position, name in enumerate(names):
        column = batch.column(name)
        real = types.is_floating(column.type) or types.is_integer(column.type)
        if not (real or types.is_boolean(column.type)) or column.null_count:
            raise FileError(
                f"{path}: column {name!r} must hold real numbers without gaps, not {column.type}."
            )
        with np.errstate(invalid="ignore"):  # a signalling NaN warns; the caller refuses any NaN
            values[:, position] = column.to_numpy(zero_copy_only=False)
    return values


def is_number_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list of numbers."""
    types = arrow("pyarrow.types")
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def is_string(field: Any) -> bool:
    """Return whether an Arrow field holds strings or bytes."""
    types, kind = arrow("pyarrow.types"), field.type
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(is_kind(kind) for is_kind in kinds)
