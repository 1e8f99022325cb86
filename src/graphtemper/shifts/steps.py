r"""Shifts of the features as steps, so that the features themselves need not be changed.

A model that is linear in the features reads them through a few projections X P. Many shifts act on
X from the left (they mix rows), from the right (they scale columns), or add a constant row or
white noise. `draw` draws what such shifts need, and a reader then applies each `Step` to what it
knows of X: its projections, some of its rows, its column moments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import Seed, stream
from graphtemper.graph.graph import Graph
from graphtemper.shifts import features, mixing, structure
from graphtemper.shifts.base import Change, Shift, permuted_within_types

Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class Noise:
    """Add ``level`` column deviations of white noise, drawn from ``rng``, to some rows."""

    level: float
    rng: Generator
    rows: NDArray[np.intp] | None = None


@dataclass(frozen=True, eq=False)
class Mask:
    """Replace each entry by its column mean with probability ``level``; only ever the first step.

    Which entries stay depends on all of them, so the features themselves must be known.
    """

    level: float
    rng: Generator

    def kept(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return which entries of the next rows stay as they are, to a probability of 2^-32."""
        count = shape[0] * shape[1]
        draws = self.rng.bit_generator.random_raw((count + 1) // 2).view(np.uint32)[:count]
        return (draws >= np.uint64(self.level * 2.0**32)).reshape(shape)


@dataclass(frozen=True, eq=False)
class Mix:
    """Replace each row by ``own`` times itself plus ``other`` times the row ``origin``."""

    own: float
    other: float
    origin: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Scale:
    """Multiply distances from the column means by ``level``."""

    level: float


@dataclass(frozen=True, eq=False)
class Move:
    """Add ``directions`` column deviations, (F,), to every row."""

    directions: FloatArray


@dataclass(frozen=True, eq=False)
class Select:
    """Set the columns where ``keep``, (F,) bool, is false to zero."""

    keep: NDArray[np.bool_]


Step = Noise | Mask | Mix | Scale | Move | Select


@dataclass(frozen=True, eq=False)
class Draw:
    """A shifted graph: ``graph`` has the shifted edges, and its features need the ``steps`` yet."""

    graph: Graph
    steps: tuple[Step, ...]


def draw(shift: Shift, graph: Graph, seed: Seed = 0) -> Draw:
    """Draw a shift, with its last changes of the features as steps.

    Edges are shifted at once. So are features before the last mask, and up to the last shift that
    is no `Step`: an average over neighbours, or a change of the caller's own. The random numbers
    are not all those that the shift itself would use, but they have the same distribution.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> g = csbm.sample(100, degree=6, homophily=0.8, snr=1.0)
    >>> drawn = draw(shifts.compose(shifts.noise(1.0), shifts.drop(0.5), shifts.scale(2.0)), g)
    >>> drawn.graph.features is g.features, len(drawn.graph.edges) == len(g.edges) // 2
    (True, True)
    >>> [type(step).__name__ for step in drawn.steps]
    ['Noise', 'Scale']
    >>> draw(shifts.smooth(0.5), g).steps
    ()
    """
    steps: list[Step] = []
    parts = list(shift.numbered)
    at_once = [
        place
        for place, (part, _) in enumerate(parts)
        if part.change not in _STEPS and part.change not in _OF_EDGES
    ]
    masks = [place for place, (part, _) in enumerate(parts) if _STEPS.get(part.change) is _mask]
    first = max([0, *masks, *(place + 1 for place in at_once)])
    if graph.node_type is not None:  # mixed rows and moments are those of a node's type
        first = len(parts)
    for place, (part, repeat) in enumerate(parts):
        make = _STEPS.get(part.change)
        if place < first or make is None:
            graph = part.applied(graph, seed, repeat)
        else:
            assert isinstance(part.level, float)
            steps.append(make(graph, part.level, stream(seed, part.family, repeat)))
    return Draw(graph, tuple(steps))


def _noise(graph: Graph, level: float, rng: Generator) -> Step:
    return Noise(level, rng)


def _mask(graph: Graph, level: float, rng: Generator) -> Step:
    return Mask(level, rng)


def _noise_on_half(where: features.Where) -> Callable[[Graph, float, Generator], Step]:
    def make(graph: Graph, level: float, rng: Generator) -> Step:
        return Noise(level, rng, features.half_of_nodes(graph, where, rng))

    return make


def _shuffle(graph: Graph, level: float, rng: Generator) -> Step:
    return Mix(0.0, 1.0, features.shuffled_nodes(graph, level, rng))


def _blend(graph: Graph, level: float, rng: Generator) -> Step:
    return Mix(1.0 - level, level, permuted_within_types(graph, np.arange(graph.num_nodes), rng))


def _scale(graph: Graph, level: float, rng: Generator) -> Step:
    return Scale(level)


def _offset(graph: Graph, level: float, rng: Generator) -> Step:
    return Move(level * rng.standard_normal(graph.num_features))


def _drop_columns(graph: Graph, level: float, rng: Generator) -> Step:
    return Select(~features.columns_to_drop(graph.num_features, level, rng))


_STEPS: dict[Change | None, Callable[[Graph, float, Generator], Step]] = {
    features.noise(0.0).change: _noise,
    features.mask(0.0).change: _mask,
    **{
        features.heterogeneous(0.0, where).change: _noise_on_half(where)
        for where in get_args(features.Where)
    },
    features.shuffle(0.0).change: _shuffle,
    mixing.blend(0.0).change: _blend,
    features.scale(1.0).change: _scale,
    features.offset(0.0).change: _offset,
    features.drop_columns(0.0).change: _drop_columns,
}
_OF_EDGES: frozenset[Change | None] = frozenset(
    make(0.0).change
    for make in (
        structure.rewire,
        structure.drop,
        structure.add,
        structure.drop_hubs,
        structure.homophily,
    )
)
