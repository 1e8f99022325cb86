"""Where a watch stands: its log with drops, changes and track record, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphtemper import errors
from graphtemper.card.card import SourceCard
from graphtemper.monitor.change import Change, alarms
from graphtemper.monitor.drop import Drop, drops, limits_of
from graphtemper.monitor.log import Entry, Log, Missed
from graphtemper.monitor.track_record import Scored, track_record
from graphtemper.recalibration.gates import Gate


@dataclass(frozen=True, eq=False)
class Standing:
    """A log read as a whole.

    Attributes
    ----------
    model, source
        Name of the predictor, and its accuracy at the source.
    first, answers
        The first and the newest answer to every snapshot, oldest first.
    record
        Snapshots with late labels.
    changes, drops
        Alarms: see `graphtemper.monitor.alarms` and `graphtemper.monitor.drops`.
    limits
        Accuracies that drops are measured from, by name.
    missed
        Snapshots that could not be measured.
    false_alarms, false_drops, every
        The stated rates; every n-th snapshot is tested for changes.
    """

    model: str
    source: float
    first: Sequence[Entry]
    answers: Sequence[Entry]
    record: Sequence[Scored]
    changes: Sequence[Change]
    drops: Sequence[Drop]
    limits: dict[str, float]
    missed: Sequence[Missed]
    false_alarms: float
    false_drops: float
    every: int

    @property
    def newest(self) -> Entry:
        """The newest answer."""
        return self.answers[-1]

    def headline(self) -> str:
        """Return one sentence on the newest accuracy, compared with the source's."""
        entry, source = self.newest, f"{self.source:.1%} at the source"
        interval = f"{entry.low:.1%} to {entry.high:.1%}"
        if not entry.settled:
            return (
                f"On {entry.name} accuracy is not known: it may be anywhere from {interval}; it "
                f"was {source}."
            )
        text = f"On {entry.name} accuracy is estimated at {entry.accuracy:.1%} ({interval})"
        if entry.low <= self.source <= entry.high:
            return f"{text}; it was {source}."
        return f"{text}, {'down' if entry.high < self.source else 'up'} from {source}."


def read_log(
    log: Log,
    card: SourceCard,
    gates: Iterable[Gate] = (),
    *,
    false_alarms: float = 0.01,
    false_drops: float = 0.05,
    every: int = 1,
    missed: Sequence[Missed] = (),
) -> Standing:
    """Read a log as a whole.

    Parameters
    ----------
    log, card
        The log, and the card that it was begun with.
    gates
        Those that compare the accuracy with a number are limits of drops.
    false_alarms, false_drops, every
        See `graphtemper.monitor.alarms` and `graphtemper.monitor.drops`.
    missed
        Snapshots that a run could not measure and that are not in the log yet.
    """
    first, answers = log.entries(), log.answers()
    if not answers:
        raise errors.empty(f"the log {log.path} has no snapshots yet.")
    limits = limits_of(card.reference.accuracy, gates)
    return Standing(
        model=card.predictor,
        source=card.reference.accuracy,
        first=first,
        answers=answers,
        record=track_record(log),
        # What was answered at the time: answers given again would move or raise alarms of the past.
        changes=alarms(first, false_alarms, log.seed, every),
        drops=drops(log.history(), limits, false_drops, log.labelled()),
        limits=limits,
        missed=list(dict.fromkeys([*log.missed(), *missed])),
        false_alarms=false_alarms,
        false_drops=false_drops,
        every=every,
    )
