"""Rows of a log: one entry per snapshot, and the snapshots that could not be measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from graphtemper.errors import InputError

VERDICTS = ("trust", "caution", "abstain")
_MAX_LENGTH = 10_000
_FRACTIONS = ("accuracy", "low", "high", "confidence")
_POSITIVE = ("temperature", "slope")


@dataclass(frozen=True)
class Entry:
    """The result of one snapshot.

    Attributes
    ----------
    name, digest
        The snapshot, and a checksum of its content.
    num_nodes
        Number of evaluated nodes.
    accuracy, low, high
        Estimate and 90 % interval; with the verdict ``abstain`` the estimate is a best guess.
    confidence
        Mean confidence before recalibration.
    temperature, slope
        Of the recalibration; with the verdict ``abstain`` a best guess, see `settled`.
    reasons, signals
        Sentences behind the verdict, and label-free signals by name.
    when
        The snapshot's place in time, such as ``"2026-05"``; None if unknown.
    revision
        How many times the card had learned from late labels when it gave this answer.
    """

    name: str
    digest: str
    num_nodes: int
    accuracy: float
    low: float
    high: float
    confidence: float
    temperature: float
    slope: float
    verdict: str
    reasons: tuple[str, ...]
    signals: dict[str, float]
    when: str | None = None
    revision: int = 0

    @property
    def settled(self) -> bool:
        """Whether the numbers can be relied on: not if the verdict is `abstain`.

        An abstention has an interval, but claims no accuracy, temperature or slope.
        """
        return self.verdict != "abstain"

    @property
    def accuracy_in_words(self) -> str:
        """The accuracy with its interval; "not known" if the verdict is `abstain`."""
        value = f"{self.accuracy:.1%}" if self.settled else "not known"
        return f"{value} (90 % interval {self.low:.1%} to {self.high:.1%})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "reasons": list(self.reasons)
        }


class Missed(NamedTuple):
    """A snapshot that could not be measured, and the reason."""

    name: str
    reason: str


class Labelled(NamedTuple):
    """What late labels of a snapshot showed.

    Attributes
    ----------
    name, revision
        The snapshot, and the revision of the log with these labels.
    num_labels
        Number of labelled nodes.
    accuracy, deviation
        The accuracy on them, and its sampling error as that of all evaluated nodes: 0 if all of
        them are labelled.
    ece_before, ece_after
        Calibration error at the source temperature, and at the temperature first answered.
    """

    name: str
    revision: int
    num_labels: int
    accuracy: float
    deviation: float
    ece_before: float
    ece_after: float


def check_labelled(labelled: Labelled, what: str) -> None:
    """Refuse scores with impossible values; ``what`` names them in errors."""
    check_strings((labelled.name,), what)
    for name in ("revision", "num_labels"):
        value = getattr(labelled, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"{what} needs a count as {name}, not {value!r}.")
    for name in ("accuracy", "deviation", "ece_before", "ece_after"):
        value = getattr(labelled, name)
        if isinstance(value, bool) or not isinstance(value, float) or not 0.0 <= value <= 1.0:
            raise InputError(f"{what} needs a {name} between 0 and 1, not {value!r}.")


def check_entry(entry: Entry, what: str) -> None:
    """Refuse an entry with impossible values; ``what`` names it in errors."""
    if not isinstance(entry.signals, dict):
        raise InputError(f"{what} holds signals without names.")
    texts = (entry.name, entry.digest, entry.verdict, *entry.reasons, *entry.signals)
    check_strings((*texts, "" if entry.when is None else entry.when), what)
    if not entry.name:
        raise InputError(f"{what} has no name.")
    if entry.verdict not in VERDICTS:
        raise InputError(f"{what} has the unknown verdict {entry.verdict!r}.")
    numbers = {name: getattr(entry, name) for name in (*_FRACTIONS, *_POSITIVE)}
    for name, value in (numbers | entry.signals).items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise InputError(f"{what} needs a finite number as {name}, not {value!r}.")
    for name in _FRACTIONS:
        if not 0.0 <= numbers[name] <= 1.0:
            raise InputError(f"{what} needs a {name} between 0 and 1, not {numbers[name]}.")
    for name in _POSITIVE:
        if not numbers[name] > 0.0:
            raise InputError(f"{what} needs a positive {name}, not {numbers[name]}.")
    if entry.low > entry.high:
        raise InputError(f"{what} has an interval from {entry.low} to {entry.high}.")
    count, revision = entry.num_nodes, entry.revision
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"{what} needs a positive number of nodes, not {count!r}.")
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < 0:
        raise InputError(f"{what} needs a revision of at least 0, not {revision!r}.")


def check_strings(values: tuple[Any, ...], what: str) -> None:
    """Refuse values that are not strings, are too long, or cannot be encoded."""
    if not all(isinstance(value, str) and len(value) <= _MAX_LENGTH for value in values):
        raise InputError(f"{what} needs strings of at most {_MAX_LENGTH} characters.")
    try:
        "".join(values).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{what} holds a string that is not Unicode; rename it.") from error
