"""A watch: every snapshot is measured once and added to the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from graphtemper._core.checks import check_instance, check_integer
from graphtemper._core.numerics import log_odds
from graphtemper.card.card import SourceCard
from graphtemper.errors import FileError, GraphTemperError, InputError, MissingExtraError
from graphtemper.models.predictor import Predictor
from graphtemper.monitor.change import Change, changes
from graphtemper.monitor.entry import Entry, Missed, check_entry
from graphtemper.monitor.log import Kind, Log, LoggedSnapshot
from graphtemper.monitor.logit_snapshots import LogitSnapshot
from graphtemper.monitor.readers import GraphReader, LogitReader
from graphtemper.monitor.snapshots import Snapshot

Progress = Callable[[int, int], None]
"""Called with the number of finished snapshots and their total."""
OnMissed = Callable[[Missed], None]
_MAX_REASON = 1000


def follow(
    predictor: Predictor,
    snapshots: Iterable[Snapshot],
    card: SourceCard,
    log: Log,
    progress: Progress | None = None,
    missed: OnMissed | None = None,
) -> Iterator[Entry]:
    """Recalibrate every graph that is not in the log yet, and yield the new entries.

    A graph is held in memory only while it is measured. The log is a record: a new snapshot that
    precedes a logged one is refused, and so is a logged name with other content. After an
    interruption the watch resumes where it stopped. If the log has late labels (`add_labels`), the
    card that has learned from them answers.

    Parameters
    ----------
    predictor
        The model; one that the card was not built for is refused at once.
    snapshots
        Graphs, oldest first.
    card
        The model's source card, without late labels.
    log
        A log for this card; its seed is that of the perturbed passes.
    progress
        Called after each snapshot.
    missed
        Called with each snapshot that cannot be measured or is refused, and the watch continues;
        by default the error is raised. A snapshot that could not be measured is tried again by the
        next watch, until a later one is in the log, which then records it as missed.

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
    >>> snapshots = [Snapshot(f"day {d}", f"{d}", lambda d=d: days[d]) for d in (1, 2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", fingerprint(card))
    ...     [entry.name for entry in follow(model, snapshots, card, log)], list(
    ...         follow(model, snapshots, card, log)
    ...     )
    (['day 1', 'day 2'], [])
    """
    check_arguments(card, log, "graphs", "follow(predictor, snapshots, card, log)")
    check_model(predictor, card)
    learned, revision = current_card(card, log)
    reader = GraphReader(predictor, learned, log.seed, revision)
    return _Watch(reader, list(snapshots), log, missed).run(progress)


def follow_logits(
    snapshots: Iterable[LogitSnapshot],
    card: SourceCard,
    log: Log,
    progress: Progress | None = None,
    missed: OnMissed | None = None,
    *,
    isolate: bool = False,
) -> Iterator[Entry]:
    """Recalibrate every snapshot of logits that is not in the log yet, without graph and model.

    The estimate is that of `graphtemper.scale.recalibrate_logits`, from its first pass.

    Parameters
    ----------
    snapshots
        Logits, oldest first.
    card, log, progress, missed
        See `follow`; the log must be one of logits.
    isolate
        Read Parquet in a child process, so that a damaged file which crashes its reader is missed
        and does not end the watch. The child is spawned, so a script that calls this needs the
        usual ``if __name__ == "__main__":``.

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
    >>> snapshots = [
    ...     LogitSnapshot(f"day {d}", f"{d}", lambda d=d: LogitArray(model(days[d]), 2))
    ...     for d in (1, 2)
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Log(Path(folder) / "watch.sqlite", fingerprint(card), kind="logits")
    ...     [entry.name for entry in follow_logits(snapshots, card, log)]
    ['day 1', 'day 2']
    """
    check_arguments(card, log, "logits", "follow_logits(snapshots, card, log)")
    reader = LogitReader(card, isolate)
    return _Watch(reader, list(snapshots), log, missed).run(progress)


def check_arguments(card: SourceCard, log: Log, kind: Kind, call: str) -> None:
    """Refuse swapped arguments, and a log of the other kind of snapshots."""
    check_instance(card, SourceCard, "card", call)
    check_instance(log, Log, "log", call)
    if log.kind != kind:
        raise InputError(
            f"the log {log.path} is opened for {log.kind}; open it with kind={kind!r}."
        )


def check_model(predictor: Predictor, card: SourceCard) -> None:
    """Refuse a model that the card was not built for, before any snapshot is read.

    Otherwise every snapshot would be reported as if it were damaged.

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
    card.check_model(predictor)


Item = TypeVar("Item", Snapshot, LogitSnapshot)
Readable = TypeVar("Readable", contravariant=True)


class _Reader(Protocol[Readable]):
    """Reads and measures snapshots of one kind."""

    def measure(self, snapshot: Readable) -> Entry: ...

    def checksum(self, snapshot: Readable) -> str: ...

    def close(self) -> None: ...


class _State(NamedTuple):
    """Names that a watch need not measure any more, and the log's last row with its time."""

    settled: set[str]
    last: str
    when: str | None


class _Watch(Generic[Item]):
    """One run over snapshots. Without a ``missed`` callback, the first problem is raised."""

    def __init__(
        self,
        reader: _Reader[Item],
        snapshots: Sequence[Item],
        log: Log,
        missed: OnMissed | None,
    ) -> None:
        self._reader: _Reader[Item] = reader
        self._snapshots: Sequence[Item] = snapshots
        self._log, self._missed = log, missed
        self._refused: set[str] = set()

    def run(self, progress: Progress | None) -> Iterator[Entry]:
        """Measure new snapshots and yield the entries that were added to the log."""
        try:
            new, state = self._compare_with_log()
            missed: list[Missed] = []  # since the last snapshot that was measured
            for number, snapshot in enumerate(new, start=1):
                if snapshot.name in state.settled:
                    continue
                if state.last and snapshot.is_older_than(state.last, state.when):
                    message = (
                        f"the snapshot {snapshot.name} is older than {state.last}, the newest of "
                        "the log; a log is filled in order, so begin a new one to add it."
                    )
                    self._refuse(snapshot.name, InputError(message))
                    continue
                try:
                    entry, stamp = self._measure(snapshot)
                except MissingExtraError:
                    raise  # the snapshot is not at fault
                except Exception as error:
                    if self._missed is None:
                        if isinstance(error, GraphTemperError):
                            message = f"snapshot {snapshot.name}: {error}"
                            raise type(error)(message) from error
                        raise
                    missed.append(Missed(snapshot.name, reason_of(error)))
                    self._missed(missed[-1])
                else:
                    while snapshot.name not in state.settled:
                        if self._log.append(entry, missed, stamp, after=state.last):
                            state.settled.add(snapshot.name)
                            state = _State(state.settled, snapshot.name, entry.when)
                            yield entry
                        else:  # another process was faster
                            state = self._state_after_others(state)
                    missed = []
                if progress is not None:
                    progress(number, len(new))
        finally:
            self._reader.close()

    def _measure(self, snapshot: Item) -> tuple[Entry, str | None]:
        """Return the entry of a snapshot, and the stamp of its files if it is reliable."""
        stamp = None if snapshot.stamp is None else snapshot.stamp()
        reliable = stamp is not None and stamp.is_reliable()
        entry = self._reader.measure(snapshot)
        check_entry(entry, "the measurement")
        if snapshot.stamp is not None and snapshot.stamp() != stamp:
            raise FileError(
                "it changed while it was read; write it under another name, then rename it."
            )
        return entry, stamp.text if stamp is not None and reliable else None

    def _state_after_others(self, before: _State) -> _State:
        """Return the state of a log that another process has added to."""
        _, state = self._compare_with_log()
        names = {snapshot.name for snapshot in self._snapshots}
        unexpected = state.settled - before.settled - names
        if unexpected:
            raise InputError(
                f"another process has added the snapshot {min(unexpected)}, which this watch does "
                "not have; run it again."
            )
        return state

    def _compare_with_log(self) -> tuple[list[Item], _State]:
        """Return the new snapshots, all of which come after the logged ones, and the state."""
        new: list[Item] = []
        logged: dict[str, LoggedSnapshot] = self._log.snapshots()
        missed: set[str] = {item.name for item in self._log.missed()}
        stamps: dict[str, str] = {}
        for snapshot in self._snapshots:
            name = snapshot.name
            if name in missed or name in self._refused:
                continue
            if name not in logged:
                new.append(snapshot)
                continue
            try:
                stamp = self._check_unchanged(snapshot, logged[name])
            except Exception as error:
                self._refuse(name, error)
                continue
            if stamp is not None:
                stamps[name] = stamp
            for late in new:
                message = (
                    f"the snapshot {late.name} comes before {name}, which is in the log already; "
                    "give it a later name, or begin a new log."
                )
                self._refuse(late.name, InputError(message))
            new = []
        self._log.update_stamps(stamps)
        last = next(reversed(logged), "")
        when = logged[last].when if last else None
        return new, _State({*logged, *missed, *self._refused}, last, when)

    def _check_unchanged(self, snapshot: Item, logged: LoggedSnapshot) -> str | None:
        """Refuse a logged snapshot with other content; return a new stamp that is reliable."""
        stamp = None if snapshot.stamp is None else snapshot.stamp()
        if stamp is not None and stamp.text == logged.stamp:
            return None
        reliable = stamp is not None and stamp.is_reliable()
        if self._reader.checksum(snapshot) != logged.digest:
            raise InputError(
                f"the snapshot {snapshot.name} is in the log with another content; give the new "
                "one a new name."
            )
        return stamp.text if stamp is not None and reliable else None

    def _refuse(self, name: str, error: Exception) -> None:
        """Report a snapshot that does not agree with the log, or raise its error."""
        if self._missed is None:
            raise error
        self._refused.add(name)
        self._missed(Missed(name, reason_of(error)))


def reason_of(error: Exception) -> str:
    """Return an error as one printable line."""
    text = str(error)
    if not isinstance(error, GraphTemperError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:_MAX_REASON]


def current_card(card: SourceCard, log: Log) -> tuple[SourceCard, int]:
    """Return the card with what it has learned from the log's late labels, and its revision.

    A log may come from an untrusted source: it can add labelled environments to the card, and
    nothing else.
    """
    text, revision = log.learned()
    if text is None:
        return card, revision
    try:
        learned = SourceCard.from_json(text)
    except InputError as error:
        raise FileError(f"{log.path} holds a damaged card: {error}") from error
    if replace(learned, environments=card.environments).to_json() != card.to_json():
        raise FileError(
            f"{log.path} holds a card that differs from the given one in more than labelled "
            "environments; begin a new log."
        )
    return learned, revision


def fingerprint(card: SourceCard) -> str:
    """Return the checksum by which a log identifies its card."""
    return hashlib.sha256(card.to_json().encode()).hexdigest()


def alarms(
    entries: Sequence[Entry], false_alarms: float = 0.01, seed: int = 0, every: int = 1
) -> list[Change]:
    """Return where the estimated accuracy or a signal has changed; see `changes`.

    Estimates of a card that has learned from late labels are compared only with each other.

    The signals of the first snapshot are tested to the end, so that the number of series, which
    share the stated rate, never changes. A snapshot that lacks one of them leaves its series as it
    was.

    Parameters
    ----------
    entries
        The first answers of the log (`Log.entries`), oldest first. Answers that were given again
        would change the series after it was tested, and with it past alarms and the stated rate.
    false_alarms, seed
        See `changes`. The rate holds if snapshots are exchangeable while nothing changes.
    every
        Test only every n-th snapshot, from the first on, if each resembles the previous one.
        Positions still refer to the log.

    Examples
    --------
    >>> from dataclasses import replace
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> falling = [replace(entry, accuracy=0.9 - 0.001 * day) for day in range(200)]
    >>> [change.position % 5 for change in alarms(falling, every=5)][:2]
    [0, 0]
    """
    check_integer(every, "every", 1)
    if not entries:
        return []
    tested = entries[::every]
    names = sorted(entries[0].signals.keys() - {"accuracy"})
    series: dict[str, list[float | None]] = {
        "accuracy": [log_odds(entry.accuracy) for entry in tested]
    }
    series |= {name: [entry.signals.get(name) for entry in tested] for name in names}
    revisions = {"accuracy": [entry.revision for entry in tested]}
    tested_changes = changes(series, false_alarms, seed, revisions)
    return [change._replace(position=change.position * every) for change in tested_changes]
