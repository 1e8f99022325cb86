"""Log-odds of a fraction and their inverse, and quantiles of a normal on that scale."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

# Log-odds are taken of accuracies inside this range; beyond, a finite sample says nothing more.
RANGE = (0.005, 0.995)


def log_odds(share: float | None) -> float:
    """Return log(a / (1 - a)) of a share, kept finite; a share that is missing counts as 1/2.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    value = float(np.clip(0.5 if share is None else share, *RANGE))
    return float(np.log(value / (1.0 - value)))


def to_share(log_odds: float) -> float:
    """Return the share with these log-odds.

    Examples
    --------
    >>> to_share(0.0)
    0.5
    """
    return float(1.0 / (1.0 + np.exp(-log_odds)))


def normal_quantile(level: float) -> float:
    """Return the half-width, in standard deviations, of a central interval of a normal."""
    return float(ndtri(0.5 + 0.5 * level))
