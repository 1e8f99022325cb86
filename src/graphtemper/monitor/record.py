r"""The track record of a watch: what was answered, against what late labels showed.

The true accuracy of a snapshot is known exactly if all its evaluated nodes are labelled. If m of n
are, chosen at random, the labels have the sampling error

.. math:: s^2 = \frac{a (1 - a)}{m} \frac{n - m}{n - 1},

and an interval [low, high] around the estimate â holds if the labels' accuracy lies between
:math:`\hat a - \sqrt{(\hat a - \mathrm{low})^2 + z^2 s^2}` and
:math:`\hat a + \sqrt{(\mathrm{high} - \hat a)^2 + z^2 s^2}`, with z = 1.645: the interval for what
the labels would show. Without this, few labels would make good intervals look bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from graphtemper import errors, metrics
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS
from graphtemper.card.environments import FEWEST_NODES
from graphtemper.monitor.log import Content, Entry, Labelled
from graphtemper.recalibration.labels.few_labels import Labels
from graphtemper.scale.logit_tables import LogitParts

# The level of intervals, and the probability below which too few of them hold the truth.
_LEVEL, _UNLIKELY = 0.9, 0.05


@dataclass(frozen=True)
class Scored:
    """A snapshot whose labels came later.

    Attributes
    ----------
    labelled
        What the labels showed.
    first, latest
        The first answer, and the newest one that was given before the labels came.
    """

    labelled: Labelled
    first: Entry
    latest: Entry

    @property
    def error(self) -> float:
        """First estimate minus true accuracy; positive if the estimate was too high."""
        return self.first.accuracy - self.labelled.accuracy

    @property
    def covered(self) -> bool:
        """Whether the first interval holds the true accuracy, given the labels' sampling error.

        Examples
        --------
        >>> entry = Entry("d", "0", 100, 0.8, 0.75, 0.85, 0.9, 1.5, 0.7, "trust", (), {})
        >>> exact, sampled = (Labelled("d", 1, 100, 0.72, error, 0.1, 0.1) for error in (0.0, 0.06))
        >>> Scored(exact, entry, entry).covered, Scored(sampled, entry, entry).covered
        (False, True)
        """
        chance = DEVIATIONS * self.labelled.deviation
        below = np.hypot(self.first.accuracy - self.first.low, chance)
        above = np.hypot(self.first.high - self.first.accuracy, chance)
        return bool(-above <= self.error <= below)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        labelled = self.labelled._asdict()
        facts = {"snapshot": labelled.pop("name"), "when": self.first.when} | labelled
        for name, entry in (("first", self.first), ("latest", self.latest)):
            keys = ("accuracy", "low", "high", "verdict")
            facts[name] = {key: getattr(entry, key) for key in keys}
        return facts | {"covered": self.covered, "error": self.error}


def track_record(content: Content) -> list[Scored]:
    """Return every snapshot of a log whose labels are known, in the order of the snapshots."""
    labelled = {row.name: row for row in content.labelled}
    # A labelled snapshot is never answered again, so the newest answer came before its labels.
    pairs = zip(content.first, content.answers, strict=True)
    return [Scored(labelled[a.name], a, b) for a, b in pairs if a.name in labelled]


def summary(record: Sequence[Scored]) -> str:
    """Return a sentence on how earlier answers turned out; empty without labels.

    Examples
    --------
    >>> entry = Entry("d", "0", 100, 0.8, 0.75, 0.85, 0.9, 1.5, 0.7, "trust", (), {})
    >>> summary([Scored(Labelled("d", 1, 100, 0.78, 0.0, 0.1, 0.1), entry, entry)])
    'Of 1 earlier snapshot with labels, 1 had its true accuracy inside the interval; estimates \
were off by 2.0 points on average, 2.0 too high.'
    """
    if not record:
        return ""
    count, held = len(record), sum(item.covered for item in record)
    bias = 100.0 * float(np.mean([item.error for item in record]))
    off = 100.0 * float(np.mean([abs(item.error) for item in record]))
    snapshots, their = ("snapshot", "its") if count == 1 else ("snapshots", "their")
    direction = "high" if bias >= 0.0 else "low"
    text = (
        f"Of {count} earlier {snapshots} with labels, {held} had {their} true accuracy inside the "
        f"interval; estimates were off by {off:.1f} points on average, {abs(bias):.1f} too "
        f"{direction}."
    )
    if too_narrow(record):
        text += " That is fewer than 90 % intervals should hold: they are too narrow here."
    return text


def too_narrow(record: Sequence[Scored]) -> bool:
    """Return whether so few intervals hold that 90 % intervals would do so in 5 % of records."""
    held = sum(item.covered for item in record)
    return bool(record) and float(bdtr(held, len(record), _LEVEL)) < _UNLIKELY


def chosen_logits(
    parts: LogitParts, labels: Mapping[int, int | None]
) -> tuple[NDArray[np.int64], FloatArray, int]:
    """Return the labelled nodes of logits, their rows, and the number of nodes."""
    names, rows, start = [np.empty(0, np.int64)], [np.empty((0, parts.num_classes))], 0
    for part in range(len(parts)):
        for nodes, logits in parts.batches(part):
            numbers = np.arange(start, start + len(logits)) if nodes is None else nodes
            numbers = np.asarray(numbers, dtype=np.int64)
            chosen = np.isin(numbers, list(labels))
            names.append(numbers[chosen])
            rows.append(np.asarray(logits, dtype=np.float64)[chosen])
            start += len(logits)
    found = np.concatenate(names)
    return found, np.concatenate(rows), max([start, *(found + 1)])


def score(
    logits: FloatArray, labels: Labels, entry: Entry, source_temperature: float, revision: int
) -> Labelled:
    """Return what labels show about an answer to the same nodes."""
    count = labels.classes.size
    if count < FEWEST_NODES:
        raise errors.too_few(
            f"there are labels of {count} nodes of {entry.name}; at least {FEWEST_NODES} are "
            "needed to score an answer."
        )
    right = logits.argmax(axis=1) == labels.classes
    accuracy = float(right.mean())
    smoothed = (accuracy * count + 0.5) / (count + 1.0)
    unlabelled = max(entry.num_nodes - count, 0) / max(entry.num_nodes - 1, 1)
    deviation = float(np.sqrt(smoothed * (1.0 - smoothed) / count * unlabelled))
    before, after = (
        float(metrics.ece(temperatures.apply(logits, value), labels.classes))
        for value in (source_temperature, entry.temperature)
    )
    realised = _realised(temperatures.apply(logits, entry.temperature), labels, entry)
    return Labelled(entry.name, revision, int(count), accuracy, deviation, before, after, realised)


def _realised(p: FloatArray, labels: Labels, entry: Entry) -> dict[str, float] | None:
    """Return the metrics that were estimated, as the labelled nodes have them.

    A review and costs of all nodes are left out unless all nodes are labelled.
    """
    if not entry.asked:
        return None
    whole = labels.classes.size == entry.num_nodes
    asked = {
        name: value
        for name, value in entry.asked.items()
        if whole or name in ("positive", "threshold")
    }
    found = metrics.decisions(p, labels.classes, **asked)
    return {name: value for name, value in found.items() if value is not None}
