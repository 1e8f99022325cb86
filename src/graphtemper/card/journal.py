"""The journal of a build: finished environments, from which an interrupted build resumes.

A line also holds the model's logits and signals at a few nodes of its environment, from which the
build learns node temperatures. So a journal is as confidential as the graph, and no part of a card.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from graphtemper._core.safe_reading import parse_json, read_bytes, seal, unseal
from graphtemper._core.source_digest import NOT_MEASURING, source_digest
from graphtemper.card.fields import LARGEST
from graphtemper.card.format import read_environment
from graphtemper.card.node_response import NodeRows
from graphtemper.card.source import Environment, Kept, Source
from graphtemper.errors import FileError, InputError
from graphtemper.graph.digest import content_digest
from graphtemper.signals.observation import Observation

# A line takes twenty thousand bytes with few classes, and an atlas has some hundred lines.
_MAX_BYTES = 256_000_000
# The start of a line, of this version or of earlier ones.
_START = re.compile(rb'([0-9a-f]{8} )?\{"key": ')


def build_key(source: Source, observation: Observation) -> str:
    """Return a digest of everything that the environments of a build depend on.

    These are the model, known by its logits on the source, the graph's content, nodes, labels, how
    to measure, the library's code, NumPy and SciPy. The shift is part of each line.

    Parameters
    ----------
    source
        The labelled source.
    observation
        The model on the unshifted source.
    """
    digest = hashlib.sha256()
    versions = [source_digest(NOT_MEASURING), np.__version__, scipy.__version__]
    settings = {key: value for key, value in source.probe.__dict__.items() if key != "column_std"}
    for part in (
        json.dumps([versions, settings, content_digest(source.graph)]).encode(),
        str(source.seed).encode(),
        source.nodes.tobytes(),
        source.labels.tobytes(),
        np.ascontiguousarray(source.probe.column_std).tobytes(),
        np.ascontiguousarray(observation.logits).tobytes(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


class Journal:
    """Finished environments as lines: a CRC-32, then JSON with the key of the build.

    Lines of another key and damaged lines are not used; their environments are measured again.
    """

    def __init__(self, path: str | os.PathLike[str] | None, key: str) -> None:
        self._path = None if path is None else Path(path)
        self._key = key

    def read(self) -> list[Kept]:
        """Return the finished environments of an earlier build with the same key."""
        if self._path is None or not os.path.lexists(self._path):
            return []
        content = read_bytes(self._path, _MAX_BYTES)
        if len(content) > 20 and not _START.match(content):
            raise FileError(f"{self._path} is not the journal of a build; choose another file.")
        environments = []
        for line in content.splitlines():
            text = unseal(line)
            if text is None:
                continue  # a line that was being written when the build stopped, or is damaged
            try:
                row = parse_json(text)
                if isinstance(row, dict) and row.get("key") == self._key:
                    environments.append((read_environment(row), _unpacked(row.get("nodes"))))
            except InputError as error:
                raise FileError(f"{self._path}: {error}") from error
        return environments

    def add(self, item: Environment, rows: NodeRows) -> None:
        """Append one finished environment with its node rows."""
        if self._path is None:
            return
        packed = np.ascontiguousarray(rows.packed, dtype="<f4")
        values = base64.b64encode(packed.tobytes()).decode("ascii")
        row: dict[str, Any] = {**item.__dict__, "families": sorted(item.families)}
        row["nodes"] = {"count": len(packed), "values": values}
        line = seal(json.dumps({"key": self._key, **row}).encode()) + b"\n"
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


def _unpacked(nodes: Any) -> NDArray[np.float32]:
    """Read packed node rows of a line, (n, s + K)."""
    try:
        count, text = nodes["count"], nodes["values"]
        flat = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
        values = flat.reshape(count, -1)
    except (TypeError, KeyError, ValueError, OverflowError, binascii.Error) as error:
        raise InputError("field 'environment.nodes' is not as a build writes it.") from error
    if values.ndim != 2 or not (np.abs(values) <= LARGEST).all():
        raise InputError("field 'environment.nodes' holds numbers that no build writes.")
    return values.astype(np.float32)
