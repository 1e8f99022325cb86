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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr

from graphtemper import errors, metrics
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import DEVIATIONS
from graphtemper.card.environments import FEWEST_NODES
from graphtemper.monitor.log import Content, Entry, Labelled
from graphtemper.recalibration.labels.few_labels import Labels

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
    return [
        Scored(labelled[name], first, content.answers[name])
        for name, first in content.first.items()
        if name in labelled
    ]


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
    # Intervals of 90 % would have so few only in 5 % of all records.
    if float(bdtr(held, count, _LEVEL)) < _UNLIKELY:
        text += " That is fewer than 90 % intervals should hold: they are too narrow here."
    return text


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
    realised = None
    if entry.asked:
        # A review and costs are of all nodes.
        known = entry.asked if count == entry.num_nodes else ("positive", "threshold")
        asked = {name: value for name, value in entry.asked.items() if name in known}
        p = temperatures.apply(logits, entry.temperature)
        found = metrics.decisions(p, labels.classes, **asked)
        realised = {name: value for name, value in found.items() if value is not None}
    return Labelled(entry.name, revision, int(count), accuracy, deviation, before, after, realised)
