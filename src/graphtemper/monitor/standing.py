"""Where a watch stands: its log with drops, changes and track record, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphtemper.monitor.change import Change
from graphtemper.monitor.drop import Drop
from graphtemper.monitor.log import Entry, Missed
from graphtemper.monitor.record import Scored


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
