"""The answer about a sharded target: the result of `recalibrate`, without per-node arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from graphtemper.recalibration.result import Recalibration

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""


@dataclass(frozen=True, eq=False, repr=False)
class ShardedRecalibration(Recalibration):
    """The result about a sharded target whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds the answer as ``_answer.json``, a name that readers of Parquet skip. ``passes``
    are the forward passes that were taken, in passes over the whole graph; None for linear models.
    """

    out: Path = Path()


Sharded = TypeVar("Sharded", bound=Recalibration)


def with_directory(said: Recalibration, out: Path) -> ShardedRecalibration:
    """Return the answer with the directory of its probabilities."""
    known = {field.name: getattr(said, field.name) for field in fields(said)}
    return ShardedRecalibration(**known, out=out)


def with_confidence(said: Sharded, after: float) -> Sharded:
    """Return the answer with the mean confidence after recalibration."""
    return replace(said, mean_confidence=(said.mean_confidence[0], after))
