"""The class of all shifts: a family, a level, and a seeded change of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import Seed, stream
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments, graph_moments


def moments_by_type(graph: Graph) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return mean and standard deviation of the columns within each node type, and each row's type.

    Both are (T, F), and the types are numbered 0 to T - 1; without node types T is 1.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [3.0], [7.0]], edges=[], node_type=[0, 0, 4])
    >>> mean, _, row_type = moments_by_type(g)
    >>> mean.ravel().tolist(), row_type.tolist()
    ([2.0, 7.0], [0, 0, 1])
    """
    if graph.node_type is None:
        mean, std = graph_moments(graph)
        return mean[None], std[None], np.zeros(graph.num_nodes, dtype=np.int64)
    types, row_type = np.unique(graph.node_type, return_inverse=True)
    parts = [column_moments(graph.features[row_type == number]) for number in range(types.size)]
    means, stds = (np.array([part[side] for part in parts]) for side in (0, 1))
    return means, stds, row_type


Change = Callable[[Graph, float, np.random.Generator], Graph]
"""Returns the shifted graph, from a graph, a level and a generator to draw with."""


@dataclass(frozen=True, repr=False)
class Shift:
    """A seeded function ``graph -> graph`` with a strength; made by `noise`, `drop`, ...

    Random numbers depend on the seed and the family, not on the level: one seed at two levels gives
    the same draw at two strengths.

    Attributes
    ----------
    family : str
        Name of the kind of change; for a composition the families of its parts joined by ``+``.
    level : float or tuple of float
        Its strength; for a composition one number per part.
    variant : str
        Name of the form, in a family with several.
    change : callable ``(graph, level, rng) -> graph``
        The change itself: it leaves labels and the order of the nodes as they are, and does not
        write to the graph. `graphtemper.shifts.check` tries a shift of your own.
    parts : tuple of Shift
        The shifts of a composition, in order; empty otherwise.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> g = csbm.sample(100, degree=6, homophily=0.8, snr=1.0)
    >>> shifts.noise(0.5)
    noise(0.5)
    >>> g.num_edges, shifts.drop(0.5)(g, seed=1).num_edges
    (288, 144)
    """

    family: str
    level: float | tuple[float, ...]
    change: Change | None = field(default=None)
    variant: str = ""
    parts: tuple[Shift, ...] = ()

    def __call__(self, graph: Graph, seed: Seed = 0) -> Graph:
        """Return the shifted graph; the same integer seed gives the same bytes."""
        repeats: Counter[str] = Counter()
        for part in self.parts or (self,):
            assert part.change is not None
            assert isinstance(part.level, float)
            # A family that occurs twice must not draw the same numbers twice.
            rng = stream(seed, part.family, repeats[part.family])
            repeats[part.family] += 1
            graph = part.change(graph, part.level, rng)
        return graph

    @property
    def families(self) -> frozenset[str]:
        """The families of this shift; one unless it is a composition."""
        return frozenset(part.family for part in self.parts) or frozenset({self.family})

    def __repr__(self) -> str:
        if self.parts:
            return f"compose({', '.join(map(repr, self.parts))})"
        return f"{self.family}({self.level:g}{f', {self.variant!r}' if self.variant else ''})"


def compose(*shifts: Shift) -> Shift:
    """Return the shift that applies several shifts from left to right.

    ``compose(a, b)(graph, seed)`` equals ``b(a(graph, seed), seed)`` if a and b are of different
    families; a family that occurs again draws new numbers.

    Examples
    --------
    >>> from graphtemper import shifts
    >>> both = shifts.compose(shifts.noise(1.0), shifts.drop(0.3))
    >>> both, both.family
    (compose(noise(1), drop(0.3)), 'noise+drop')
    """
    parts = tuple(part for shift in shifts for part in (shift.parts or (shift,)))
    if not parts:
        raise errors.empty("compose needs at least one shift.")
    levels = tuple(part.level for part in parts if isinstance(part.level, float))
    return Shift("+".join(part.family for part in parts), levels, parts=parts)


def permuted_within_types(
    graph: Graph, nodes: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return the nodes in random order, where each stands in for one of its own node type.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[], node_type=[0, 0, 1])
    >>> int(permuted_within_types(g, np.arange(3), np.random.default_rng(0))[2])
    2
    """
    if graph.node_type is None:
        return rng.permutation(nodes)
    result = nodes.copy()
    for kind in np.unique(graph.node_type):
        places = np.flatnonzero(graph.node_type[nodes] == kind)
        result[places] = nodes[rng.permutation(places)]
    return result
