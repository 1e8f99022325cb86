"""The class of all shifts: a family, a level, and a seeded change of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.reproducible import Seed, stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.shifts.seen import Float32, Seen, Step, changed, seen_through

Change = Callable[[Graph, float, np.random.Generator], Graph | Step]
"""Returns the shifted graph, or a change of the features as they are seen."""


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
    parts : tuple of Shift
        The shifts of a composition, in order; empty otherwise.
    reads_features : bool
        Whether ``change`` reads or replaces the features; not where it returns a `Step`.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> g = csbm.sample(100, degree=6, homophily=0.8, snr=1.0)
    >>> shifts.noise(0.5)
    noise(0.5)
    >>> shifts.drop(0.5)(g, seed=1).num_edges == g.num_edges - round(0.5 * g.num_edges)
    True
    """

    family: str
    level: float | tuple[float, ...]
    change: Change | None = field(default=None)
    variant: str = ""
    parts: tuple[Shift, ...] = ()
    reads_features: bool = True

    def __call__(self, graph: Graph, seed: Seed = 0) -> Graph:
        """Return the shifted graph; the same integer seed gives the same bytes."""
        return changed(*self._drawn(graph, seed))

    def through(
        self, graph: Graph, weights: Float32, seed: Seed = 0, known: Float32 | None = None
    ) -> tuple[Graph, Seen]:
        """Return a graph with the shifted edges, and the shifted features through ``weights``.

        The features of that graph are not the shifted ones. The random numbers are not all those of
        a call, but have the same distribution. ``known`` are the projections of the graph's own
        features on the weights, if they are already available.

        Examples
        --------
        >>> from graphtemper import csbm, shifts
        >>> g = csbm.sample(100, degree=6, homophily=0.8, snr=1.0, num_features=20)
        >>> weights = np.ones((20, 1), np.float32)
        >>> _, seen = shifts.scale(2.0).through(g, weights)
        >>> bool(np.allclose(seen.columns, shifts.scale(2.0)(g).features @ weights, atol=1e-4))
        True
        """
        shifted, steps = self._drawn(graph, seed)
        same = shifted.features is graph.features
        return shifted, seen_through(shifted, steps, weights, known if same else None)

    def _drawn(self, graph: Graph, seed: Seed) -> tuple[Graph, list[Step]]:
        """Return the shifted graph, but for some last steps that its features need yet."""
        repeats: Counter[str] = Counter()
        steps: list[Step] = []
        for part in self.parts or (self,):
            assert part.change is not None
            assert isinstance(part.level, float)
            if part.reads_features:
                graph, steps = changed(graph, steps), []
            # A family that occurs twice must not draw the same numbers twice.
            rng = stream(seed, part.family, repeats[part.family])
            repeats[part.family] += 1
            result = part.change(graph, part.level, rng)
            if isinstance(result, Step):
                steps.append(result)
            else:
                graph = result
        return graph, steps

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
        raise InputError("compose needs at least one shift.")
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
