"""Result directories: filled by one process under a temporary name, then renamed.

While a result ``NAME`` is written, its working directory ``.NAME.graphtemper`` lies next to it. It
holds a lock, the draft that is renamed at the end, and the stages of a run that can be resumed
(`graphtemper.scale.storage.workspace`). A killed process leaves it behind; the next process for the
same result resumes from it or clears it.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from graphtemper._core.file_lock import try_lock
from graphtemper._core.files import flush
from graphtemper.errors import FileError, WriteError
from graphtemper.scale.storage.stage_directories import drop_stale_record, remove_external_stages

_LOCK, _DRAFT = "lock", "draft-"


def working_directory(path: Path) -> Path:
    """Return the directory that holds a result while it is written.

    Examples
    --------
    >>> working_directory(Path("results/answer")).as_posix()
    'results/.answer.graphtemper'
    """
    return path.with_name(f".{path.name}.graphtemper")


@contextmanager
def locked_working_directory(path: Path) -> Iterator[Path]:
    """Create and lock the working directory of a new result.

    A second process for the same result is refused. At the end the directory is removed if it holds
    nothing but the lock.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer"
    >>> with locked_working_directory(target) as working, locked_working_directory(target):
    ...     pass
    Traceback (most recent call last):
    graphtemper.errors.FileError: another process is writing ...answer; wait for it, or stop it.
    >>> working.exists()
    False
    """
    working = working_directory(path)
    exists = FileError(f"{path} exists already; choose another path, or remove it.")
    if path.exists() and not working.exists():
        raise exists
    with _lock(working, path):
        try:
            if path.exists():  # a process was killed after its last step
                _clear(working)
                raise exists
            yield working
        finally:
            with suppress(OSError):
                drop_stale_record(working)
                if [item.name for item in working.iterdir()] == [_LOCK]:
                    # A process that has opened this lock notices that it is gone (`_lock`).
                    (working / _LOCK).unlink()
                    working.rmdir()


def _lock(working: Path, path: Path) -> IO[bytes]:
    """Return the locked file of a working directory; closing it releases the lock."""
    try:
        while True:
            working.mkdir(parents=True, exist_ok=True)
            try:
                stream = (working / _LOCK).open("ab")
            except FileNotFoundError:  # its last holder has just removed the directory
                continue
            if not try_lock(stream):
                stream.close()
                raise FileError(f"another process is writing {path}; wait for it, or stop it.")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), (working / _LOCK).stat()):
                    return stream
            stream.close()
    except FileError:
        raise
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}.") from error


def _clear(working: Path) -> None:
    """Remove everything but the lock, and the stages in another workspace."""
    remove_external_stages(working)
    for item in working.iterdir():
        if item.is_dir():
            shutil.rmtree(item, ignore_errors=True)
        elif item.name != _LOCK:
            item.unlink()


@contextmanager
def draft_directory(working: Path, path: Path) -> Iterator[Path]:
    """Create a draft that is renamed to ``path`` on success and removed on error."""
    try:
        for old in working.glob(f"{_DRAFT}*"):
            shutil.rmtree(old)
        draft = working / f"{_DRAFT}{secrets.token_urlsafe(6)}"
        draft.mkdir()
        try:
            yield draft
            for item in draft.glob(".*"):  # the partial file of a worker that died
                item.unlink()
            # A name must not reach the disk before its contents.
            for item in sorted(draft.rglob("*"), reverse=True):
                flush(item)
            flush(draft)
            os.rename(draft, path)
            flush(path.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except FileError:
        raise
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}.") from error


@contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a directory that gets its name on success.

    An existing file or directory is never replaced. After an error nothing is left, and what a
    killed process left is removed by the next one.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "parts"
    >>> with atomic_directory(target) as draft:
    ...     _ = (draft / "one.txt").write_bytes(b"complete")
    >>> [item.name for item in target.iterdir()], len(list(target.parent.iterdir()))
    (['one.txt'], 1)
    """
    target = Path(path).absolute()
    with locked_working_directory(target) as working:
        _clear(working)
        with draft_directory(working, target) as draft:
            yield draft
