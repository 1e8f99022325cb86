"""The workspace of a run: column files and finished stages, removed when the run ends.

A stage is finished once a small file with its result is there, JSON after its CRC-32, written under
a temporary name and renamed after its columns are on the disk. A run that was killed or
interrupted, or had a full disk, goes on from the finished stages when the same workspace is opened
again; everything else in it is made anew.
"""

from __future__ import annotations

import json
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from graphtemper._core.files import atomic_write_in_place
from graphtemper.errors import ClusterError, FileError, WriteError
from graphtemper.scale.storage.array_files import Columns

_SCRATCH = "scratch-"


@dataclass(frozen=True)
class Workspace:
    """Makes the column files of one run over N nodes, and remembers its finished stages."""

    folder: Path
    scratch: Path
    num_nodes: int
    _numbers: Iterator[int] = field(default_factory=count)

    def columns(self, what: str, width: int, dtype: DTypeLike) -> Columns:
        """Return a new (N, width) array on disk; ``what`` is for people who look into it.

        It is in a folder of this process: a worker that still runs a task of one that was killed
        cannot write into it.
        """
        name = f"{next(self._numbers):04d}-{what}.npy"
        return Columns.create(self.scratch / name, (self.num_nodes, width), dtype)

    def lasting(self, name: str, width: int, dtype: DTypeLike) -> Columns:
        """Describe the (N, width) array of a stage; it is there once the stage is finished."""
        return Columns.at(self.folder / f"{name}.npy", (self.num_nodes, width), dtype)

    def stage(self, name: str, work: Callable[[], Any], *columns: Columns) -> Any:
        """Return what a stage found, as JSON has it, and leave its lasting columns filled.

        Stages within a stage NAME are called NAME-... and forgotten when it is finished.
        ``work`` is called unless an earlier run on this workspace finished the stage. Floats keep
        all of their digits in JSON, so what follows has the same bytes either way.

        Examples
        --------
        >>> import tempfile
        >>> with workspace(Path(tempfile.mkdtemp()) / "room", 3) as room:
        ...     for number in (1.5, 2.5):
        ...         room.stage("square", lambda: [number**2])
        [2.25]
        [2.25]
        """
        marker = self.folder / f"{name}.stage"
        finished, found = _read(marker)
        if finished and all(item.whole() for item in columns):
            return self._without_inner(name, found)
        marker.unlink(missing_ok=True)
        for item in columns:
            item.reserve()
        text = json.dumps(work()).encode("utf-8")
        for item in columns:
            item.flush()
        with atomic_write_in_place(marker) as stream:
            stream.write(b"%08x %s" % (zlib.crc32(text), text))
        return self._without_inner(name, json.loads(text))

    def _without_inner(self, name: str, found: Any) -> Any:
        for inner in self.folder.glob(f"{name}-*"):
            inner.unlink(missing_ok=True)
        return found

    def forget(self, name: str, *columns: Columns) -> None:
        """Remove a stage that later ones have made superfluous, with its columns."""
        (self.folder / f"{name}.stage").unlink(missing_ok=True)
        for item in columns:
            item.remove()


def _read(marker: Path) -> tuple[bool, Any]:
    """Return whether a stage's result is there and undamaged, and the result."""
    try:
        check, _, text = marker.read_bytes().partition(b" ")
    except OSError:
        return False, None
    whole = bool(text) and check == b"%08x" % zlib.crc32(text)
    return whole, json.loads(text) if whole else None


@contextmanager
def workspace(folder: Path, num_nodes: int) -> Iterator[Workspace]:
    """Open a workspace, or the one that an interrupted run left, and remove it at the end.

    What was not the input's fault leaves the finished stages, if there are any, for the same run to
    go on from: Ctrl-C, a cluster that was lost, a disk or memory that is full. Every worker must
    see the folder, which belongs to the workspace alone, and be allowed to write into it: where
    workers run as other members of a group, the umask has to let the group write.

    Examples
    --------
    >>> import tempfile
    >>> with workspace(Path(tempfile.mkdtemp()) / "room", 3) as room:
    ...     room.columns("logits", 2, "float32").open().shape
    (3, 2)
    >>> room.folder.exists()
    False
    """
    scratch = folder / f"{_SCRATCH}{secrets.token_urlsafe(6)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(old, ignore_errors=True)
        scratch.mkdir()
    except OSError as error:
        raise WriteError(f"cannot work in {folder}: {error.strerror or error}.") from error
    kept = False
    try:
        yield Workspace(folder, scratch, num_nodes)
    except (KeyboardInterrupt, ClusterError, MemoryError, OSError) as error:
        blameless = isinstance(error, WriteError) or not isinstance(error, FileError)
        kept = blameless and any(folder.glob("*.stage"))
        full = MemoryError if isinstance(error, MemoryError) else WriteError
        if kept and isinstance(error, full):
            told = str(error).rstrip(".") or "there is not enough memory"
            raise full(
                f"{told}; finished stages are kept in {folder}, and the same run goes on from them."
            ) from error
        raise
    finally:
        shutil.rmtree(scratch if kept else folder, ignore_errors=True)
