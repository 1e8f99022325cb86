"""A watch: snapshot after snapshot is measured and written down, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from graphtemper._core.checks import check_whole
from graphtemper._core.log_odds import log_odds
from graphtemper.card.card import SourceCard
from graphtemper.card.format import to_json
from graphtemper.errors import FileError, GraphTemperError, InputError, MissingExtraError
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor
from graphtemper.monitor.change import Change, changes
from graphtemper.monitor.entry import Entry, Missed
from graphtemper.monitor.log import Kind, Known, Log
from graphtemper.monitor.logit_snapshots import LogitSnapshot
from graphtemper.monitor.snapshots import Snapshot, Stored
from graphtemper.recalibration.job import Recalibration, recalibrate
from graphtemper.scale.answering import ShardedAnswer
from graphtemper.scale.logits.recalibration import estimate_logits

Progress = Callable[[int, int], None]
"""Called with the snapshots done and those to do."""
OnMissed = Callable[[Missed], None]


def follow(
    predictor: Predictor,
    card: SourceCard,
    snapshots: Iterable[Snapshot],
    log: Log,
    progress: Progress | None = None,
    missed: OnMissed | None = None,
) -> Iterator[Entry]:
    """Recalibrate every graph that is not in the log yet, and yield what was added.

    A graph is held in memory only while it is measured. Snapshots come in order: a new one before
    one that is in the log is refused, and so is one of a known name whose content has changed,
    because the log is a record. Interrupted, the watch goes on where it stopped.

    Parameters
    ----------
    predictor, card
        The model and its card; another model is refused at once.
    snapshots
        Oldest first.
    log
        Made for this card; its seed is that of the perturbed passes.
    progress
        Called after each snapshot.
    missed
        Called with a snapshot that cannot be measured, and the watch goes on; without it the
        error is raised. Such a snapshot is tried again by the next watch, until a later one is in
        the log: then it is passed over for good, and the log says so.

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
    _check_kind(log, "graphs")
    check_model(predictor, card)
    take = partial(_measure_graph, predictor, card, log.seed)
    return _follow(take, list(snapshots), log, progress, missed)


def follow_logits(
    card: SourceCard,
    snapshots: Iterable[LogitSnapshot],
    log: Log,
    progress: Progress | None = None,
    missed: OnMissed | None = None,
) -> Iterator[Entry]:
    """Do the same for logits that a model left elsewhere; neither it nor the graph is needed.

    The answer is that of `graphtemper.scale.recalibrate_logits`, whose first pass is made and no
    other; the log must be one of logits.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.monitor import Log, LogitArray, LogitSnapshot
    >>> days = [csbm.sample(300, 6, 0.8, 1.0, seed=day) for day in range(3)]
    >>> model = SIGN().fit(days[0], range(150))
    >>> card = SourceCard.build(model, days[0], range(150, 300), compositions=0)
    >>> shots = [
    ...     LogitSnapshot(f"day {d}", f"{d}", lambda d=d: LogitArray(model(days[d]), 2))
    ...     for d in (1, 2)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", fingerprint(card), kind="logits")
    ...     [entry.name for entry in follow_logits(card, shots, log)]
    ['day 1', 'day 2']
    """
    _check_kind(log, "logits")
    return _follow(partial(_measure_logits, card), list(snapshots), log, progress, missed)


def check_model(predictor: Predictor, card: SourceCard) -> None:
    """Refuse a model that the card was not made for, before any snapshot is looked at.

    Every snapshot would say the same, as if each were damaged, and where none is new nobody would.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> graph = csbm.sample(300, 6, 0.8, 1.0, seed=0)
    >>> model, other = SIGN().fit(graph, range(150)), SIGN(hops=1).fit(graph, range(150))
    >>> card = SourceCard.build(model, graph, range(150, 300), compositions=0)
    >>> check_model(model, card)
    >>> check_model(other, card)
    Traceback (most recent call last):
    graphtemper.errors.InputError: the model answers a test graph differently from the model the \
card was made for; build a card for this one.
    """
    # The card asks the model about a graph of its own; of ours it only counts the columns.
    columns = np.zeros((1, card.num_features), dtype=np.float32)
    card.check(predictor, Graph(features=columns, edges=np.empty((0, 2), dtype=np.int32)))


def _check_kind(log: Log, kind: Kind) -> None:
    if log.kind != kind:
        raise InputError(
            f"the log {log.path} is opened for {log.kind}; open it with kind={kind!r}."
        )


Shot = TypeVar("Shot", Snapshot, LogitSnapshot)


class _Place(NamedTuple):
    """Where a log ends: the names that it has rows for or has passed over, and the last row's."""

    settled: set[str]
    last: str


