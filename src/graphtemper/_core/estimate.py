"""An estimated accuracy with an interval, the result type of every estimator and answer."""

from __future__ import annotations

from dataclasses import dataclass

# Two-sided 90 %: the level of every interval in the package.
DEVIATIONS = 1.6448536269514722


@dataclass(frozen=True)
class Estimate:
    """An accuracy with an interval.

    ``low`` and ``high`` hold sampling error only (90 %): how far the estimate would move with other
    nodes of the same graph. What the method gets wrong about a shift is not in it.

    Examples
    --------
    >>> Estimate(0.8, 0.7, 0.9, "ATC").value
    0.8
    """

    value: float
    low: float
    high: float
    method: str
