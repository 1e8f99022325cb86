"""Files are checked before they are used and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper.errors import FileError

# A .npy header is a short Python literal; anything longer is an attack or damage.
_MAX_HEADER = 10_000
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
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        _discard(temporary)
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {target}: {error.strerror or error}.") from error
    except BaseException:
        _discard(temporary)
        raise


def _umask() -> int:
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
    so a header that claims 1e12 elements is refused before anything is allocated. Object arrays
    are never unpickled.
    """
    source = Path(path)
    if not source.is_file():
        raise FileError(f"{source} does not exist or is not a file.")
    try:
        with zipfile.ZipFile(source) as archive:
            return dict(_read_member(archive, member, source) for member in archive.infolist())
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{source} is damaged or not an .npz: {_one_line(error)}.") from error


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: Path
) -> tuple[str, NDArray[Any]]:
    key = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read_header is None:
            raise FileError(f"{source}: array {key!r} has an unsupported .npy version {version}.")
        shape, fortran, dtype = read_header(stream, max_header_size=_MAX_HEADER)
        if dtype.hasobject:
            raise FileError(f"{source}: array {key!r} holds Python objects, which are never read.")
        count = 1
        for size in shape:
            count *= int(size)
        claimed = count * dtype.itemsize
        if min(shape, default=0) < 0 or stream.tell() + claimed != member.file_size:
            raise FileError(
                f"{source}: array {key!r} claims {claimed} bytes but the archive holds "
                f"{max(member.file_size - stream.tell(), 0)}; the file is damaged."
            )
        data = stream.read(claimed)
        if len(data) != claimed:
            raise FileError(f"{source}: array {key!r} ends early; the file is truncated.")
    array = np.frombuffer(bytearray(data), dtype=dtype)
    return key, array.reshape(shape, order="F" if fortran else "C")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
