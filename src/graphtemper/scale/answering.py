"""The answer about a target on shards: the fields of `Recalibration`, without an array a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from graphtemper import theory
from graphtemper._core.estimate import Estimate
from graphtemper.recalibration.answer import at_bound
from graphtemper.recalibration.answer_facts import as_facts
from graphtemper.recalibration.background import nearest_families
from graphtemper.recalibration.reading import ReadEvidence
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import Verdict, direction, judge

ANSWER = "_answer.json"
"""The file of a result's directory that holds the answer; the others are Parquet."""


@dataclass(frozen=True, eq=False)
class ShardedAnswer:
    """What graphtemper says about a model on a target that lives in shards.

    The fields are those of `graphtemper.recalibration.job.Recalibration`.
    """

    temperature: float
    accuracy: Estimate
    verdict: Verdict
    reasons: list[Reason]
    slope: float
    severity_bound: float
    signals: dict[str, float]
    gains: dict[str, float]
    nearest: list[tuple[str, float]]
    mean_confidence: tuple[float, float]
    num_nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with the keys of `Recalibration.to_dict`."""
        return as_facts(self) | {
            "temperature": self.temperature,
            "num_nodes": self.num_nodes,
            "num_labels": 0,
            "class_shares": None,
            "logit_shift": None,
        }


@dataclass(frozen=True, eq=False)
class ShardedRecalibration(ShardedAnswer):
    """The same, with probabilities.

    They are in ``out``, a directory of Parquet files with one row a node: ``node``,
    ``probability_0``, ... The answer itself is there as ``_answer.json``, a name that readers of
    Parquet skip.
    """

    out: Path


Told = TypeVar("Told", bound=ShardedAnswer)


def answer(
    target: ReadEvidence, match: Callable[[float], tuple[float, str]], out: Path
) -> ShardedRecalibration:
    """Return what `told` says, as the answer of a result's directory."""
    return filed(told(target, match), out)


def filed(found: ShardedAnswer, out: Path) -> ShardedRecalibration:
    """Return the answer with the directory that holds its probabilities."""
    return ShardedRecalibration(
        **{field.name: getattr(found, field.name) for field in fields(found)}, out=out
    )


def told(target: ReadEvidence, match: Callable[[float], tuple[float, str]]) -> ShardedAnswer:
    """Give the atlas's answer as `graphtemper.recalibration.answer.from_atlas` does.

    ``match`` returns the temperature for an accuracy and what is wrong with it. Mean confidence
    after recalibration is known once the probabilities are (`with_confidence`).
    """
    card, claimed = target.card, target.shown.confidence
    accuracy = target.prior(target.drift).estimate("atlas")
    matched, problem = match(accuracy.value)
    verdict, reasons = judge(
        target.response, target.signals, accuracy, at_bound(problem), target.flat, target.blind
    )
    relative = 1.0 if verdict == "abstain" else matched
    return ShardedAnswer(
        temperature=relative * card.probe.temperature,
        accuracy=accuracy,
        verdict=verdict,
        reasons=[direction(claimed, accuracy), *reasons],
        slope=1.0 / relative,
        severity_bound=float(theory.ece_bound(1.0 / matched, target.shown.mean_abs_logit)),
        signals=target.numbers(),
        gains={} if target.gains is None else target.gains.to_dict(),
        nearest=nearest_families(target.response, target.signals, card.environments),
        mean_confidence=(claimed, claimed),
        num_nodes=target.num_nodes,
    )


def with_confidence(found: Told, after: float) -> Told:
    """Return the answer with mean confidence as it is after recalibration."""
    return replace(found, mean_confidence=(found.mean_confidence[0], after))
