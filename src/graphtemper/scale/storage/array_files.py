"""Arrays on disk: ``.npy`` files written in blocks of rows or by several tasks at once."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from graphtemper._core.files import flush
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError, WriteError

_CHUNK = 1 << 20


def index_dtype(num_nodes: int) -> np.dtype[Any]:
    """Return the smaller of int32 and int64 that can hold every node number.

    Examples
    --------
    >>> index_dtype(1000), index_dtype(2**31)
    (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def write_rows(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, blocks: Iterable[NDArray[Any]]
) -> None:
    """Write an array from blocks of rows, with one block in memory at a time.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.npy"
    >>> write_rows(path, (3,), np.int64, [np.array([1, 2]), np.array([3])])
    >>> np.load(path).tolist()
    [1, 2, 3]
    """
    written = 0
    with path.open("wb") as stream:
        _write_header(stream, shape, dtype)
        for block in blocks:
            np.ascontiguousarray(block, dtype=dtype).tofile(stream)
            written += len(block)
    if written != shape[0]:
        raise FileError(
            f"{path} needs {shape[0]} rows, but the source gave {written}; check the source."
        )


def _write_header(stream: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    description = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": description, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file, read in chunks."""
    crc = 0
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


@dataclass(frozen=True)
class Columns:
    """An (N, C) array on disk; each task fills its own rows.

    Rows are written with ``pwrite`` and never through a memory map, so that a full disk raises an
    error instead of killing the process. A task that runs twice writes the same bytes twice.

    Examples
    --------
    >>> import tempfile
    >>> columns = Columns.create(Path(tempfile.mkdtemp()) / "x.npy", (3, 2), np.float32)
    >>> columns.write(1, np.array([[1.0, 2.0]], dtype=np.float32))
    >>> columns.open().tolist()
    [[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]
    """

    path: Path
    shape: tuple[int, int]
    dtype: str
    offset: int

    @classmethod
    def describe(cls, path: Path, shape: tuple[int, int], dtype: DTypeLike) -> Columns:
        """Return the array of a file that exists already or is written later."""
        header = io.BytesIO()
        _write_header(header, shape, dtype)
        return cls(path, shape, np.dtype(dtype).str, header.tell())

    @classmethod
    def create(cls, path: Path, shape: tuple[int, int], dtype: DTypeLike) -> Columns:
        """Create the file of an array, filled with zeros."""
        columns = cls.describe(path, shape, dtype)
        columns.reserve()
        return columns

    def reserve(self) -> None:
        """Create the file and reserve its space, so that a full disk is detected early."""
        size = self._end - self.offset
        try:
            self.path.unlink(missing_ok=True)  # of an earlier run
            with self.path.open("xb") as stream:
                _write_header(stream, self.shape, self.dtype)
                stream.flush()
                if size and hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(stream.fileno(), self.offset, size)
                stream.truncate(self._end)
        except OSError as error:
            raise WriteError(
                f"cannot reserve {size:,} bytes for {self.path}: {error.strerror or error}; free "
                "disk space, or choose another workspace."
            ) from error

    @property
    def _end(self) -> int:
        return self.offset + self.shape[0] * self.shape[1] * np.dtype(self.dtype).itemsize

    def write(self, first: int, rows: NDArray[Any]) -> None:
        """Write rows, the first of which is row ``first`` of the array."""
        dtype = np.dtype(self.dtype)
        data = np.ascontiguousarray(rows, dtype=dtype).data.cast("B")
        position = self.offset + first * self.shape[1] * dtype.itemsize
        try:
            handle = os.open(self.path, os.O_WRONLY)
            try:
                while data:
                    count = os.pwrite(handle, data, position)
                    data, position = data[count:], position + count
            finally:
                os.close(handle)
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}.") from error

    def open(self) -> NDArray[Any]:
        """Map the array for reading."""
        dtype = np.dtype(self.dtype)
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be read here: {error.strerror or error}; every worker must "
                "have access to the workspace under the same path."
            ) from error
        if size != self._end:
            raise FileError(f"{self.path} is {size} bytes, not {self._end}; is the disk full?")
        if size == self.offset:  # an empty file cannot be mapped
            return np.empty(self.shape, dtype)
        return np.memmap(self.path, dtype, "r", self.offset, self.shape)

    def is_complete(self) -> bool:
        """Return whether the file exists with its full size."""
        return self.path.is_file() and self.path.stat().st_size == self._end

    def flush(self) -> None:
        """Flush the file to disk, so that it survives a crash of the machine."""
        try:
            flush(self.path)
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}.") from error

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
