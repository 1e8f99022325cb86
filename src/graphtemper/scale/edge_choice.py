"""Edges that are left out of a pass, drawn the same wherever an end of the edge is stored.

An edge lies in the shards of both of its ends, so its draw cannot come from a shard's stream. It is
a hash of (key, lower end, higher end), where the key is drawn from (seed, stage, pass): the same
for any number of shards and workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.random_streams import stream

Nodes = NDArray[np.integer[Any]]
# The constants of the splitmix64 finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom
# number generators", 2014).
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True)
class EdgeChoice:
    """A random share of the edges is left out; `kept` says which ones stay.

    Examples
    --------
    >>> choice = EdgeChoice.draw(seed=0, stage="held-out edges", number=0, share=0.3)
    >>> ends = np.arange(100_000)
    >>> bool(abs(choice.kept(ends, ends + 7).mean() - 0.7) < 0.01)
    True
    >>> bool((choice.kept(ends, ends + 7) == choice.kept(ends + 7, ends)).all())
    True
    """

    key: int
    share: float

    @classmethod
    def draw(cls, seed: int, stage: str, number: int, share: float) -> EdgeChoice:
        """Return the choice of one pass of a stage."""
        return cls(int(stream(seed, stage, number).integers(2**63)), share)

    def kept(self, first: Nodes, second: Nodes) -> NDArray[np.bool_]:
        """Return whether each edge stays, given its two ends in either order."""
        low = np.minimum(first, second).astype(np.uint64)
        high = np.maximum(first, second).astype(np.uint64)
        with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is what is meant
            mixed = _mix(_mix(low + np.uint64(self.key)) + high * _GOLDEN)
        uniform = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray(uniform >= self.share)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
