"""The footer of a Parquet file, decoded here because pyarrow aborts the process on damaged ones.

pyarrow does not translate the exceptions that its library raises when the metadata of a column is
read, so one damaged byte would end a watch. The footer is a struct in Thrift's compact protocol,
which is a few kinds of values; of it only sizes are used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError

_MAGIC = b"PAR1"
_MAX_FOOTER = 64_000_000
_MAX_DEPTH = 20
_BYTE_ARRAY = 6


class ColumnChunk(NamedTuple):
    """One column of a row group: its path, values, unpacked bytes, and whether it holds strings."""

    path: str
    num_values: int
    num_bytes: int
    strings: bool


class RowGroup(NamedTuple):
    """Consecutive rows of a file."""

    num_rows: int
    columns: list[ColumnChunk]


def read_footer(path: Path) -> list[RowGroup]:
    """Return the sizes that the footer of a Parquet file states.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> path = Path(tempfile.mkdtemp()) / "x.parquet"
    >>> pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), path)
    >>> (group,) = read_footer(path)
    >>> group.num_rows, [(chunk.path, chunk.num_values) for chunk in group.columns]
    (3, [('a', 3), ('b', 3)])
    """
    try:
        fields = _Reader(_footer_bytes(path)).struct(0)
        return [_row_group(group) for group in fields[4]]
    except FileError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is truncated, damaged or not Parquet.") from error


def _footer_bytes(path: Path) -> bytes:
    with open_regular(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 8, 0))
        tail = stream.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or not 0 < length <= min(size - 12, _MAX_FOOTER):
            raise ValueError("no footer")
        stream.seek(size - 8 - length)
        return stream.read(length)


# The numbers are the fields of the structs in Parquet's definition (parquet.thrift).
def _row_group(fields: dict[int, Any]) -> RowGroup:
    columns = [_column_chunk(column[3]) for column in fields[1]]
    return RowGroup(_size(fields[3]), columns)


def _column_chunk(fields: dict[int, Any]) -> ColumnChunk:
    path = ".".join(part.decode("utf-8") for part in fields[3])
    return ColumnChunk(path, _size(fields[5]), _size(fields[6]), fields[1] == _BYTE_ARRAY)


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a size")
    return value


class _Reader:
    """Reads values of Thrift's compact protocol; every read checks that the bytes exist."""

    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Return the fields of a struct by number."""
        if depth > _MAX_DEPTH:
            raise ValueError("depth")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._field(head & 15, depth)
        return fields

    def _field(self, kind: int, depth: int) -> Any:
        return kind == 1 if kind in (1, 2) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):  # in a collection, a boolean takes a byte
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._unsigned())
        if kind in (9, 10):
            return self._list(depth)
        if kind == 11:
            return self._map(depth)
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("kind")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._unsigned() if head >> 4 == 15 else head >> 4
        self._check(count)  # an item takes at least one byte
        return [self._value(head & 15, depth) for _ in range(count)]

    def _map(self, depth: int) -> None:
        count = self._unsigned()
        self._check(count)
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._value(kinds >> 4, depth)
            self._value(kinds & 15, depth)

    def _check(self, count: int) -> None:
        if count > len(self._content) - self._place:
            raise ValueError("end")

    def _take(self, count: int) -> bytes:
        self._check(count)
        self._place += count
        return self._content[self._place - count : self._place]

    def _byte(self) -> int:
        self._place += 1
        return self._content[self._place - 1]  # raises IndexError at the end

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("integer")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
