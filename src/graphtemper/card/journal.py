"""The journal of a build: finished environments, from which an interrupted build resumes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from graphtemper.card.atlas import Environment
from graphtemper.card.format import SCHEMA, read_environment
from graphtemper.errors import FileError
from graphtemper.signals.evidence import Probe


class Journal:
    """Finished environments as lines of JSON, with a key for how they were measured."""

    def __init__(self, path: str | os.PathLike[str] | None, probe: Probe) -> None:
        self._path = None if path is None else Path(path)
        self._key = f"{SCHEMA}:{probe.seed}:{probe.temperature!r}:{probe.noise_level!r}"

    def read(self) -> list[Environment]:
        """Return the finished environments of an earlier build with the same key."""
        if self._path is None or not self._path.is_file():
            return []
        environments = []
        for line in self._path.read_text("utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                if isinstance(row, dict) and row.get("key") == self._key:
                    environments.append(read_environment(row))
            except (ValueError, RecursionError):
                continue  # a line that was being written when the build stopped
        return environments

    def add(self, item: Environment) -> None:
        """Append one finished environment."""
        if self._path is None:
            return
        row: dict[str, Any] = {**item.__dict__, "families": sorted(item.families)}
        line = json.dumps({"key": self._key, **row}).encode() + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as stream:
                stream.write(line if self._ends_with_newline(stream) else b"\n" + line)
        except OSError as error:
            raise FileError(f"cannot write {self._path}: {error.strerror or error}.") from error

    @staticmethod
    def _ends_with_newline(stream: IO[bytes]) -> bool:
        """Return whether the last line is complete; a killed build may have left half of one."""
        if not stream.seek(0, os.SEEK_END):
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
