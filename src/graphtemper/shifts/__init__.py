"""Shifts: seeded functions ``graph -> graph`` with a strength.

A shift changes features or edges. Labels, masks and the order of the nodes never change, so node i
of ``shift(graph, seed)`` is node i of ``graph``.

=================  ==============================================================================
``noise(l)``       adds l x column std x N(0, 1) to every entry
``mask(l)``        replaces a fraction l of the entries by the column mean
``shuffle(l)``     permutes whole feature rows among a random fraction l of the nodes
``blend(l)``       (1 - l) x own features + l x those of a random node
``smooth(l)``      (1 - l) x own features + l x the neighbours' mean
``scale(l)``       multiplies the deviation from the column mean by l
``offset(l)``      adds l x column std x N(0, 1), one draw per column, to all nodes
``drop_columns``   sets a random fraction l of the columns to zero
``heterogeneous``  ``noise(l)`` on half of the nodes: random, a connected region, or low degree
``rewire(l)``      gives a fraction l of the edges a uniformly random second end
``drop(l)``        removes a fraction l of the edges
``add(l)``         adds l x E uniformly random edges
``drop_hubs(l)``   removes a fraction l of the edges, more often at nodes of high degree
``homophily(l)``   redraws a fraction abs(l) of the edges within (l > 0) or between classes
``compose``        applies one shift after the other
=================  ==============================================================================

`resample_classes` changes *which nodes are evaluated*, so it returns indices. `check` tries a shift
of your own.
"""

from __future__ import annotations

from graphtemper.shifts.base import Shift, compose
from graphtemper.shifts.checking import check
from graphtemper.shifts.features import (
    blend,
    drop_columns,
    heterogeneous,
    mask,
    noise,
    offset,
    scale,
    shuffle,
    smooth,
)
from graphtemper.shifts.nodes import resample_classes
from graphtemper.shifts.structure import add, drop, drop_hubs, homophily, rewire

__all__ = [
    "Shift",
    "add",
    "blend",
    "check",
    "compose",
    "drop",
    "drop_columns",
    "drop_hubs",
    "heterogeneous",
    "homophily",
    "mask",
    "noise",
    "offset",
    "resample_classes",
    "rewire",
    "scale",
    "shuffle",
    "smooth",
]
