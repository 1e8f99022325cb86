"""Log-odds of a fraction and their inverse, and quantiles of a normal on that scale."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

# Fractions are clipped to this range; a finite sample does not distinguish values beyond it.
RANGE = (0.005, 0.995)


def log_odds(fraction: float | None) -> float:
    """Return log(a / (1 - a)) of a fraction clipped to `RANGE`; None counts as 1/2.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    value = float(np.clip(0.5 if fraction is None else fraction, *RANGE))
    return float(np.log(value / (1.0 - value)))


def to_share(log_odds: float) -> float:
    """Return the fraction with these log-odds.

    Examples
    --------
    >>> to_share(0.0)
    0.5
    """
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def normal_quantile(level: float) -> float:
    """Return the half-width, in standard deviations, of a central interval of a normal."""
    return float(ndtri(0.5 + 0.5 * level))
