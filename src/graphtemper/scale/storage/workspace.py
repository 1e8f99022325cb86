"""The workspace of a run: column files and finished stages, removed when the run ends.

A stage is finished once a small file with its result exists: JSON after its CRC-32, written under
a temporary name and renamed after the stage's columns are on disk. It holds the checksums of those
columns, which are read once more when the stage ends and when a run resumes. A run that was killed
or interrupted, or that filled the disk, resumes from the finished stages when the same workspace is
opened again. Everything else in the workspace is computed again.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from graphtemper._core.files import atomic_write_in_place
from graphtemper._core.safe_reading import parse_json, read_bytes, seal, unseal
from graphtemper.errors import ClusterError, FileError, WriteError
from graphtemper.scale.storage.array_files import Columns, checksum

_SCRATCH = "scratch-"
# Results are sums and histograms.
_MAX_MARKER = 1_000_000_000


@dataclass(frozen=True)
class Workspace:
    """Creates the column files of one run over N nodes and keeps its finished stages."""

    folder: Path
    scratch: Path
    num_nodes: int
    _numbers: Iterator[int] = field(default_factory=count)

    def scratch_columns(self, label: str, width: int, dtype: DTypeLike) -> Columns:
        """Create an (N, width) array on disk; ``label`` becomes part of its file name.

        The file lies in a directory of this process, so that a worker which still runs a task of a
        killed process cannot write into it.
        """
        name = f"{next(self._numbers):04d}-{label}.npy"
        return Columns.create(self.scratch / name, (self.num_nodes, width), dtype)

    def stage_columns(self, name: str, width: int, dtype: DTypeLike) -> Columns:
        """Describe the (N, width) array of a stage; its file exists once the stage is finished."""
        return Columns.describe(self.folder / f"{name}.npy", (self.num_nodes, width), dtype)

    def stage(self, name: str, work: Callable[[], Any], *columns: Columns) -> Any:
        """Return the result of a stage as JSON values, and leave its columns filled.

        ``work`` is called unless an earlier run in this workspace finished the stage. JSON keeps
        all digits of a float, so the bytes of later stages are the same either way. Stages within
        a stage NAME are called NAME-... and removed when it is finished.

        Examples
        --------
        >>> import tempfile
        >>> with open_workspace(Path(tempfile.mkdtemp()) / "stages", 3) as workspace:
        ...     for number in (1.5, 2.5):
        ...         workspace.stage("square", lambda: [number**2])
        [2.25]
        [2.25]
        """
        marker = self.folder / f"{name}.stage"
        result, checksums = _read_marker(marker)
        if checksums == [checksum(item.path) if item.is_complete() else -1 for item in columns]:
            self._remove_inner_stages(name)
            return result
        try:
            marker.unlink(missing_ok=True)
        except OSError as error:
            raise WriteError(f"cannot write {marker}: {error.strerror or error}.") from error
        for item in columns:
            item.reserve()
        result = work()
        for item in columns:
            item.flush()
        text = json.dumps([result, [checksum(item.path) for item in columns]])
        with atomic_write_in_place(marker) as stream:
            stream.write(seal(text.encode("utf-8")))
        self._remove_inner_stages(name)
        return parse_json(text)[0]

    def _remove_inner_stages(self, name: str) -> None:
        for inner in self.folder.glob(f"{name}-*"):
            inner.unlink(missing_ok=True)

    def remove_stage(self, name: str, *columns: Columns) -> None:
        """Remove a stage that no later stage needs, with its columns."""
        (self.folder / f"{name}.stage").unlink(missing_ok=True)
        for item in columns:
            item.remove()


def _read_marker(marker: Path) -> tuple[Any, list[int] | None]:
    """Return the result of a stage and the checksums of its columns; None if it is not finished."""
    try:
        text = unseal(read_bytes(marker, _MAX_MARKER))
        result, checksums = parse_json(text or b"")
    except (FileError, ValueError, TypeError):  # an `InputError` is a ValueError
        return None, None
    return result, checksums


@contextmanager
def open_workspace(folder: Path, num_nodes: int) -> Iterator[Workspace]:
    """Open a workspace, or the one of an interrupted run, and remove it at the end.

    Finished stages are kept after an error that the input did not cause, so that the same run can
    resume: Ctrl-C, a lost cluster, a full disk, or too little memory. Every worker needs read and
    write access to the folder, which belongs to the workspace alone. If workers run as other
    members of a group, the umask must allow the group to write.

    Examples
    --------
    >>> import tempfile
    >>> with open_workspace(Path(tempfile.mkdtemp()) / "stages", 3) as workspace:
    ...     workspace.scratch_columns("logits", 2, "float32").open().shape
    (3, 2)
    >>> workspace.folder.exists()
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
    keep_stages = False
    try:
        yield Workspace(folder, scratch, num_nodes)
    except (KeyboardInterrupt, ClusterError, MemoryError, OSError) as error:
        resumable = isinstance(error, WriteError) or not isinstance(error, FileError)
        keep_stages = resumable and any(folder.glob("*.stage"))
        kind = MemoryError if isinstance(error, MemoryError) else WriteError
        if keep_stages and isinstance(error, kind):
            message = str(error).rstrip(".") or "there is not enough memory"
            raise kind(
                f"{message}; finished stages are kept in {folder}, and the same run resumes from "
                "them."
            ) from error
        raise
    finally:
        shutil.rmtree(scratch if keep_stages else folder, ignore_errors=True)
