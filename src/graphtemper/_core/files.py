"""Atomic writes, and checked reads of ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.safe_reading import open_regular
from graphtemper.errors import FileError

# Real arrays beyond this size are not compressed by more than this factor; zip bombs are.
_BOMB_BYTES, _BOMB_RATIO = 256_000_000, 200
# NumPy writes no other compression, and others unpack without a limit.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file next to ``path`` and rename it into place on success.

    A reader sees the old file or the new one, never a part of it. The folder has to exist, and the
    permissions of an existing file are kept. With ``replace=False`` a file that exists at the end,
    also one that appeared in the meantime, is kept, and a `FileError` is raised.

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
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        # Opened like any other new file, not by `tempfile`, so that it has the usual permissions.
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            with contextlib.suppress(OSError):
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        else:
            os.link(temporary, target)  # fails if the target exists
    except FileError:
        raise
    except OSError as error:
        raise errors.write(f"cannot write {target}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_folder(target: Path) -> None:
    """Refuse a path in a folder that does not exist: its name may be mistyped."""
    if not target.parent.is_dir():
        raise errors.write(
            f"cannot write {target}: there is no folder {target.parent}; create it, or choose "
            "another."
        )


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed ``.npz``, atomically and with no object arrays."""
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise errors.damaged(f"array {key!r} holds Python objects, which are never written.")
    with atomic_write(path) as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read every array of a ``.npz``, which nothing is unpickled from.

    An archive that would unpack to hundreds of times its size is refused before it is unpacked, and
    so are names that occur twice.
    """
    with open_regular(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
            size = os.fstat(stream.fileno()).st_size
            total = sum(member.file_size for member in members)
            if total > max(_BOMB_BYTES, _BOMB_RATIO * size):
                raise errors.oversize(
                    f"{path} would unpack from {size} to {total} bytes, more than any real graph; "
                    "it is not read."
                )
            if any(member.compress_type not in _METHODS for member in members):
                raise ValueError("compressed in a way that NumPy does not write")
            if len({member.filename for member in members}) < len(members):
                raise ValueError("a name occurs twice")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                return {key: np.asarray(_array(arrays[key], key)) for key in arrays.files}
        except FileError:
            raise
        except Exception as error:  # what NumPy, zipfile, zlib and Python's parser raise
            raise errors.damaged(
                f"{path} is damaged or not an .npz: {_one_line(error)}."
            ) from error


def _array(value: Any, key: str) -> NDArray[Any]:
    if not isinstance(value, np.ndarray):  # NumPy returns other members as bytes
        raise ValueError(f"{key} is no array")
    return value


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
    graphtemper.errors.FileError: x: ...x.npy is damaged or not an .npy of numbers: ...
    """
    with open_regular(path, what) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            array = np.load(os.fspath(path), mmap_mode="r", allow_pickle=False)
            if not isinstance(array, np.memmap) or not array.dtype.itemsize:
                raise ValueError("another kind of file")
            if array.offset + array.nbytes != size:
                raise ValueError(f"{size} bytes, of which its header does not know all")
        except Exception as error:  # what NumPy and Python's parser raise
            text = f"{what}: {path} is damaged or not an .npy of numbers: {_one_line(error)}."
            raise errors.damaged(text) from error
    return array


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rstrip(".")
