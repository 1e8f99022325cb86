"""A watch: snapshot after snapshot is recalibrated and written down, each once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from graphtemper.card import SourceCard
from graphtemper.card_format import to_json
from graphtemper.errors import GraphTemperError, InputError
from graphtemper.graph import Graph
from graphtemper.monitor.change import Change, changes
from graphtemper.monitor.log import Entry, Log
from graphtemper.monitor.snapshots import Snapshot
from graphtemper.predict import Predictor
from graphtemper.recalibration import recalibrate

# Odds of accuracies are finite inside this range.
_RANGE = (0.005, 0.995)


def follow(
    predictor: Predictor,
    card: SourceCard,
    snapshots: Iterable[Snapshot],
    log: Log,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Entry]:
    """Recalibrate every snapshot that is not in the log yet, and yield what was added.

    A graph is held in memory only while it is measured. Snapshots come in order: a new one before
    one that is in the log is refused, and so is one of a known name whose content has changed,
    because the log is a record. Interrupted, the watch goes on where it stopped.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.monitor import Log, Snapshot
    >>> days = [csbm.sample(300, 6, 0.8, 1.0, seed=day) for day in range(3)]
    >>> model = SIGN().fit(days[0], range(150))
    >>> card = SourceCard.build(model, days[0], range(150, 300), compositions=0)
    >>> shots = [Snapshot(f"day {d}", f"{d}", lambda d=d: days[d]) for d in (1, 2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", fingerprint(card))
    ...     [entry.name for entry in follow(model, card, shots, log)], list(
    ...         follow(model, card, shots, log)
    ...     )
    (['day 1', 'day 2'], [])
    """
    for snapshot in _new(list(snapshots), log):
        if progress is not None:
            progress(snapshot.name)
        entry = measure(predictor, card, snapshot, seed)
        if log.append(entry):  # another process may have been faster
            yield entry


def _new(snapshots: Sequence[Snapshot], log: Log) -> list[Snapshot]:
    """Return the snapshots that are not in the log, all of which come after those that are."""
    new: list[Snapshot] = []
    for snapshot in snapshots:
        known = log.digest(snapshot.name)
        if known is None:
            new.append(snapshot)
        elif known != snapshot.digest:
            raise InputError(
                f"the snapshot {snapshot.name} is in the log with another content; give the new "
                "one a new name."
            )
        elif new:
            raise InputError(
                f"the snapshot {new[0].name} comes before {snapshot.name}, which is in the log "
                "already; give it a later name, or begin a new log."
            )
    return new


def measure(predictor: Predictor, card: SourceCard, snapshot: Snapshot, seed: int = 0) -> Entry:
    """Return what one snapshot shows; its labels, if any, are not looked at."""
    try:
        graph: Graph = snapshot.load().replace(labels=None)
        result = recalibrate(predictor, graph, card, snapshot.nodes, seed=seed)
    except GraphTemperError as error:
        raise type(error)(f"snapshot {snapshot.name}: {error}") from error
    return Entry(
        name=snapshot.name,
        digest=snapshot.digest,
        num_nodes=len(result.probabilities),
        accuracy=float(result.accuracy.value),
        low=float(result.accuracy.low),
        high=float(result.accuracy.high),
        confidence=float(result.mean_confidence[0]),
        temperature=float(np.mean(result.temperature)),
        slope=float(result.slope),
        verdict=result.verdict,
        reasons=tuple(result.reasons),
        signals={name: float(value) for name, value in result.signals.items()},
    )


def fingerprint(card: SourceCard) -> str:
    """Return the checksum by which a log knows its card."""
    return hashlib.sha256(to_json(card).encode()).hexdigest()


def alarms(entries: Sequence[Entry], false_alarms: float = 0.01, seed: int = 0) -> list[Change]:
    """Return where the estimated accuracy or a signal has changed; see `changes`.

    Only signals that every snapshot has are watched.
    """
    if not entries:
        return []
    shared = set.intersection(*(set(entry.signals) for entry in entries))
    series = {"accuracy": [_log_odds(entry.accuracy) for entry in entries]}
    series |= {
        name: [entry.signals[name] for entry in entries] for name in sorted(shared - {"accuracy"})
    }
    return changes(series, false_alarms, seed)


def _log_odds(accuracy: float) -> float:
    inside = min(max(accuracy, _RANGE[0]), _RANGE[1])
    return math.log(inside / (1.0 - inside))
