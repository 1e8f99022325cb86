"""What a Parquet file may unpack to: told by its footer, before anything else is read.

A few hundred bytes can stand for gigabytes, as equal values are stored once. Where a row has a
known number of values, the footer says whether it has more; names are read as numbers into a list
of different ones, so that their lengths are known before they are written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from graphtemper.errors import FileError

# A chunk has headers, statistics and a list of different values beside its values.
_BESIDE = 1 << 20
# The widest number is a decimal of 32 bytes, which may be listed and counted.
_NUMBER = 64
NAME = 1000
"""Bytes that a row's name may have, on average over the rows that are read together."""


def check_footer(file: Any, path: Path, values: Mapping[str, int]) -> None:
    """Refuse a Parquet file whose columns hold more than so many values a row.

    So are columns that would unpack to more bytes than their rows can need. Columns that are not
    named are not looked at, as they are not to be read. A footer that lies about its pages is
    believed.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"logits": [[0.0, 1.0], [0.0] * 1000]}), stream)
    >>> check_footer(pq.ParquetFile(stream), Path("z.parquet"), {"logits": 2})
    Traceback (most recent call last):
    graphtemper.errors.FileError: z.parquet: column 'logits' holds 1002 values in 2 rows, not 2...
    """
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            name = _named(chunk.path_in_schema, values)
            if name is None:
                continue
            most = group.num_rows * values[name]
            if chunk.num_values > most:
                raise FileError(
                    f"{path}: column {name!r} holds {chunk.num_values} values in "
                    f"{group.num_rows} rows, not {values[name]} a row."
                )
            width = NAME if chunk.physical_type == "BYTE_ARRAY" else _NUMBER
            if chunk.total_uncompressed_size > most * width + _BESIDE:
                raise FileError(
                    f"{path}: column {name!r} would unpack to {chunk.total_uncompressed_size} "
                    f"bytes, which {group.num_rows} rows cannot need; it is not read."
                )


def _named(leaf: str, values: Mapping[str, int]) -> str | None:
    """Return the column that a leaf of the schema belongs to; names may have dots themselves."""
    parts = leaf.split(".")
    found = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in found if name in values), None)


def written_out(names: Any, kind: Any, path: Path) -> Any:
    """Return names that were read as numbers into a list of different ones as their own type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = pa.array(["a", "b", "a"])
    >>> written_out(names.dictionary_encode(), names.type, Path("z.parquet")).to_pylist()
    ['a', 'b', 'a']
    """
    types, compute = import_module("pyarrow.types"), import_module("pyarrow.compute")
    if types.is_dictionary(kind) or not types.is_dictionary(names.type):
        return names
    total = compute.sum(compute.binary_length(names.dictionary).take(names.indices)).as_py() or 0
    if total > NAME * len(names):
        raise FileError(
            f"{path}: {len(names)} names have {total} bytes in all; name nodes by less than "
            f"{NAME} bytes each."
        )
    return names.dictionary_decode().cast(kind)
