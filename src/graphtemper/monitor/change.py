r"""Has the series changed? A sequential test with a stated false-alarm rate.

The condition: while nothing changes, the order of the snapshots says nothing. They are
exchangeable, as if each were drawn anew. Then the rank of each new value among all values so far,

.. math:: p_n = \frac{\#\{i \le n: x_i < x_n\} + U_n \#\{i \le n: x_i = x_n\}}{n},

with :math:`U_n` uniform, is uniform on [0, 1] and independent of the earlier ranks (conformal
prediction). A gambler who bets on the next rank being low or high and loses nothing on average
has a capital :math:`M_n` that is a martingale, and by Ville's inequality it ever reaches
:math:`1/\alpha` with probability at most :math:`\alpha`, however long the series runs. Of K series,
each of which is watched by its own ranks, one must reach :math:`K/\alpha`; the probability that any
ever does is at most the sum of K times :math:`\alpha/K`, however the series depend on each other.

Snapshots that are much like the one before, such as one graph of which a few nodes are new each
day, are not exchangeable even where nothing changes: a value that wanders slowly has low ranks for
a while and then high ones, and alarms come far more often than stated. Test only every n-th of
those (`graphtemper.monitor.alarms`), n so large that snapshots n apart have little in common.

The bets are those of the *simple jumper*: capital is kept in accounts that multiply it by
:math:`1 + \epsilon (p - 1/2)`, and a small share moves between accounts at each step, so that a
change in any direction and at any time is found.

References
----------
Vovk, Petej, Nouretdinov, Ahlberg, Carlsson & Gammerman, "Retrain or not retrain: conformal test
martingales for change-point detection", COPA 2021.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from graphtemper._core.checks import check_number
from graphtemper._core.random_streams import stream
from graphtemper.errors import InputError

# Stakes of the accounts; |stake| = 2 could lose everything at once.
STAKES = (-1.8, -0.9, 0.0, 0.9, 1.8)
# The share of the capital that changes accounts at each step.
JUMP = 0.01
# Beyond this a capital is only an overflow.
_MOST = 1e100


class Change(NamedTuple):
    """An alarm: the snapshot's position, the series that raised it, and how strongly.

    ``evidence`` is the capital of that series over the number of series; at least 1 / rate.
    """

    position: int
    series: str
    evidence: float


def capital(values: Sequence[float | None], seed: int = 0, first: int = 0) -> list[float]:
    r"""Return the capital :math:`M_n` after each value, starting from 1.

    Parameters
    ----------
    values
        The series, oldest first; finite, or None where there is no value. Nothing is staked on
        those: while nothing changes, values are exchangeable wherever the gaps are.
    seed, first
        Ties are broken at random from (seed, first + position), so that a series which is read
        again gives the same numbers.

    Examples
    --------
    >>> steady = [0.80, 0.81, 0.79, 0.82, 0.80, 0.78, 0.81, 0.80, 0.79, 0.80]
    >>> max(capital(steady)) < 5
    True
    >>> capital(steady * 4 + [0.7 - 0.001 * k for k in range(20)])[-1] > 1000
    True
    """
    # Plain numbers: five accounts are too few for arrays to be worth their while.
    accounts = [1.0 / len(STAKES)] * len(STAKES)
    past: list[float] = []
    found: list[float] = []
    lucks = stream(seed, "monitor").random(first + len(values))[first:].tolist()
    for position, (value, luck) in enumerate(zip(values, lucks, strict=True)):
        if value is None:
            found.append(sum(accounts))
            continue
        if not math.isfinite(value):
            raise InputError(f"value {position} of the series is {value}; it must be finite.")
        insort(past, value)
        below, upto = bisect_left(past, value), bisect_right(past, value)
        rank = (below + luck * (upto - below)) / len(past)
        moved = JUMP * sum(accounts) / len(accounts)
        accounts = [
            min(((1.0 - JUMP) * held + moved) * (1.0 + stake * (rank - 0.5)), _MOST)
            for held, stake in zip(accounts, STAKES, strict=True)
        ]
        found.append(sum(accounts))
    return found


def changes(
    series: Mapping[str, Sequence[float | None]], false_alarms: float = 0.01, seed: int = 0
) -> list[Change]:
    """Return the alarms over several series of equal length; after each the watch starts anew.

    Parameters
    ----------
    series
        Values of each quantity, oldest first; None where one has none.
    false_alarms
        The probability that a watch over an unchanging series ever raises an alarm, at most. It
        holds where the order of the values says nothing as long as nothing changes.
    seed
        Breaks ties.

    Examples
    --------
    >>> steady, fallen = [0.90, 0.91, 0.89, 0.92] * 10, [0.80, 0.81, 0.79, 0.82] * 10
    >>> found = changes({"accuracy": steady + fallen, "spread": [1.0, 2.0] * 40})
    >>> [(change.series, 40 < change.position < 70) for change in found]
    [('accuracy', True)]
    """
    rate = check_number(false_alarms, "false_alarms")
    if not 0.0 < rate < 1.0:
        raise InputError(f"false_alarms must lie between 0 and 1, not {rate}.")
    lengths = {len(values) for values in series.values()}
    if len(lengths) > 1:
        raise InputError("all series must have the same length, a value for each snapshot.")
    length = lengths.pop() if lengths else 0
    found: list[Change] = []
    start = 0
    while start < length:
        each = {name: capital(values[start:], seed, start) for name, values in series.items()}
        share = np.max(list(each.values()), axis=0) / len(each)
        over = np.flatnonzero(share >= 1.0 / rate)
        if not over.size:
            break
        step = int(over[0])
        loudest = max(each, key=lambda name: each[name][step])
        found.append(Change(start + step, loudest, float(share[step])))
        start += step + 1
    return found
