"""Files are checked before they are used and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
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


@contextlib.contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a temporary directory beside ``path`` and rename it into place on success.

    What is there already is never replaced, and after an error nothing is left.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "parts"
    >>> with atomic_directory(target) as folder:
    ...     _ = (folder / "one.txt").write_bytes(b"whole")
    >>> [item.name for item in target.iterdir()]
    ['one.txt']
    """
    target = Path(path)
    if target.exists():
        raise FileError(f"{target} is already there; choose another place, or remove it.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            yield temporary
            os.chmod(temporary, 0o777 & ~_umask())
            os.rename(temporary, target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot write {target}: {error.strerror or error}.") from error


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
    """Read one array; a header that claims more than the file holds allocates nothing."""
    source = Path(path)
    if not source.is_file():
        raise FileError(f"{source} does not exist or is not a file.")
    try:
        return np.array(np.load(source, mmap_mode="r", allow_pickle=False))
    except _DAMAGE as error:
        raise FileError(f"{source} is damaged or not an .npy of numbers.") from error


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
        data = np.empty(claimed, dtype=np.uint8)
        filled = 0
        while chunk := stream.read(min(_CHUNK, claimed - filled)):
            data[filled : filled + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
            filled += len(chunk)
        if filled != claimed:
            raise FileError(f"{source}: array {key!r} ends early; the file is truncated.")
    array = data.view(dtype) if claimed else np.empty(0, dtype)
    return key, array.reshape(shape, order="F" if fortran else "C")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
