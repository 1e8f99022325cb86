"""Shifts: seeded functions ``graph -> graph`` with a strength.

A shift changes features or edges. Labels, masks and the order of the nodes never change, so
``shift(graph, seed)`` stands beside ``graph`` node by node.

=================  ==============================================================================
``noise(l)``       adds l x column std x N(0, 1) to every entry
``mask(l)``        replaces a share l of the entries by the column mean
``shuffle(l)``     permutes whole feature rows among a random share l of the nodes
``blend(l)``       mixes a share l of a random other node's features into each node's
``smooth(l)``      mixes a share l of the neighbours' mean into each node's features
``scale(l)``       multiplies the deviation from the column mean by l
``offset(l)``      adds l x column std x N(0, 1), one number a column, to all nodes alike
``drop_columns``   sets a random share l of the columns to zero
``heterogeneous``  ``noise(l)`` on half of the nodes: random, a connected region, or low degree
``rewire(l)``      gives a share l of the edges a uniformly random second end
``drop(l)``        removes a share l of the edges
``add(l)``         adds l x E uniformly random edges
``drop_hubs(l)``   removes a share l of the edges, those at high-degree nodes more often
``homophily(l)``   re-draws a share abs(l) of the edges within (l > 0) or between classes
``compose``        one shift after the other
=================  ==============================================================================

`resample_classes` and `subpopulation` change *which nodes are evaluated*, so they return indices.
"""

from __future__ import annotations

from graphtemper.shifts.base import Shift, compose
from graphtemper.shifts.features import (
    drop_columns,
    heterogeneous,
    mask,
    noise,
    offset,
    scale,
    shuffle,
)
from graphtemper.shifts.mixing import blend, smooth
from graphtemper.shifts.nodes import resample_classes, subpopulation
from graphtemper.shifts.structure import add, drop, drop_hubs, homophily, rewire

__all__ = [
    "Shift",
    "add",
    "blend",
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
    "subpopulation",
]
