"""The answer about a sharded target: the findings of `recalibrate`, without per-node arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from graphtemper.card.reading import Reading
from graphtemper.recalibration.answer import Match, from_atlas
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
        return super().to_dict() | {
            "num_nodes": self.num_nodes,
            "num_labels": 0,
            "effective_labels": 0.0,
            "class_shares": None,
            "logit_shift": None,
        }


@dataclass(frozen=True, eq=False, repr=False)
class ShardedRecalibration(ShardedAnswer):
    """Findings about a sharded target whose probabilities were written to ``out``.

    ``out`` is a directory of Parquet files with one row per node: ``node``, ``probability_0``, ...
    It also holds the answer as ``_answer.json``, a name that readers of Parquet skip. ``passes``
    are the forward passes that were taken, in passes over the whole graph; None for linear models.
    """

    out: Path
    passes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with the keys of `Recalibration.to_dict`."""
        return super().to_dict() | ({} if self.passes is None else {"passes": self.passes})


Sharded = TypeVar("Sharded", bound=ShardedAnswer)


def answer(reading: Reading, match: Match) -> ShardedAnswer:
    """Return the answer of the atlas, as `recalibrate` gives it without labels.

    Mean confidence after recalibration is known once the probabilities are; see
    `with_confidence`.
    """
    said = from_atlas(reading, match)
    return ShardedAnswer(
        temperature=said.temperature,
        accuracy=said.accuracy,
        verdict=said.verdict,
        reasons=list(said.reasons),
        slope=said.slope,
        severity_bound=said.severity_bound,
        signals=reading.numbers(),
        gains={} if reading.gains is None else reading.gains.to_dict(),
        nearest=reading.nearest_families(),
        mean_confidence=(said.confidence, said.confidence),
        num_nodes=reading.num_nodes,
    )


def with_directory(said: ShardedAnswer, out: Path) -> ShardedRecalibration:
    """Return the answer with the directory of its probabilities."""
    return ShardedRecalibration(
        temperature=said.temperature,
        accuracy=said.accuracy,
        verdict=said.verdict,
        reasons=said.reasons,
        slope=said.slope,
        severity_bound=said.severity_bound,
        signals=said.signals,
        gains=said.gains,
        nearest=said.nearest,
        mean_confidence=said.mean_confidence,
        num_nodes=said.num_nodes,
        out=out,
    )


def with_confidence(said: Sharded, after: float) -> Sharded:
    """Return the answer with the mean confidence after recalibration."""
    return replace(said, mean_confidence=(said.mean_confidence[0], after))
