"""Atomic writes, and checked reads of ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.file_lock import try_lock
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError

# A .npy header is a short Python literal; anything longer is an attack or damage.
_MAX_HEADER = 10_000
# Real arrays beyond this size are not compressed by more than this factor; zip bombs are. Values
# count as 8 bytes each, because that is what narrow ones become when they are used.
_BOMB_BYTES, _BOMB_RATIO, _VALUE_BYTES = 256_000_000, 200, 8
# NumPy writes no other compression.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Archives are unpacked in pieces of this many bytes, so that nothing is in memory twice.
_CHUNK = 1 << 20
# What zipfile and zlib raise on a file that is not what it claims to be.
_DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError)
_TEMPORARY = ".partial"


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file next to ``path`` and rename it into place on success.

    A reader sees the old file or the new one, never a part of it, also after a crash of the
    machine. The folder has to exist, the permissions of an existing file are kept, and what a
    killed process left is removed. With ``replace=False`` a file that exists at the end, also one
    that appeared in the meantime, is kept, and a `FileError` is raised.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as stream:
    ...     _ = stream.write(b"complete")
    >>> target.read_bytes()
    b'complete'
    """
    target = Path(path)
    check_folder(target)
    _remove_leftovers(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        # Opened like any other new file, not by `tempfile`, so that it has the usual permissions.
        stream = temporary.open("xb")
    except OSError as error:
        raise errors.write(f"cannot write {target}: {error.strerror or error}.") from error
    try:
        with stream:
            try_lock(stream)  # so that no other process takes it for a leftover
            yield stream
            stream.flush()
            _keep_mode(stream, target)
            os.fsync(stream.fileno())
        if replace:
            os.replace(temporary, target)
        else:
            os.link(temporary, target)  # fails if the target exists
            temporary.unlink()
        flush(target.parent)
    except OSError as error:
        _discard(temporary)
        if isinstance(error, FileError):
            raise
        raise errors.write(f"cannot write {target}: {error.strerror or error}.") from error
    except BaseException:
        _discard(temporary)
        raise


def check_folder(target: Path) -> None:
    """Refuse a path in a folder that does not exist: its name may be mistyped."""
    if not target.parent.is_dir():
        raise errors.write(
            f"cannot write {target}: there is no folder {target.parent}; create it, or choose "
            "another."
        )


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of the same target that no living process has locked."""
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(target.parent)]
        prefix = f".{target.name}."
        for name in names:
            token = name.removeprefix(prefix).removesuffix(_TEMPORARY)
            if name == f"{prefix}{token}{_TEMPORARY}" and len(token) == 8:
                with contextlib.suppress(OSError), open_regular(target.with_name(name)) as stream:
                    if try_lock(stream):
                        target.with_name(name).unlink()


def _keep_mode(stream: IO[bytes], target: Path) -> None:
    """Give a new file the permissions of the one that it replaces."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)
        if hasattr(os, "fchmod") and stat.S_ISREG(status.st_mode):
            os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk so that they survive a crash.

    Systems and file systems that cannot flush a folder are left to their own order of writes.
    """
    if not path.is_dir():
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        return
    with contextlib.suppress(PermissionError):  # Windows does not open folders
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
                raise
        finally:
            os.close(handle)


def _discard(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed ``.npz``, atomically and with no object arrays."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise errors.damaged(f"array {key!r} holds Python objects, which are never written.")
    with atomic_write(path) as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read every array of a ``.npz`` after checking its headers against the archive's directory.

    Each member's header must claim exactly the bytes that the archive's directory lists for it,
    so a header that claims 1e12 elements is refused before anything is allocated, and so is an
    archive that would unpack to hundreds of times its size. Object arrays are never unpickled.
    """
    source = Path(path)
    try:
        with open_regular(source) as stream:
            if stream.peek(2)[:2] not in (b"PK", b""):
                raise errors.damaged(f"{source} is not an .npz file, which NumPy's savez writes.")
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
                _check_members(archive, source, os.fstat(stream.fileno()).st_size)
                return dict(_read_member(archive, member, source) for member in members)
    except FileError:
        raise
    except _DAMAGE as error:
        raise errors.damaged(f"{source} is damaged or not an .npz: {_one_line(error)}.") from error


def open_array(path: str | os.PathLike[str], what: str) -> NDArray[Any]:
    """Map a ``.npy`` for reading, after checking that it holds exactly what its header claims.

    ``what`` names the array in errors. Nothing is read but the header; object arrays are refused.
    Rows and columns may be in either order on disk.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.asfortranarray([[1, 2], [3, 4]]))
    >>> open_array(folder / "x.npy", "x").tolist()
    [[1, 2], [3, 4]]
    >>> _ = (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    >>> open_array(folder / "x.npy", "x")
    Traceback (most recent call last):
    graphtemper.errors.FileError: x: ...x.npy is 159 bytes but its header claims 160; ...
    """
    source = Path(path)
    try:
        with open_regular(source) as stream:
            header = read_npy_header(stream)
            size = os.fstat(stream.fileno()).st_size
            if header.dtype.hasobject or not header.dtype.itemsize:
                raise ValueError(f"an array of {header.dtype}")
            claimed = header.offset + header.nbytes
            if size != claimed:
                raise errors.damaged(
                    f"{source} is {size} bytes but its header claims {claimed}; it is truncated or "
                    "damaged, so write it again."
                )
            order: Literal["F", "C"] = "F" if header.fortran else "C"
            if not header.nbytes:  # an empty file cannot be mapped
                return np.empty(header.shape, header.dtype, order)
            return np.memmap(stream, header.dtype, "r", header.offset, header.shape, order)
    except FileError as error:
        raise errors.damaged(f"{what}: {error}") from error
    except (*_DAMAGE, OverflowError) as error:
        raise errors.damaged(f"{what}: {source} is damaged or not an .npy of numbers.") from error


class NpyHeader(NamedTuple):
    """The header of an ``.npy``: the array follows at ``offset``."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes that the array needs, which may be more than the file has."""
        return prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an ``.npy`` and nothing else; raise ValueError if it is not valid.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> np.save(stream, np.zeros((3, 2), np.float32))
    >>> _ = stream.seek(0)
    >>> read_npy_header(stream)
    NpyHeader(shape=(3, 2), fortran=False, dtype=dtype('float32'), offset=128)
    """
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
        sizes = tuple(int(size) for size in shape)
    except (OSError, zlib.error, zipfile.BadZipFile):
        raise
    except Exception as error:  # NumPy's parser raises what Python's does, MemoryError included
        raise ValueError("the header of an array is not valid") from error
    if min(sizes, default=0) < 0:
        raise ValueError(f"an array of shape {sizes}")
    return NpyHeader(sizes, fortran, dtype, stream.tell())


def _check_members(archive: zipfile.ZipFile, source: Path, size: int) -> None:
    """Refuse archives with repeated names, other compression, or far more content than bytes."""
    members, total = archive.infolist(), 0
    counts = Counter(member.filename for member in members)
    for member in members:
        if counts[member.filename] > 1:
            raise errors.damaged(
                f"{source} holds {member.filename!r} twice; remove one of the two."
            )
        if member.compress_type not in _METHODS:
            raise errors.damaged(
                f"{source}: {member.filename!r} is compressed in a way that NumPy does not write; "
                "save the file again with numpy.savez_compressed."
            )
        total += member.file_size
    limit = max(_BOMB_BYTES, _BOMB_RATIO * size)
    if total <= limit:  # headers are in what is unpacked
        total = sum(_unpacked_bytes(archive, member) for member in members)
    if total > limit:
        raise errors.oversize(
            f"{source} would unpack from {size} to {total} bytes, more than any real graph; it is "
            "not read."
        )


def _unpacked_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    with archive.open(member) as stream:
        width = read_npy_header(stream).dtype.itemsize
    return member.file_size // max(width, 1) * max(width, _VALUE_BYTES)


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: Path
) -> tuple[str, NDArray[Any]]:
    key = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        header = read_npy_header(stream)
        if header.dtype.hasobject:
            raise errors.damaged(
                f"{source}: array {key!r} holds Python objects, which are never read."
            )
        claimed = header.nbytes
        if header.offset + claimed != member.file_size:
            raise errors.damaged(
                f"{source}: array {key!r} claims {claimed} bytes but the archive holds "
                f"{max(member.file_size - stream.tell(), 0)}; the file is damaged."
            )
        data = np.empty(claimed, dtype=np.uint8)
        filled = 0
        while chunk := stream.read(min(_CHUNK, claimed - filled)):
            data[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            filled += len(chunk)
        if filled != claimed:
            raise errors.damaged(f"{source}: array {key!r} ends early; the file is truncated.")
    array = data.view(header.dtype) if claimed else np.empty(0, header.dtype)
    return key, array.reshape(header.shape, order="F" if header.fortran else "C")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