def _follow(
    measure: Callable[[Shot], Entry],
    snapshots: Sequence[Shot],
    log: Log,
    progress: Progress | None,
    missed: OnMissed | None,
) -> Iterator[Entry]:
    place: _Place
    new, place = _new(snapshots, log)
    before: list[Missed] = []  # since the last snapshot that could be measured
    for done, snapshot in enumerate(new, start=1):
        if snapshot.name in place.settled:
            continue
        try:
            entry, stamp = _take(measure, snapshot)
        except MissingExtraError:
            raise  # no fault of the snapshot's
        except GraphTemperError as error:
            if missed is None:
                raise type(error)(f"snapshot {snapshot.name}: {error}") from error
            before.append(Missed(snapshot.name, str(error)))
            missed(before[-1])
        else:
            while snapshot.name not in place.settled:
                if log.append(entry, before, stamp, after=place.last):
                    place.settled.add(snapshot.name)
                    place = place._replace(last=snapshot.name)
                    yield entry
                else:  # another process was faster
                    place = _overtaken(snapshots, log, place)
            before = []
        if progress is not None:
            progress(done, len(new))


def _take(measure: Callable[[Shot], Entry], snapshot: Shot) -> tuple[Entry, str | None]:
    """Return what a snapshot shows, and the stamp of its files where it can be relied on."""
    if snapshot.stamp is None:
        return measure(snapshot), None
    stamp = snapshot.stamp()
    settled = stamp.settled()
    entry = measure(snapshot)
    if snapshot.stamp() != stamp:
        raise FileError(
            "it changed while it was read; write it under another name, then rename it."
        )
    return entry, stamp.text if settled else None


def _overtaken(snapshots: Sequence[Shot], log: Log, before: _Place) -> _Place:
    """Return where a log ends that another process has added to; the order must still be ours."""
    _, now = _new(snapshots, log)
    strange = now.settled - before.settled - {snapshot.name for snapshot in snapshots}
    if strange:
        raise InputError(
            f"another process has added the snapshot {min(strange)} to the log, which this one was "
            "not given; run it again."
        )
    return now


def _new(snapshots: Sequence[Shot], log: Log) -> tuple[list[Shot], _Place]:
    """Return the snapshots that are not in the log, all of which come after those that are."""
    new: list[Shot] = []
    known: dict[str, Known] = log.known()
    passed: set[str] = {one.name for one in log.missed()}
    fresh: dict[str, str] = {}
    for snapshot in snapshots:
        if snapshot.name in passed:
            continue
        if snapshot.name not in known:
            new.append(snapshot)
            continue
        was = known[snapshot.name]
        stamp = None if snapshot.stamp is None else snapshot.stamp()
        if stamp is None or stamp.text != was.stamp:
            settled = stamp is not None and stamp.settled()
            if snapshot.checksum() != was.digest:
                raise InputError(
                    f"the snapshot {snapshot.name} is in the log with another content; give the "
                    "new one a new name."
                )
            if stamp is not None and settled:
                fresh[snapshot.name] = stamp.text
        if new:
            raise InputError(
                f"the snapshot {new[0].name} comes before {snapshot.name}, which is in the log "
                "already; give it a later name, or begin a new log."
            )
    log.remember(fresh)
    return new, _Place({*known, *passed}, next(reversed(known), ""))


def _measure_graph(predictor: Predictor, card: SourceCard, seed: int, snapshot: Snapshot) -> Entry:
    """Return what one graph shows; its labels, if any, are not looked at."""
    digest = snapshot.checksum()
    graph: Graph = snapshot.load().replace(labels=None)
    result = recalibrate(predictor, graph, card, snapshot.nodes, seed=seed)
    return _entry(snapshot, digest, result, len(result.probabilities))


def _measure_logits(card: SourceCard, snapshot: LogitSnapshot) -> Entry:
    digest = snapshot.checksum()
    result = estimate_logits(snapshot.load(), card)
    return _entry(snapshot, digest, result, result.num_nodes)


def _entry(
    snapshot: Stored[object],
    digest: str,
    result: Recalibration | ShardedAnswer,
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
        signals={name: float(value) for name, value in result.signals.items()},
    )


def fingerprint(card: SourceCard) -> str:
    """Return the checksum by which a log knows its card."""
    return hashlib.sha256(to_json(card).encode()).hexdigest()


def alarms(
    entries: Sequence[Entry], false_alarms: float = 0.01, seed: int = 0, every: int = 1
) -> list[Change]:
    """Return where the estimated accuracy or a signal has changed; see `changes`.

    The signals of the first snapshot are watched, to the end: rows are never changed, so the number
    of series that the stated rate is shared among is settled with the first. A later snapshot that
    lacks one of them leaves its series as it was.

    Parameters
    ----------
    entries
        The log, oldest first.
    false_alarms, seed
        See `changes`. The rate holds where the order of snapshots says nothing while nothing
        changes.
    every
        Test only so many-th snapshots, from the first on, where each is much like the one before.
        Positions are those in the log all the same.

    Examples
    --------
    >>> from dataclasses import replace
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> falling = [replace(entry, accuracy=0.9 - 0.001 * day) for day in range(200)]
    >>> [change.position % 5 for change in alarms(falling, every=5)][:2]
    [0, 0]
    """
    check_whole(every, "every", 1)
    if not entries:
        return []
    tested = entries[::every]
    names = sorted(entries[0].signals.keys() - {"accuracy"})
    series: dict[str, list[float | None]] = {
        "accuracy": [log_odds(entry.accuracy) for entry in tested]
    }
    series |= {name: [entry.signals.get(name) for entry in tested] for name in names}
    found = changes(series, false_alarms, seed)
    return [change._replace(position=change.position * every) for change in found]
