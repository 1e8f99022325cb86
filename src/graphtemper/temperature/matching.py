"""The temperature that matches an accuracy, or the nearest one that is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from graphtemper._core.arrays import FloatArray
from graphtemper.temperature import scaling
from graphtemper.temperature.inverse import smallest_contribution, summarise


def nearest_temperature(logits: FloatArray, accuracy: float) -> tuple[float, str]:
    """Return the temperature that matches the accuracy, or the nearest defined one and why.

    Mean confidence runs from 1/K (T -> infinity) to 1 (T -> 0; less where top logits tie). For an
    accuracy at or beyond an end the answer is a bound (`temperature.RELATIVE_BOUNDS` times the
    largest spread, or the smallest gap) where every node's probabilities are uniform, or one-hot,
    to six digits. Where all logits are equal no T changes anything, and T is 1.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[0.0, 2.0], [0.0, -4.0]])
    >>> nearest_temperature(z, 0.9)[1]
    ''
    >>> nearest_temperature(z, 0.5)[1]
    'accuracy 0.5 is not above 1/K = 0.5, so T is its upper bound'
    """
    return nearest_defined(
        accuracy,
        logits.shape[1],
        summarise(logits, None),
        smallest=lambda: smallest_contribution(logits),
        match=lambda: scaling.match_confidence(logits, accuracy),
    )


class _Ends(Protocol):
    """What logits allow: a typical and the largest spread, and mean confidence as T -> 0."""

    @property
    def spread(self) -> float: ...
    @property
    def largest_spread(self) -> float: ...
    @property
    def confidence_limit(self) -> float: ...


def nearest_defined(
    accuracy: float,
    num_classes: int,
    ends: _Ends,
    *,
    smallest: Callable[[], float],
    match: Callable[[], float],
) -> tuple[float, str]:
    """Decide for `nearest_temperature`, wherever the logits are; see there.

    ``smallest`` and ``match`` read all logits, so they are called only where they are needed.
    """
    chance = 1.0 / num_classes
    if ends.spread == 0.0:
        return 1.0, "every node's logits are all equal, so T = 1"
    if accuracy <= chance:
        upper = scaling.RELATIVE_BOUNDS[1] * ends.largest_spread
        return upper, f"accuracy {accuracy:.4g} is not above 1/K = {chance:.4g}, " + (
            "so T is its upper bound"
        )
    if accuracy >= ends.confidence_limit:
        lower = scaling.RELATIVE_BOUNDS[0] * smallest()
        return lower, f"no temperature gives a mean confidence of {accuracy:.4g}, " + (
            "so T is its lower bound"
        )
    return match(), ""
