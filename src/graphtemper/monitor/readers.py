"""Readers measure one snapshot at a time: a graph with its model, or logits alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from graphtemper.card.card import SourceCard
from graphtemper.models.predictor import Predictor
from graphtemper.monitor.entry import Entry
from graphtemper.monitor.isolation import ChildProcess
from graphtemper.monitor.logit_snapshots import HashedParts, LogitSnapshot
from graphtemper.monitor.snapshots import Snapshot, StoredSnapshot
from graphtemper.recalibration import Recalibration, recalibrate
from graphtemper.scale.logits.recalibration import estimate_logits

Result = TypeVar("Result")


class GraphReader:
    """Measures snapshots of graphs; their labels are not used."""

    def __init__(
        self, predictor: Predictor, card: SourceCard, seed: int, revision: int = 0
    ) -> None:
        self._predictor, self._card, self._seed = predictor, card, seed
        self._revision = revision

    def measure(self, snapshot: Snapshot) -> Entry:
        """Return the entry of a snapshot."""
        graph = snapshot.load()
        digest = snapshot.digest_of(graph) if snapshot.digest is None else snapshot.digest
        unlabelled = graph.replace(labels=None)
        result = recalibrate(
            self._predictor, unlabelled, self._card, snapshot.nodes, seed=self._seed
        )
        entry = _entry(snapshot, digest, result, len(result.probabilities))
        return replace(entry, revision=self._revision)

    def checksum(self, snapshot: Snapshot) -> str:
        """Return the checksum of a snapshot."""
        return snapshot.checksum()

    def close(self) -> None:
        """Do nothing."""


class LogitReader:
    """Measures snapshots of logits; with ``isolate``, those that may crash in a child process."""

    def __init__(self, card: SourceCard, isolate: bool) -> None:
        self._card = card
        self._child = ChildProcess() if isolate else None

    def measure(self, snapshot: LogitSnapshot) -> Entry:
        """Return the entry of a snapshot."""
        return self._call(snapshot, partial(_measure_logits, snapshot, self._card))

    def checksum(self, snapshot: LogitSnapshot) -> str:
        """Return the checksum of a snapshot."""
        return self._call(snapshot, snapshot.checksum)

    def _call(self, snapshot: LogitSnapshot, work: Callable[[], Result]) -> Result:
        if self._child is not None and snapshot.may_crash:
            return self._child.run(work)
        return work()

    def close(self) -> None:
        """Stop the child process."""
        if self._child is not None:
            self._child.close()


def _measure_logits(snapshot: LogitSnapshot, card: SourceCard) -> Entry:
    parts = HashedParts(snapshot.load())
    result = estimate_logits(parts, card)
    digest = parts.digest() if snapshot.digest is None else snapshot.digest
    return _entry(snapshot, digest, result, result.num_nodes)


def _entry(
    snapshot: StoredSnapshot[Any],
    digest: str,
    result: Recalibration,
    num_nodes: int,
) -> Entry:
    return Entry(
        name=snapshot.name,
        digest=digest,
        num_nodes=num_nodes,
        accuracy=float(result.accuracy.value),
        low=float(result.accuracy.low),
        high=float(result.accuracy.high),
        confidence=float(result.mean_confidence[0]),
        temperature=result.temperature,
        slope=float(result.slope),
        verdict=result.verdict,
        reasons=tuple(str(reason) for reason in result.reasons),
        signals=result.signals | {f"gain_{name}": value for name, value in result.gains.items()},
        when=snapshot.when,
    )
