r"""A sequential test for changes of a series, with a stated false-alarm rate.

The test assumes that snapshots are exchangeable while nothing changes: their order carries no
information. Then the rank of each new value among all values so far,

.. math:: p_n = \frac{\#\{i \le n: x_i < x_n\} + U_n \#\{i \le n: x_i = x_n\}}{n},

with :math:`U_n` uniform, is uniform on [0, 1] and independent of the earlier ranks (conformal
prediction). Fair bets on the next rank being low or high have a capital :math:`M_n` that is a
martingale. By Ville's inequality it ever reaches :math:`1/\alpha` with probability at most
:math:`\alpha`, however long the series runs. With K series, each tested by its own ranks, one must
reach :math:`K/\alpha`; by the union bound the probability that any ever does is at most
:math:`\alpha`, however the series depend on each other.

Snapshots that resemble the previous one, such as a graph with a few new nodes per day, are not
exchangeable even if nothing changes: a slowly wandering value has low ranks for a while and then
high ones, and alarms are far more frequent than stated. Test only every n-th of such snapshots
(`graphtemper.monitor.alarms`), with n so large that snapshots n apart have little in common.

The bets are those of the *simple jumper*: capital is held in accounts that multiply it by
:math:`1 + \epsilon (p - 1/2)`, and a small fraction moves between accounts at each step, so that a
change in either direction and at any time is detected.

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

from graphtemper import errors
from graphtemper._core.checks import check_integer, check_number
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import stream
from graphtemper.monitor.log import Entry

# Stakes of the accounts; |stake| = 2 could lose everything at once.
STAKES = (-1.8, -0.9, 0.0, 0.9, 1.8)
# The fraction of the capital that moves between accounts at each step.
JUMP = 0.01
# Capital is capped here to avoid overflow.
_MAX_CAPITAL = 1e100


class Change(NamedTuple):
    """An alarm: the position of the snapshot, the series that raised it, and its evidence.

    ``evidence`` is the capital of that series over the number of series, at least 1 / rate.
    """

    position: int
    series: str
    evidence: float


def capital(
    values: Sequence[float | None],
    seed: int = 0,
    first: int = 0,
    groups: Sequence[int] | None = None,
) -> list[float]:
    r"""Return the capital :math:`M_n` after each value, starting from 1.

    Parameters
    ----------
    values
        The series, oldest first; finite values, or None for a gap. Nothing is staked on gaps, and
        the other values stay exchangeable.
    seed, first
        Ties are broken at random by (seed, first + position), so that the same series always
        gives the same numbers.
    groups
        Each value is ranked among those of its group only, such as estimates of one card. Ranks
        stay uniform and independent if values are exchangeable within groups.

    Examples
    --------
    >>> steady = [0.80, 0.81, 0.79, 0.82, 0.80, 0.78, 0.81, 0.80, 0.79, 0.80]
    >>> print(f"{max(capital(steady)):.1f}")
    1.0
    >>> print(f"{capital(steady * 4 + [0.7 - 0.001 * k for k in range(20)])[-1]:.0f}")
    2133
    """
    # Plain floats: arrays are slower for five accounts.
    accounts = [1.0 / len(STAKES)] * len(STAKES)
    pasts: dict[int, list[float]] = {}
    capitals: list[float] = []
    draws = stream(seed, "monitor").random(first + len(values))[first:].tolist()
    for position, (value, draw) in enumerate(zip(values, draws, strict=True)):
        if value is None:
            capitals.append(sum(accounts))
            continue
        if not math.isfinite(value):
            raise errors.not_finite(
                f"value {position} of the series is {value}; it must be finite."
            )
        past = pasts.setdefault(0 if groups is None else groups[position], [])
        insort(past, value)
        below, upto = bisect_left(past, value), bisect_right(past, value)
        rank = (below + draw * (upto - below)) / len(past)
        moving = JUMP * sum(accounts) / len(accounts)
        accounts = [
            min(((1.0 - JUMP) * held + moving) * (1.0 + stake * (rank - 0.5)), _MAX_CAPITAL)
            for held, stake in zip(accounts, STAKES, strict=True)
        ]
        capitals.append(sum(accounts))
    return capitals


def changes(
    series: Mapping[str, Sequence[float | None]],
    false_alarms: float = 0.01,
    seed: int = 0,
    groups: Mapping[str, Sequence[int]] | None = None,
) -> list[Change]:
    """Return the alarms over several series of equal length; the test restarts after each.

    Parameters
    ----------
    series
        Values of each quantity, oldest first; None for gaps.
    false_alarms
        Upper bound on the probability that a test over an unchanging series ever raises an alarm.
        It holds if values are exchangeable while nothing changes.
    seed
        Seed for breaking ties.
    groups
        Groups of a series' values, by its name; see `capital`.

    Examples
    --------
    >>> steady, fallen = [0.90, 0.91, 0.89, 0.92] * 10, [0.80, 0.81, 0.79, 0.82] * 10
    >>> alarms = changes({"accuracy": steady + fallen, "spread": [1.0, 2.0] * 40})
    >>> [(alarm.series, 40 < alarm.position < 70) for alarm in alarms]
    [('accuracy', True)]
    """
    groups = groups or {}
    rate = check_rate(false_alarms, "false_alarms")
    lengths = {len(values) for values in series.values()}
    if len(lengths) > 1:
        raise errors.shape("all series must have the same length, one value per snapshot.")
    length = lengths.pop() if lengths else 0
    alarms: list[Change] = []
    start = 0
    while start < length:
        capitals = {
            name: capital(
                values[start:], seed, start, groups[name][start:] if name in groups else None
            )
            for name, values in series.items()
        }
        evidence = np.max(list(capitals.values()), axis=0) / len(capitals)
        exceeding = np.flatnonzero(evidence >= 1.0 / rate)
        if not exceeding.size:
            break
        step = int(exceeding[0])
        loudest = max(capitals, key=lambda name: capitals[name][step])
        alarms.append(Change(start + step, loudest, float(evidence[step])))
        start += step + 1
    return alarms


def alarms(
    entries: Sequence[Entry], false_alarms: float = 0.01, seed: int = 0, every: int = 1
) -> list[Change]:
    """Return where the estimated accuracy or a signal has changed; see `changes`.

    Estimates of a card that has learned from late labels are compared only with each other.

    The signals of the first snapshot are tested to the end, so that the number of series, which
    share the stated rate, never changes. A snapshot that lacks one of them leaves its series as it
    was.

    Parameters
    ----------
    entries
        The first answers of the log, oldest first. Answers that were given again
        would change the series after it was tested, and with it past alarms and the stated rate.
    false_alarms, seed
        See `changes`. The rate holds if snapshots are exchangeable while nothing changes.
    every
        Test only every n-th snapshot, from the first on, if each resembles the previous one.
        Positions still refer to the log.

    Examples
    --------
    >>> from dataclasses import replace
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> falling = [replace(entry, accuracy=0.9 - 0.001 * day) for day in range(200)]
    >>> [change.position % 5 for change in alarms(falling, every=5)][:2]
    [0, 0]
    """
    check_integer(every, "every", 1)
    if not entries:
        return []
    tested = entries[::every]
    names = sorted(entries[0].signals.keys() - {"accuracy"})
    series: dict[str, list[float | None]] = {
        "accuracy": [log_odds(entry.accuracy) for entry in tested]
    }
    series |= {name: [entry.signals.get(name) for entry in tested] for name in names}
    revisions = {"accuracy": [entry.revision for entry in tested]}
    tested_changes = changes(series, false_alarms, seed, revisions)
    return [change._replace(position=change.position * every) for change in tested_changes]


def check_rate(value: float, name: str) -> float:
    """Return the probability of a false alarm, a number between 0 and 1."""
    rate = check_number(value, name)
    if not 0.0 < rate < 1.0:
        raise errors.range(f"{name} must lie between 0 and 1, not {rate}.")
    return rate
