"""The answer about a sharded target: the findings of `recalibrate`, without per-node arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphtemper.recalibration.answer import Answer
from graphtemper.recalibration.findings import GraphFindings

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""


@dataclass(frozen=True, eq=False, repr=False)
class ShardedAnswer(GraphFindings):
    """Findings about a model on a target that is stored in shards.

    The fields are those of `graphtemper.Recalibration`, without per-node arrays.
    """

    num_nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with the keys of `Recalibration.to_dict`."""
        unlabelled = {"num_labels": 0, "effective_labels": 0.0}
        uncorrected = {"class_shares": None, "logit_shift": None}
        return super().to_dict() | {"num_nodes": self.num_nodes} | unlabelled | uncorrected


@dataclass(frozen=True, eq=False, repr=False)
class ShardedRecalibration(ShardedAnswer):
    """Findings about a sharded target whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds the answer as ``_answer.json``, a name that readers of Parquet skip.
    """

    out: Path

    def write(self, folder: Path) -> None:
        """Write the answer next to the probabilities, which are in ``folder`` so far."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        (folder / ANSWER).write_text(f"{text}\n", "utf-8")


def findings(answer: Answer, after: float) -> dict[str, Any]:
    """Return the fields of a `ShardedAnswer`; ``after`` is mean confidence after recalibration."""
    reading = answer.reading
    own = ("temperature", "accuracy", "verdict", "slope", "severity_bound")
    return {name: getattr(answer, name) for name in own} | {
        "reasons": list(answer.reasons),
        "signals": reading.numbers(),
        "gains": {} if reading.gains is None else reading.gains.to_dict(),
        "nearest": reading.nearest_families(),
        "mean_confidence": (answer.confidence, after),
        "num_nodes": reading.num_nodes,
    }
