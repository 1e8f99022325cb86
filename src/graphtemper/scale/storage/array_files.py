"""Arrays on disk: plain ``.npy`` files that are written by blocks of rows, or by many tasks."""

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
from graphtemper.errors import FileError, WriteError

_CHUNK = 1 << 22


def index_dtype(num_nodes: int) -> np.dtype[Any]:
    """Return what numbers of nodes are stored as: the smaller of int32 and int64 that holds them.

    Examples
    --------
    >>> index_dtype(1000), index_dtype(2**31)
    (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if num_nodes < 2**31 else np.int64)


def write_rows(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, blocks: Iterable[NDArray[Any]]
) -> None:
    """Write an array that arrives in blocks of rows, holding one block at a time.

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
        raise FileError(f"{path} was to hold {shape[0]} rows but {written} came; check the source.")


def _write_header(stream: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    described = np.lib.format.dtype_to_descr(np.dtype(dtype))
    facts = {"descr": described, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file, read in pieces."""
    total = 0
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            total = zlib.crc32(piece, total)
    return total


@dataclass(frozen=True)
class Columns:
    """An (N, C) array on disk that many tasks fill, each its own rows.

    Rows are written with plain writes at their place, never through a mapping: a full disk is then
    an error and not a crash, and a task that runs twice writes the same bytes twice.

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
    def at(cls, path: Path, shape: tuple[int, int], dtype: DTypeLike) -> Columns:
        """Describe the array that a file holds or will hold."""
        header = io.BytesIO()
        _write_header(header, shape, dtype)
        return cls(path, shape, np.dtype(dtype).str, header.tell())

    @classmethod
    def create(cls, path: Path, shape: tuple[int, int], dtype: DTypeLike) -> Columns:
        """Describe an array and make its file."""
        made = cls.at(path, shape, dtype)
        made.reserve()
        return made

    def reserve(self) -> None:
        """Make the file and reserve its space, so that a full disk is found out now."""
        size = self._end - self.offset
        try:
            with self.path.open("wb") as stream:
                _write_header(stream, self.shape, self.dtype)
                stream.flush()
                if size and hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(stream.fileno(), self.offset, size)
                stream.truncate(self._end)
        except OSError as error:
            raise WriteError(
                f"cannot reserve {size:,} bytes for {self.path}: {error.strerror or error}; free "
                "some disk, or name another --workspace."
            ) from error

    @property
    def _end(self) -> int:
        return self.offset + self.shape[0] * self.shape[1] * np.dtype(self.dtype).itemsize

    def write(self, first: int, rows: NDArray[Any]) -> None:
        """Put rows at their place, from row ``first`` on."""
        kind = np.dtype(self.dtype)
        data = np.ascontiguousarray(rows, dtype=kind).data.cast("B")
        place = self.offset + first * self.shape[1] * kind.itemsize
        try:
            handle = os.open(self.path, os.O_WRONLY)
            try:
                while data:
                    count = os.pwrite(handle, data, place)
                    data, place = data[count:], place + count
            finally:
                os.close(handle)
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}.") from error

    def open(self) -> NDArray[Any]:
        """Map the whole array for reading."""
        kind = np.dtype(self.dtype)
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be read here: {error.strerror or error}; every worker must "
                "see the workspace under the same path."
            ) from error
        if size != self._end:
            raise FileError(f"{self.path} is {size} bytes, not {self._end}; is the disk full?")
        if size == self.offset:  # an empty file cannot be mapped
            return np.empty(self.shape, kind)
        return np.memmap(self.path, kind, "r", self.offset, self.shape)

    def whole(self) -> bool:
        """Whether the file is there with its whole size."""
        return self.path.is_file() and self.path.stat().st_size == self._end

    def flush(self) -> None:
        """Bring what was written to the disk itself, so that it outlasts the machine's end."""
        try:
            flush(self.path)
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}.") from error

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
