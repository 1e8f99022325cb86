"""The result about a model on a target that is stored in files."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from graphtemper.recalibration.result import Recalibration

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""


@dataclass(frozen=True, eq=False, repr=False)
class StoredRecalibration(Recalibration):
    """A result, without arrays of nodes, whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds ``_answer.json``, a name that readers of Parquet skip: the answer, and in
    ``parts`` the files.
    """

    out: Path = Path()

    @classmethod
    def write(cls, answer: Recalibration, folder: Path, out: Path) -> StoredRecalibration:
        """Write an answer next to the probabilities, which are in ``folder`` so far."""
        names = sorted(item.name for item in folder.iterdir() if item.name[0] != ".")
        text = json.dumps(answer.to_dict() | {"parts": names}, indent=1, allow_nan=False)
        (folder / ANSWER).write_text(f"{text}\n", "utf-8")
        return cls(**{item.name: getattr(answer, item.name) for item in fields(answer)}, out=out)
