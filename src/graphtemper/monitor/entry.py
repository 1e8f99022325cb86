"""What a log holds: one entry a snapshot, and the snapshots that could not be measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from graphtemper.errors import InputError

VERDICTS = ("trust", "caution", "abstain")
_LONGEST = 10_000


@dataclass(frozen=True)
class Entry:
    """What one snapshot showed.

    Attributes
    ----------
    name, digest
        The snapshot, and a checksum of what was in it.
    accuracy, low, high
        Estimate and 90 % interval.
    confidence
        Mean confidence before recalibration.
    temperature, slope
        What makes confidence honest; on ``abstain`` the source's temperature and 1, see `settled`.
    reasons, signals
        Sentences behind the verdict; label-free numbers by name.
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

    @property
    def settled(self) -> bool:
        """Whether temperature and slope were found, not just kept from the source (`abstain`)."""
        return self.verdict != "abstain"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "reasons": list(self.reasons)
        }


class Missed(NamedTuple):
    """A snapshot that could not be measured, and why."""

    name: str
    reason: str


def check_entry(entry: Entry, name: str) -> None:
    """Refuse an entry that no watch could have written; ``name`` is what errors call it."""
    if not isinstance(entry.signals, dict):
        raise InputError(f"{name} holds signals that have no names.")
    texts = (entry.name, entry.digest, entry.verdict, *entry.reasons, *entry.signals)
    check_texts(texts, name)
    if not entry.name:
        raise InputError(f"{name} is of a snapshot without a name.")
    if entry.verdict not in VERDICTS:
        raise InputError(f"{name} has the verdict {entry.verdict!r}; there is none of that name.")
    numbers = (entry.accuracy, entry.low, entry.high, entry.confidence, entry.temperature)
    for value in (*numbers, entry.slope, *entry.signals.values()):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise InputError(f"{name} holds {value!r} where a finite number is due.")


def check_texts(texts: tuple[str, ...], name: str) -> None:
    """Refuse what is no text, is too long, or has no bytes (half a character)."""
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        raise InputError(f"{name} holds a text that is none, or one that is too long.")
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} holds a text that is not Unicode; rename it.") from error
