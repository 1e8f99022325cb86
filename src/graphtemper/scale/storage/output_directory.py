"""Result directories: filled by one process under a hidden name, then renamed.

Beside a result ``NAME`` lies ``.NAME.graphtemper`` while it is made: a lock, the draft that is
renamed at the end, and what a run may go on from (`graphtemper.scale.storage.workspace`).
A process that is killed leaves it behind; the next one resumes from it or clears it.
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
from graphtemper.scale.storage.stage_directories import clear_room, forget_room

_LOCK, _DRAFT = "lock", "draft-"


def hidden_folder(path: Path) -> Path:
    """Return where the unfinished parts of a result are.

    Examples
    --------
    >>> hidden_folder(Path("results/answer")).as_posix()
    'results/.answer.graphtemper'
    """
    return path.with_name(f".{path.name}.graphtemper")


@contextmanager
def sole_folder(path: Path) -> Iterator[Path]:
    """Hold the hidden folder of a new result; a second process on the same result is refused.

    The folder is removed at the end if nothing but the lock is in it.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "answer"
    >>> with sole_folder(target) as folder, sole_folder(target):
    ...     pass
    Traceback (most recent call last):
    graphtemper.errors.FileError: another process is writing ...answer; wait for it, or stop it.
    >>> folder.exists()
    False
    """
    folder = hidden_folder(path)
    taken = FileError(f"{path} is already there; choose another place, or remove it.")
    if path.exists() and not folder.exists():
        raise taken
    with _held(folder, path):
        try:
            if path.exists():  # a process was killed after its last step
                _clear(folder)
                raise taken
            yield folder
        finally:
            with suppress(OSError):
                forget_room(folder)
                if [item.name for item in folder.iterdir()] == [_LOCK]:
                    # Whoever opens this lock meanwhile sees that it is no longer there (`_held`).
                    (folder / _LOCK).unlink()
                    folder.rmdir()


def _held(folder: Path, path: Path) -> IO[bytes]:
    """Return the locked file of a hidden folder, which closing it frees."""
    try:
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                stream = (folder / _LOCK).open("ab")
            except FileNotFoundError:  # its last holder has just removed the folder
                continue
            if not try_lock(stream):
                stream.close()
                raise FileError(f"another process is writing {path}; wait for it, or stop it.")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), (folder / _LOCK).stat()):
                    return stream
            stream.close()
    except FileError:
        raise
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}.") from error


def _clear(folder: Path) -> None:
    """Remove everything but the lock, and the stages that the folder says are elsewhere."""
    clear_room(folder)
    for item in folder.iterdir():
        if item.is_dir():
            shutil.rmtree(item, ignore_errors=True)
        elif item.name != _LOCK:
            item.unlink()


@contextmanager
def draft(folder: Path, path: Path) -> Iterator[Path]:
    """Give a directory in a held folder that is renamed to ``path`` on success, else removed."""
    try:
        for old in folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(old)
        made = folder / f"{_DRAFT}{secrets.token_urlsafe(6)}"
        made.mkdir()
        try:
            yield made
            for item in made.glob(".*"):  # half a file of a worker that died
                item.unlink()
            # A name must not reach the disk before what it stands for.
            for item in sorted(made.rglob("*"), reverse=True):
                flush(item)
            flush(made)
            os.rename(made, path)
            flush(path.parent)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except FileError:
        raise
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}.") from error


@contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a directory that gets its name on success.

    What is there already is never replaced, and after an error nothing is left. What a killed
    process left is removed by the next one.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "parts"
    >>> with atomic_directory(target) as folder:
    ...     _ = (folder / "one.txt").write_bytes(b"whole")
    >>> [item.name for item in target.iterdir()], len(list(target.parent.iterdir()))
    (['one.txt'], 1)
    """
    target = Path(path).absolute()
    with sole_folder(target) as folder:
        _clear(folder)
        with draft(folder, target) as made:
            yield made
