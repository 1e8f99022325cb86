"""The workspace of a run: a directory of column files that is removed when the run ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from numpy.typing import DTypeLike

from graphtemper.errors import FileError
from graphtemper.scale.array_files import Columns


@dataclass(frozen=True)
class Workspace:
    """Makes the column files of one run over N nodes."""

    folder: Path
    num_nodes: int
    _numbers: Iterator[int] = field(default_factory=count)

    def columns(self, what: str, width: int, dtype: DTypeLike) -> Columns:
        """Return a new (N, width) array on disk; ``what`` is for people who look into it."""
        name = f"{next(self._numbers):04d}-{what}.npy"
        return Columns.create(self.folder / name, (self.num_nodes, width), dtype)


@contextmanager
def workspace(parent: str | os.PathLike[str], num_nodes: int) -> Iterator[Workspace]:
    """Make a workspace in a directory that every worker sees, and remove it afterwards.

    Examples
    --------
    >>> with workspace(tempfile.mkdtemp(), 3) as room:
    ...     room.columns("logits", 2, "float32").open().shape
    (3, 2)
    """
    try:
        place = Path(parent).absolute()  # workers may be in other places
        place.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".graphtemper-", dir=place))
    except OSError as error:
        raise FileError(f"cannot work in {parent}: {error.strerror or error}.") from error
    # Workers on other machines may run as other members of the group.
    folder.chmod(0o770)
    try:
        yield Workspace(folder, num_nodes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
