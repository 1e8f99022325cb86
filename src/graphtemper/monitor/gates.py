"""Gates: conditions on an answer for cron jobs and continuous integration."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

from graphtemper import errors
from graphtemper._core.estimate import Estimate
from graphtemper.metrics.decisions import NAMES as DECISIONS
from graphtemper.monitor.log import Entry
from graphtemper.recalibration.decisions import Metrics
from graphtemper.recalibration.result import Recalibration

_NUMBERS = ("accuracy", "low", "high", "temperature", "slope", "confidence")
_UNSETTLED = ("temperature", "slope")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NAMES = "|".join((*_NUMBERS, *DECISIONS))
_COMPARISON = re.compile(
    rf"(?:({_NAMES})|(low|high)\(({'|'.join(DECISIONS)}|accuracy)\))"
    r"\s*([<>]=?)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
# A gate on a verdict also closes on worse ones.
_VERDICTS = {"caution": ("caution", "abstain"), "abstain": ("abstain",)}


@dataclass(frozen=True)
class Gate:
    """A condition that fails a snapshot.

    ``abstain``, ``caution`` (which closes on abstentions as well), ``drop``, ``change``, or a
    comparison of accuracy, low, high (the interval), temperature, slope, confidence or a metric of
    decisions such as precision with a number, by one of <, <=, > and >=; ``low(precision)`` and
    ``high(precision)`` are the ends of its interval. Temperature and slope are unknown if the
    verdict is ``abstain``; an unknown value closes no gate.

    Examples
    --------
    >>> Gate.parse("accuracy<0.8")
    Gate(text='accuracy<0.8', field='accuracy', sign='<', limit=0.8, end='value')
    >>> Gate.parse("low(precision) < 0.6").end
    'low'
    >>> Gate.parse("accuracy=1")
    Traceback (most recent call last):
    graphtemper.errors.InputError: cannot read the gate 'accuracy=1'; write abstain, caution, \
drop, change, or a comparison such as "accuracy<0.8" of accuracy, low, high, temperature, slope, \
confidence, precision, recall or another metric by <, <=, > or >= with a plain number (0.8, not \
80%).
    """

    text: str
    field: str
    sign: str = ""
    limit: float = math.nan
    end: str = "value"

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Read a gate from a command line."""
        word = text.strip()
        if word in ("drop", "change", *_VERDICTS):
            return cls(word, word)
        match = _COMPARISON.fullmatch(word)
        if match is None or not math.isfinite(float(match[5])):
            raise errors.choice(
                f"cannot read the gate {text!r}; write abstain, caution, drop, change, or a "
                'comparison such as "accuracy<0.8" of accuracy, low, high, temperature, slope, '
                "confidence, precision, recall or another metric by <, <=, > or >= with a plain "
                "number (0.8, not 80%)."
            )
        return cls(word, match[1] or match[3], match[4], float(match[5]), match[2] or "value")

    def closes(self, entry: Entry, changed: bool, dropped: bool = False) -> bool:
        """Return whether the snapshot fails; whether it raised alarms is given."""
        if self.field in ("change", "drop"):
            return changed if self.field == "change" else dropped
        if self.field in _VERDICTS:
            return entry.verdict in _VERDICTS[self.field]
        if self.field in _UNSETTLED and not entry.settled:
            return False
        if self.field in DECISIONS:
            estimate = entry.metrics.get(self.field)
            return estimate is not None and self._exceeds(estimate[self.end])
        return self._exceeds(getattr(entry, self.field if self.end == "value" else self.end))

    def fails(self, result: Recalibration, metrics: Metrics | None) -> bool:
        """Return whether an answer fails; alarms need a watch."""
        if self.field in ("change", "drop"):
            raise errors.choice(f"the gate {self.text!r} needs a watch; use graphtemper monitor.")
        if self.field in _VERDICTS:
            return result.verdict in _VERDICTS[self.field]
        if self.field in _UNSETTLED:
            return result.verdict != "abstain" and self._exceeds(getattr(result, self.field))
        if self.field == "confidence":
            return self._exceeds(result.mean_confidence[0])
        estimate: Estimate | None = result.accuracy
        if self.field in DECISIONS:
            if metrics is not None and metrics.reasons.get(self.field, "").startswith("it needs"):
                raise errors.missing(f"the gate {self.text!r}: {metrics.reasons[self.field]}.")
            estimate = None if metrics is None else getattr(metrics, self.field)
        end = self.field if self.field in ("low", "high") else self.end
        return estimate is not None and self._exceeds(getattr(estimate, end))

    def _exceeds(self, value: float) -> bool:
        return bool(_SIGNS[self.sign](value, self.limit))
