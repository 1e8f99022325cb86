"""Gates: conditions on an answer for cron jobs and continuous integration.

A gate is closed where its condition holds, and where the condition cannot be checked: a metric that
was not measured or is not defined, or a number of an abstention. A silent gate would let through
exactly what it is there to stop.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphtemper import errors
from graphtemper.metrics.classification import NAMES as DECISIONS
from graphtemper.signals.changes import CODES

if TYPE_CHECKING:
    from graphtemper.recalibration.decisions import Metrics
    from graphtemper.recalibration.result import Recalibration

ALARMS = ("drop", "change")
"""Gates on alarms, which only a watch can raise."""
# Mean confidence is measured; of an abstention all other numbers are best guesses.
_NUMBERS = ("accuracy", "low", "high", "temperature", "slope", "confidence")
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NAMES = "|".join((*_NUMBERS, "changes", *DECISIONS))
_COMPARISON = re.compile(
    rf"(?:({_NAMES})|(low|high)\(({'|'.join(DECISIONS)}|accuracy)\))"
    r"\s*([<>]=?)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
# A gate on a verdict also closes on worse ones.
_VERDICTS = {"caution": ("caution", "abstain"), "abstain": ("abstain",)}


@dataclass(frozen=True)
class Gate:
    """A condition that must not be true.

    ``abstain``, ``caution`` (which closes on abstentions as well), ``drop``, ``change``, or a
    comparison of accuracy, low, high (the interval), temperature, slope, confidence or a metric of
    decisions such as precision with a number, by one of <, <=, > and >=; ``low(precision)`` and
    ``high(precision)`` are the ends of its interval. A comparison that cannot be checked closes.
    ``changes`` is how many changes there are, and the code of one, such as ``columns_order``,
    closes on it.

    Examples
    --------
    >>> Gate.parse("accuracy<0.8")
    Gate(text='accuracy<0.8', field='accuracy', sign='<', limit=0.8, end='value')
    >>> Gate.parse("low(precision) < 0.6").end
    'low'
    >>> Gate.parse("accuracy=1")
    Traceback (most recent call last):
    graphtemper.errors.InputError: cannot read the gate 'accuracy=1'; write abstain, caution, \
drop, change, the code of a change, or a comparison such as "accuracy<0.8" of accuracy, low, \
high, temperature, slope, confidence, changes, precision, recall or another metric by <, <=, > or \
>= with a plain number (0.8, not 80%).
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
        if word in (*ALARMS, *_VERDICTS, *CODES):
            return cls(word, word)
        match = _COMPARISON.fullmatch(word)
        if match is None or not math.isfinite(float(match[5])):
            raise errors.choice(
                f"cannot read the gate {text!r}; write abstain, caution, drop, change, the code of "
                'a change, or a comparison such as "accuracy<0.8" of accuracy, low, high, '
                "temperature, slope, confidence, changes, precision, recall or another metric by "
                "<, <=, > or >= with a plain number (0.8, not 80%)."
            )
        field, end = match[1] or match[3], match[2] or "value"
        if field == "accuracy" and end != "value":
            field, end = end, "value"
        return cls(word, field, match[4], float(match[5]), end)

    @property
    def is_about_accuracy(self) -> bool:
        """Whether it closes where the accuracy, or an end of its interval, is below a limit."""
        return self.field in ("accuracy", "low", "high") and self.sign in ("<", "<=")

    def why_closed(
        self,
        verdict: str,
        numbers: Mapping[str, Any],
        metrics: Mapping[str, Mapping[str, float]],
        undefined: Mapping[str, str],
    ) -> str:
        """Return why an answer closes the gate; empty if the gate is open.

        Parameters
        ----------
        verdict, numbers
            The verdict, and accuracy, low, high, temperature, slope and confidence; in ``changes``
            what differs from the source, as dictionaries.
        metrics, undefined
            Metrics of decisions by name, each with value, low and high; and why others have none.

        Examples
        --------
        >>> numbers = {"accuracy": 0.75, "confidence": 0.9}
        >>> Gate.parse("accuracy<0.8").why_closed("trust", numbers, {}, {})
        'accuracy is 0.75'
        >>> Gate.parse("accuracy<0.7").why_closed("trust", numbers, {}, {})
        ''
        >>> Gate.parse("accuracy<0.7").why_closed("abstain", numbers, {}, {})
        'accuracy is not known, because the verdict is abstain'
        >>> Gate.parse("precision<0.1").why_closed("trust", numbers, {}, {})
        'precision was not measured; name the positive class'
        """
        if self.field in _VERDICTS:
            return f"the verdict is {verdict}" if verdict in _VERDICTS[self.field] else ""
        if self.field == "changes" or self.field in CODES:
            return self._on_changes(numbers.get("changes", ()))
        name = self.field if self.end == "value" else f"{self.end}({self.field})"
        if verdict == "abstain" and self.field != "confidence":
            return f"{name} is not known, because the verdict is abstain"
        if self.field not in DECISIONS:
            value = numbers[self.field]
        elif self.field in metrics:
            value = metrics[self.field][self.end]
        elif self.field in undefined:
            return f"{self.field} is not defined: {undefined[self.field]}"
        else:
            return f"{self.field} was not measured; {_needed(self.field)}"
        if not math.isfinite(value):
            return f"{name} is {value}, which no number can be compared with"
        return f"{name} is {value:.4g}" if _SIGNS[self.sign](value, self.limit) else ""

    def _on_changes(self, changes: Sequence[Mapping[str, Any]]) -> str:
        found = [item["text"] for item in changes if self.field in ("changes", item["code"])]
        closed = _SIGNS[self.sign](len(found), self.limit) if self.sign else bool(found)
        if not closed:
            return ""
        if not self.sign:
            return str(found[0])
        return f"there are {len(found)} changes" + (f": {found[0]}" if found else "")


def _needed(field: str) -> str:
    """Return what has to be asked for so that a metric is measured."""
    if field == "cost":
        return "give costs"
    return "name the positive class" + " and the number of reviews" * field.endswith("_at_k")


def why_closed(
    gates: Iterable[Gate], result: Recalibration, metrics: Metrics | None = None
) -> dict[str, str]:
    """Return the gates that a result closes, each with the reason; alarms need a watch.

    Metrics of decisions are those that were asked for: a gate on another one is closed.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm, recalibrate
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> few = {"noise": (1.0,), "drop": (0.5,), "add": (1.0,)}
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0, shifts=few)
    >>> result = recalibrate(model, g, card, range(200, 400))
    >>> gates = [Gate.parse(text) for text in ("accuracy<0.99", "accuracy<0.01", "recall<0.5")]
    >>> found = why_closed(gates, result, result.metrics(positive=1))
    >>> list(found), list(why_closed(gates, result))
    (['accuracy<0.99'], ['accuracy<0.99', 'recall<0.5'])
    """
    accuracy = result.accuracy
    numbers: dict[str, Any] = {
        "accuracy": accuracy.value,
        "low": accuracy.low,
        "high": accuracy.high,
        "temperature": result.temperature,
        "slope": result.slope,
        "confidence": result.mean_confidence[0],
        "changes": [change.to_dict() for change in result.changes],
    }
    known = {} if metrics is None else metrics.values()
    undefined = {} if metrics is None else metrics.undefined
    closed = {}
    for gate in gates:
        if gate.field in ALARMS:
            closed[gate.text] = f"a {gate.field} can be seen by a watch only"
        elif reason := gate.why_closed(result.verdict, numbers, known, undefined):
            closed[gate.text] = reason
    return closed
