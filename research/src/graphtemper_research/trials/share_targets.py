"""Targets with new class shares, of the graph as it is and of shifted graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphtemper import shifts
from graphtemper.shifts import Shift
from graphtemper_research.harness.numeric import stream
from graphtemper_research.trials.shifted_targets import title
from graphtemper_research.trials.trial import Indices

STRENGTHS = (0.5, 1.0, 1.5, 2.0)
"""Standard deviation, over classes, of the logarithm by which shares are multiplied."""
DRAWS = 6
# A target that the largest classes cannot serve without leaving fewer nodes is drawn again.
FEWEST_TARGET_NODES = 60
CONTROLS: tuple[Shift, ...] = (
    shifts.noise(0.5),
    shifts.noise(1.0),
    shifts.mask(0.5),
    shifts.rewire(0.3),
    shifts.shuffle(0.3),
    shifts.scale(0.7),
)
_TRIES = 50


@dataclass(frozen=True)
class Case:
    """A target: a shift of the graph or none, and how far class shares move."""

    shift: Shift | None
    strength: float
    draw: int

    @property
    def name(self) -> dict[str, Any]:
        """What identifies its rows."""
        return {"shift": title(self.shift), "strength": self.strength, "draw": self.draw}


CASES: tuple[Case, ...] = (
    Case(None, 0.0, 0),
    *(Case(None, strength, draw) for strength in STRENGTHS for draw in range(DRAWS)),
    *(Case(control, strength, 0) for control in CONTROLS for strength in (0.0, 1.0)),
)


def resampled(labels: Indices, nodes: Indices, strength: float, seed: int) -> Indices:
    r"""Return some of the nodes, with class shares proportional to :math:`s_k e^{\lambda g_k}`.

    The :math:`g_k` are standard normal numbers. Without a strength, a random two thirds of them.

    Examples
    --------
    >>> labels = np.arange(600) % 3
    >>> nodes = resampled(labels, np.arange(600), 1.0, 4)
    >>> bool(np.ptp(np.bincount(labels[nodes]) / nodes.size) > 0.1)
    True
    """
    rng = stream(seed, "class shares")
    if strength == 0.0:
        return np.sort(rng.permutation(nodes)[: max(2 * nodes.size // 3, 1)])
    counts = np.bincount(labels[nodes], minlength=int(labels.max()) + 1)
    least = min(FEWEST_TARGET_NODES, nodes.size // 4)
    for _ in range(_TRIES):
        shares = counts * np.exp(strength * rng.standard_normal(counts.size))
        chosen = shifts.resample_classes(labels, nodes, shares, int(rng.integers(2**31)))
        if chosen.size >= least:
            break
    return chosen
