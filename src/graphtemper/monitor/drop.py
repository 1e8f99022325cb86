r"""Drops: snapshots on which the accuracy has certainly fallen below a limit.

The answer to a snapshot is an accuracy with a 90 % interval. A watch gives many answers, so some
intervals miss the truth. The n-th answer of a log is therefore read at a level of its own,

.. math:: \alpha_n = \frac{0.8 \alpha}{n (n + 1)}, \qquad \sum_{n \ge 1} \alpha_n = 0.8 \alpha,

with the upper bound, in log-odds,

.. math:: u_n = \hat a_n + \frac{z_{1 - \alpha_n}}{z_{0.925}} (\mathrm{high}_n - \hat a_n).

The rest is for late labels: the n-th set of them has a bound at the level
:math:`0.2 \alpha / (n (n + 1))`, with the sampling error of an accuracy counted on its nodes as
interval. A snapshot is a drop
if a bound of one of its answers or of its labels is below a limit: the accuracy at the source, or
that of a gate. By the union bound, the probability that the log ever calls a
snapshot a drop whose true accuracy is not below the limit is at most :math:`\alpha`, however long
the log runs. This holds *however the snapshots depend on each other*, because a union bound needs
no independence, and for any number of limits, because a false drop below any of them means
:math:`u_n < a_n`.

It assumes that the half-width of an interval is at least 1.44 standard deviations of its error,
which is less than the 1.645 of a 90 % interval (intervals that cover 85 %), and that the tails of
the error beyond the interval are those of a normal distribution. An estimate that is wrong for all
snapshots in the same way can break this; late labels show it (`graphtemper.monitor.Scored`).

The price of testing for ever is small: the bound is 1.4 half-widths from the estimate at the first
answer, 2.6 at the twentieth and 3.7 at the thousandth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from graphtemper._core.estimate import DEVIATIONS
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.monitor.change import check_rate
from graphtemper.monitor.log import Entry, Labelled
from graphtemper.recalibration.gates import Gate

SOURCE = "source"
"""Name of the limit that is the accuracy at the source."""
# Standard deviations in the half-width of an interval that covers 85 % of the truths.
_HALF_WIDTH = NormalDist().inv_cdf(0.925)
# Shares of the rate.
_ANSWERS, _LABELS = 0.8, 0.2


class Drop(NamedTuple):
    """A snapshot whose accuracy is certainly below a limit, at the stated error rate.

    Attributes
    ----------
    position
        Of the snapshot in the log.
    below
        The limit: ``"source"``, or the text of a gate.
    limit, bound
        The value of the limit, and the upper bound of the accuracy, which is lower.
    begins
        Whether the snapshot before it was not below this limit. For a drop that is not late, by
        first answers alone, so that an alarm which was raised once stays.
    late
        Whether only an answer that was given again, or late labels, show it.
    """

    position: int
    below: str
    limit: float
    bound: float
    begins: bool
    late: bool = False


def limits_of(source: float, gates: Iterable[Gate] = ()) -> dict[str, float]:
    """Return the limits of a watch: the source's accuracy, and gates that close below a number.

    Examples
    --------
    >>> limits_of(0.94, [Gate.parse("accuracy<0.8"), Gate.parse("abstain")])
    {'source': 0.94, 'accuracy<0.8': 0.8}
    """
    return {SOURCE: source} | {gate.text: gate.limit for gate in gates if gate.is_about_accuracy}


def upper_bound(accuracy: float, high: float, number: int, rate: float) -> float:
    r"""Return the upper bound :math:`u_n` of an accuracy from its 90 % interval.

    ``rate`` is the sum of all levels.

    Examples
    --------
    >>> [round(upper_bound(0.8, 0.87, number, 0.04), 2) for number in (1, 20, 1000)]
    [0.89, 0.94, 0.96]
    """
    value = log_odds(accuracy)
    quantile = -NormalDist().inv_cdf(rate / (number * (number + 1)))
    return to_share(value + quantile / _HALF_WIDTH * (log_odds(high) - value))


def drops(
    history: Sequence[Entry],
    limits: Mapping[str, float],
    false_drops: float = 0.05,
    labelled: Sequence[Labelled] = (),
    order: Sequence[str] = (),
) -> list[Drop]:
    """Return the snapshots of which an answer or labels show a drop, oldest first.

    Parameters
    ----------
    history
        All answers in the order in which they were given , so that answers given again
        count as well.
    limits
        Accuracies by name, as from `limits_of`.
    false_drops
        Upper bound on the probability that the log ever holds a false drop.
    labelled
        Late labels in the order in which they came.
    order
        Names of snapshots in the order of time. Default: that of their first answers.

    Examples
    --------
    >>> from dataclasses import replace
    >>> entry = Entry("1", "0", 10, 0.93, 0.9, 0.95, 0.9, 1.5, 0.7, "trust", (), {})
    >>> fallen = replace(entry, name="2", accuracy=0.8, low=0.74, high=0.85)
    >>> drops([entry, fallen, replace(fallen, name="3")], {"source": 0.94})[0]
    Drop(position=1, below='source', limit=0.94, bound=0.87..., begins=True, late=False)
    """
    rate = check_rate(false_drops, "false_drops")
    first: dict[str, float] = {}
    bounds: dict[str, float] = {}
    for number, entry in enumerate(history, start=1):
        # A snapshot that is answered again keeps its place, and what was certain stays so.
        bound = upper_bound(entry.accuracy, entry.high, number, _ANSWERS * rate)
        first.setdefault(entry.name, bound)
        bounds[entry.name] = min(bound, bounds.get(entry.name, bound))
    for number, labels in enumerate(labelled, start=1):
        bound = upper_bound(labels.accuracy, _high(labels), number, _LABELS * rate)
        bounds[labels.name] = min(bound, bounds.get(labels.name, bound))
    bounds = {name: bounds[name] for name in dict.fromkeys([*order, *bounds]) if name in bounds}
    found: list[Drop] = []
    for below, limit in limits.items():
        # Bounds are clipped as log-odds are, so the limit is too: 99.8 % is no drop from 100 %.
        least = log_odds(limit) - 1e-9
        before = at_once_before = False
        for position, (name, bound) in enumerate(bounds.items()):
            fallen, at_once = log_odds(bound) < least, log_odds(first.get(name, 1.0)) < least
            if fallen:
                begins = not (at_once_before if at_once else before)
                found.append(Drop(position, below, limit, bound, begins, not at_once))
            before, at_once_before = fallen, at_once
    return sorted(found)


def _high(labels: Labelled) -> float:
    """Return the upper end of the 90 % interval of an accuracy that was counted on labels."""
    right = labels.accuracy * labels.num_labels + 0.5
    wrong = labels.num_labels + 1.0 - right
    return to_share(log_odds(labels.accuracy) + DEVIATIONS * (1.0 / right + 1.0 / wrong) ** 0.5)
