"""The temperature that matches an accuracy, computed by passes over shards of logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import exp, log
from typing import NamedTuple

from graphtemper._core.arrays import FloatArray
from graphtemper._core.numerics import Derivatives, bounded_root
from graphtemper.scale.engine import Engine
from graphtemper.temperature.inverse import (
    LOG_LIMIT,
    confidence_derivatives,
    smallest_contribution,
    summarise,
)
from graphtemper.temperature.scaling import nearest_defined

ReadLogits = Callable[[int], Iterable[FloatArray]]
"""Maps a shard's number to its logits: (n, K) blocks divided by the source temperature."""
# Error of log T: far below the uncertainty of any accuracy, and one pass less than full precision.
_TOLERANCE = 1e-10


class LogitRange(NamedTuple):
    """Summary that bounds mean confidence: nodes, spreads of logits, and confidence at T = 0.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]])
    >>> (LogitRange.of(one) + LogitRange.of(other)).confidence_limit
    0.75
    """

    nodes: int
    spread: float
    largest_spread: float
    confidence_limit: float

    @classmethod
    def of(cls, logits: FloatArray) -> LogitRange:
        """Summarise logits, (n, K)."""
        summary = summarise(logits, None)
        return cls(len(logits), summary.spread, summary.largest_spread, summary.confidence_limit)

    def __add__(self, other: object) -> LogitRange:  # instead of concatenating tuples
        if not isinstance(other, LogitRange):
            return NotImplemented
        nodes = self.nodes + other.nodes
        limit = self.nodes * self.confidence_limit + other.nodes * other.confidence_limit
        return LogitRange(
            nodes,
            max(self.spread, other.spread),
            max(self.largest_spread, other.largest_spread),
            limit / nodes,
        )


def smallest_gap(engine: Engine, shards: int, read: ReadLogits) -> float:
    """Return the smallest positive gap of a logit to the top one, over K, in all shards."""
    return min(engine.map(partial(_smallest, read=read), range(shards)))


def match_confidence(
    engine: Engine, shards: int, read: ReadLogits, accuracy: float, logit_range: LogitRange
) -> float:
    """Return the temperature at which mean confidence equals ``accuracy``.

    The root finder is that of the in-memory path, with one pass over the shards per step. The
    accuracy must be attainable (see `nearest_defined`).

    Examples
    --------
    >>> import numpy as np
    >>> from graphtemper import temperature
    >>> from graphtemper.scale.engine import Serial
    >>> z = np.random.default_rng(0).standard_normal((300, 3))
    >>> blocks = lambda shard: [z[100 * shard :][:100]]
    >>> matched = match_confidence(Serial(), 3, blocks, 0.6, LogitRange.of(z))
    >>> bool(abs(matched / temperature.match_confidence(z, 0.6) - 1) < 1e-8)
    True
    """

    def residual(log_beta: float) -> Derivatives:
        parts = engine.map(partial(_confidence, read=read, beta=exp(log_beta)), range(shards))
        value, slope, bend = (
            sum(column) / logit_range.nodes for column in zip(*parts, strict=True)
        )
        return Derivatives(value - accuracy, slope, bend)

    bounds = (-LOG_LIMIT, LOG_LIMIT)
    return exp(-bounded_root(residual, -log(logit_range.spread), bounds, _TOLERANCE)[0])


def nearest_temperature(
    engine: Engine,
    shards: int,
    read: ReadLogits,
    num_classes: int,
    accuracy: float,
    logit_range: LogitRange,
) -> tuple[float, str]:
    """Return `graphtemper.temperature.scaling.nearest_temperature` of sharded logits."""
    return nearest_defined(
        accuracy,
        num_classes,
        logit_range,
        smallest=lambda: smallest_gap(engine, shards, read),
        match=lambda: match_confidence(engine, shards, read, accuracy, logit_range),
    )


def _smallest(shard: int, *, read: ReadLogits) -> float:
    return min(smallest_contribution(logits) for logits in read(shard))


def _confidence(shard: int, *, read: ReadLogits, beta: float) -> tuple[float, float, float]:
    value = slope = bend = 0.0
    for logits in read(shard):
        mean, count = confidence_derivatives(logits, beta), len(logits)
        value, slope, bend = (
            value + mean.value * count,
            slope + mean.slope * count,
            bend + mean.bend * count,
        )
    return value, slope, bend
