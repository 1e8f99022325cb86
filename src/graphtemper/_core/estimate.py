"""An estimated accuracy with an interval: the result of every estimator and recalibration."""

from __future__ import annotations

from dataclasses import dataclass

# Two-sided 90 %: the level of every interval in the package.
DEVIATIONS = 1.6448536269514722


@dataclass(frozen=True)
class Estimate:
    """An accuracy with an interval.

    For an estimator, ``low`` and ``high`` reflect sampling error only (90 %): how much the estimate
    would vary with other nodes of the same graph. They exclude the method's error about a shift.

    Examples
    --------
    >>> Estimate(0.8, 0.7, 0.9, "ATC").value
    0.8
    >>> float(Estimate(0.8, 0.7, 0.9, "ATC"))
    0.8
    """

    value: float
    low: float
    high: float
    method: str

    def __float__(self) -> float:
        return self.value
