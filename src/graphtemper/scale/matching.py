"""The temperature that matches an accuracy, found by passes over shards of logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import exp, log
from typing import NamedTuple

from graphtemper._core.arrays import FloatArray
from graphtemper.scale.engine import Engine
from graphtemper.temperature.inverse import (
    LOG_LIMIT,
    Derivatives,
    confidence_derivatives,
    find_root,
    smallest_contribution,
    summarise,
)
from graphtemper.temperature.matching import nearest_defined

ReadLogits = Callable[[int], Iterable[FloatArray]]
"""From the number of a shard to its logits, (n, K) pieces divided by the source temperature."""
# Of log T: far below what any accuracy is known to, and one pass less than to the last digit.
_TOLERANCE = 1e-10


class Ends(NamedTuple):
    """What some logits allow: nodes, largest typical spread, largest spread, confidence at T = 0.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]])
    >>> (Ends.of(one) + Ends.of(other)).confidence_limit
    0.75
    """

    nodes: int
    spread: float
    largest_spread: float
    confidence_limit: float

    @classmethod
    def of(cls, logits: FloatArray) -> Ends:
        """Summarise a shard."""
        found = summarise(logits, None)
        return cls(len(logits), found.spread, found.largest_spread, found.confidence_limit)

    def __add__(self, other: object) -> Ends:  # in place of joining tuples
        if not isinstance(other, Ends):
            return NotImplemented
        nodes = self.nodes + other.nodes
        limit = self.nodes * self.confidence_limit + other.nodes * other.confidence_limit
        return Ends(
            nodes,
            max(self.spread, other.spread),
            max(self.largest_spread, other.largest_spread),
            limit / nodes,
        )


def smallest_gap(engine: Engine, shards: int, read: ReadLogits) -> float:
    """Return the smallest positive distance of a logit from the top, over K, of all shards."""
    return min(engine.map(partial(_smallest, read=read), range(shards)))


def match_confidence(
    engine: Engine, shards: int, read: ReadLogits, accuracy: float, ends: Ends
) -> float:
    """Return the temperature at which mean confidence is ``accuracy``: a pass over shards a step.

    The same root finder as in memory; the accuracy must be within reach (see `nearest_defined`).

    Examples
    --------
    >>> import numpy as np
    >>> from graphtemper import temperature
    >>> from graphtemper.scale.engine import Serial
    >>> z = np.random.default_rng(0).standard_normal((300, 3))
    >>> found = match_confidence(Serial(), 3, lambda s: [z[100 * s :][:100]], 0.6, Ends.of(z))
    >>> bool(abs(found / temperature.match_confidence(z, 0.6) - 1) < 1e-8)
    True
    """

    def residual(log_beta: float) -> Derivatives:
        parts = engine.map(partial(_confidence, read=read, beta=exp(log_beta)), range(shards))
        value, slope, bend = (sum(column) / ends.nodes for column in zip(*parts, strict=True))
        return Derivatives(value - accuracy, slope, bend)

    bounds = (-LOG_LIMIT, LOG_LIMIT)
    return exp(-find_root(residual, -log(ends.spread), bounds, _TOLERANCE)[0])


def nearest_temperature(
    engine: Engine, shards: int, read: ReadLogits, num_classes: int, accuracy: float, ends: Ends
) -> tuple[float, str]:
    """`graphtemper.temperature.matching.nearest_temperature`, from shards of logits."""
    return nearest_defined(
        accuracy,
        num_classes,
        ends,
        smallest=lambda: smallest_gap(engine, shards, read),
        match=lambda: match_confidence(engine, shards, read, accuracy, ends),
    )


def _smallest(shard: int, *, read: ReadLogits) -> float:
    return min(smallest_contribution(logits) for logits in read(shard))


def _confidence(shard: int, *, read: ReadLogits, beta: float) -> tuple[float, float, float]:
    value = slope = bend = 0.0
    for logits in read(shard):
        found, count = confidence_derivatives(logits, beta), len(logits)
        value, slope, bend = (
            value + found.value * count,
            slope + found.slope * count,
            bend + found.bend * count,
        )
    return value, slope, bend
