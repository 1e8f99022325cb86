"""Files are checked before they are used and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import FileError

# A .npy header is a short Python literal; anything longer is an attack or damage.
_MAX_HEADER = 10_000
# Real arrays beyond this size do not shrink by more than this factor; bombs do.
_BOMB_BYTES, _BOMB_RATIO = 256_000_000, 200
# Archives are unpacked by pieces of this many bytes, so that nothing is held twice.
_CHUNK = 1 << 20
# What zipfile, zlib and NumPy's header parser raise on a file that is not what it claims to be.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    ValueError,
    EOFError,
    OSError,
    SyntaxError,
    RuntimeError,
)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside ``path`` and rename it into place on success.

    A reader sees the old file or the new one, never a part of it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as stream:
    ...     _ = stream.write(b"whole")
    >>> target.read_bytes()
    b'whole'
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes private files; a result should have the permissions of any other new file.
        os.chmod(temporary, 0o666 & ~umask())
        os.replace(temporary, target)
    except OSError as error:
        _discard(temporary)
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {target}: {error.strerror or error}.") from error
    except BaseException:
        _discard(temporary)
        raise


def umask() -> int:
    """Return the permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _discard(temporary: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed ``.npz``, atomically and with no object arrays."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise FileError(f"array {key!r} holds Python objects, which are never written.")
    with atomic_write(path) as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read every array of a ``.npz`` after checking that its headers are truthful.

    Each member's header must claim exactly the bytes that the archive's directory lists for it,
    so a header that claims 1e12 elements is refused before anything is allocated, and so is an
    archive that would unpack to hundreds of times its size. Object arrays are never unpickled.
    """
    source = Path(path)
    if not source.is_file():
        raise FileError(f"{source} does not exist or is not a file.")
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            _check_members(members, source)
            return dict(_read_member(archive, member, source) for member in members)
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{source} is damaged or not an .npz: {_one_line(error)}.") from error


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Map one array for reading; a header that claims more than the file holds is refused."""
    source = Path(path)
    if not source.is_file():
        raise FileError(f"{source} does not exist or is not a file.")
    try:
        found: NDArray[Any] = np.load(source, mmap_mode="r", allow_pickle=False)
        return found
    except _DAMAGE as error:
        raise FileError(f"{source} is damaged or not an .npy of numbers.") from error


class NpyHeader(NamedTuple):
    """What an ``.npy`` says about the array that follows at ``offset``."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes that the array takes, which may be more than there are."""
        return prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: IO[bytes]) -> NpyHeader:
    """Read the header of an ``.npy`` and nothing else; ValueError where it is none.

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
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError(f"unsupported .npy version {version}")
    shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    if min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape}")
    return NpyHeader(tuple(int(size) for size in shape), fortran, dtype, stream.tell())


def _check_members(members: list[zipfile.ZipInfo], source: Path) -> None:
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise FileError(f"{source} holds {double!r} twice; which one is meant cannot be known.")
    total = sum(member.file_size for member in members)
    if total > max(_BOMB_BYTES, _BOMB_RATIO * source.stat().st_size):
        raise FileError(
            f"{source} would unpack from {source.stat().st_size} to {total} bytes, which no real "
            "graph does; it is not read."
        )


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: Path
) -> tuple[str, NDArray[Any]]:
    key = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        header = read_npy_header(stream)
        if header.dtype.hasobject:
            raise FileError(f"{source}: array {key!r} holds Python objects, which are never read.")
        claimed = header.nbytes
        if header.offset + claimed != member.file_size:
            raise FileError(
                f"{source}: array {key!r} claims {claimed} bytes but the archive holds "
                f"{max(member.file_size - stream.tell(), 0)}; the file is damaged."
            )
        data = np.empty(claimed, dtype=np.uint8)
        filled = 0
        while chunk := stream.read(min(_CHUNK, claimed - filled)):
            data[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            filled += len(chunk)
        if filled != claimed:
            raise FileError(f"{source}: array {key!r} ends early; the file is truncated.")
    array = data.view(header.dtype) if claimed else np.empty(0, header.dtype)
    return key, array.reshape(header.shape, order="F" if header.fortran else "C")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
