"""An estimated accuracy with an interval and a density: the result of estimators and answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds, to_share

# Two-sided 90 %: the level of every interval in the package.
DEVIATIONS = 1.6448536269514722
TAILS = 4.0
"""Degrees of freedom of a density."""
# The 95 % quantile of a Student t with 4 degrees of freedom and scale 1.
_T_QUANTILE = 2.1318467863266495
_T_CONSTANT = float(np.log(3.0 / 8.0))
# Log-odds beyond this are an accuracy of 0 or 1 in float64.
_FAR = 40.0
# Grid points at the density's own scale, and points between the ends.
_OWN, _EVEN = 81, 81


@dataclass(frozen=True)
class Estimate:
    """An accuracy with an interval, and its density.

    For an estimator, ``low`` and ``high`` reflect sampling error only (90 %): how much the estimate
    would vary with other nodes of the same graph. They exclude the method's error about a shift.

    The density is that of the log-odds: a Student t with 4 degrees of freedom around ``centre``,
    with the 90 % interval that a normal with that ``deviation`` has. Its tails are longer than a
    normal's, so that labels that contradict it soon outweigh it.

    Examples
    --------
    >>> Estimate(0.8, 0.7, 0.9, "ATC").value
    0.8
    >>> float(Estimate(0.8, 0.7, 0.9, "ATC"))
    0.8
    >>> Estimate.of_log_odds(0.0, 0.3, "atlas").value
    0.5
    """

    value: float
    low: float
    high: float
    method: str
    log_odds: tuple[float, float] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of_log_odds(cls, centre: float, deviation: float, method: str) -> Estimate:
        """Return the accuracy whose log-odds have a centre and a deviation."""
        reach = DEVIATIONS * deviation
        low, value, high = (to_share(centre + step) for step in (-reach, 0.0, reach))
        return cls(value, low, high, method, (centre, deviation))

    def __float__(self) -> float:
        return self.value

    @property
    def centre(self) -> float:
        """Log-odds of the accuracy."""
        return log_odds(self.value) if self.log_odds is None else self.log_odds[0]

    @property
    def deviation(self) -> float:
        """Deviation of the log-odds, for which the 90 % interval is that of a normal."""
        if self.log_odds is not None:
            return self.log_odds[1]
        return (log_odds(self.high) - log_odds(self.low)) / (2.0 * DEVIATIONS)

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return 0.5 * (self.high - self.low)

    def log_density(self, log_odds: FloatArray) -> FloatArray:
        """Return the logarithm of the density of the log-odds."""
        scale = self.deviation * DEVIATIONS / _T_QUANTILE
        square = ((log_odds - self.centre) / scale) ** 2
        return np.asarray(
            _T_CONSTANT - np.log(scale) - 0.5 * (TAILS + 1.0) * np.log1p(square / TAILS)
        )

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Return quantiles of the log-odds.

        Examples
        --------
        >>> density = Estimate.of_log_odds(0.0, 1.0, "atlas")
        >>> density.quantiles(np.array([0.05, 0.5, 0.95])).round(3).tolist()
        [-1.645, 0.0, 1.645]
        """
        from scipy.special import stdtrit

        scale = self.deviation * DEVIATIONS / _T_QUANTILE
        return np.asarray(self.centre + scale * stdtrit(TAILS, shares))

    def grid(self) -> FloatArray:
        """Return log-odds at which to start: dense at the centre, then ever sparser."""
        steps = np.sinh(np.linspace(-5.3, 5.3, _OWN))  # to a hundred deviations
        own = self.centre + self.deviation * steps
        return np.unique(np.concatenate([own, np.linspace(-_FAR, _FAR, _EVEN)]))
