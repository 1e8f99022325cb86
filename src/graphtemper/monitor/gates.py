"""Gates: conditions on the newest snapshot for cron jobs and continuous integration."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

from graphtemper.errors import ChoiceError
from graphtemper.monitor.log import Entry

_NUMBERS = ("accuracy", "low", "high", "temperature", "slope", "confidence")
_UNSETTLED = ("temperature", "slope")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_COMPARISON = re.compile(
    rf"({'|'.join(_NUMBERS)})\s*([<>]=?)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
# A gate on a verdict also closes on worse ones.
_VERDICTS = {"caution": ("caution", "abstain"), "abstain": ("abstain",)}


@dataclass(frozen=True)
class Gate:
    """A condition that fails a snapshot.

    ``abstain``, ``caution`` (which closes on abstentions as well), ``drop``, ``change``, or a
    comparison of accuracy, low, high (the interval), temperature, slope or confidence with a
    number, by one of <, <=, > and >=. Temperature and slope are unknown if the verdict is
    ``abstain``; an unknown value closes no gate.

    Examples
    --------
    >>> Gate.parse("accuracy<0.8")
    Gate(text='accuracy<0.8', field='accuracy', sign='<', limit=0.8)
    >>> Gate.parse("accuracy=1")
    Traceback (most recent call last):
    graphtemper.errors.ChoiceError: cannot read the gate 'accuracy=1'; write abstain, caution, \
drop, change, or a comparison such as "accuracy<0.8" of accuracy, low, high, temperature, slope or \
confidence by <, <=, > or >= with a plain number (0.8, not 80%).
    """

    text: str
    field: str
    sign: str = ""
    limit: float = math.nan

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Read a gate from a command line."""
        word = text.strip()
        if word in ("drop", "change", *_VERDICTS):
            return cls(word, word)
        match = _COMPARISON.fullmatch(word)
        if match is None or not math.isfinite(float(match[3])):
            raise ChoiceError(
                f"cannot read the gate {text!r}; write abstain, caution, drop, change, or a "
                'comparison such as "accuracy<0.8" of accuracy, low, high, temperature, slope or '
                "confidence by <, <=, > or >= with a plain number (0.8, not 80%)."
            )
        return cls(word, match[1], match[2], float(match[3]))

    def closes(self, entry: Entry, changed: bool, dropped: bool = False) -> bool:
        """Return whether the snapshot fails; whether it raised alarms is given."""
        if self.field in ("change", "drop"):
            return changed if self.field == "change" else dropped
        if self.field in _VERDICTS:
            return entry.verdict in _VERDICTS[self.field]
        if self.field in _UNSETTLED and not entry.settled:
            return False
        value: float = getattr(entry, self.field)
        return bool(_SIGNS[self.sign](value, self.limit))
