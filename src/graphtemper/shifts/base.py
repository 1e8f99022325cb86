r"""The class of all shifts, and how a shift acts on features as a model sees them.

A shift has a family, a level, and a seeded change of a graph. A change of the edges returns the
changed graph. A change of the features returns a `Step`, because a model that reads its features
only through a matrix P (F, C), as linear models and most networks do, need not be given shifted
features X, only their projections X P. Each step acts on both (`Seen`):

- rows that are mixed, :math:`A X`, give :math:`A (X P)`;
- columns that are set to zero, :math:`X D`, give :math:`X (D P)`;
- a change of contrast or of the means adds a constant row;
- white noise E adds E P, whose rows are Gaussian with covariance
  :math:`P^\top \mathrm{diag}(v)\, P`; that small Gaussian is drawn in place of E.

So the projections have the distribution that they have after the shift of the whole matrix. Moments
of the columns are then expected ones: those of noise and of blended rows miss their random errors,
of order :math:`1/\sqrt N`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import Seed, stream
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import (
    column_moments,
    gaussian_factor,
    graph_moments,
    project,
    row_blocks,
)

Float32 = NDArray[np.float32]
Moments = tuple[FloatArray, FloatArray, NDArray[np.int64]]


def moments_by_type(graph: Graph) -> Moments:
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


@dataclass(frozen=True, eq=False)
class Seen:
    """Features (N, F) of a graph, or their projections (N, C) on ``weights`` (F, C).

    ``moments`` are those of `moments_by_type`, of the features. With projections, ``later`` are the
    weights on which they are projected after each step that sets columns to zero, the last first.
    """

    columns: Features
    moments: Moments
    weights: Float32 | None = None
    later: tuple[Float32, ...] = ()

    def of_rows(self, values: FloatArray, rows: slice | NDArray[Any] = slice(None)) -> Float32:
        """Return values per type and column, (T, F), as seen, for each of some rows."""
        if self.weights is not None:
            return (values @ self.weights).astype(np.float32)
        single, row_type = values.astype(np.float32), self.moments[2]
        return single if len(single) == 1 else single[row_type[rows]]

    def dense(self) -> Float32:
        """Return a dense copy of what is seen."""
        columns = self.columns
        return columns.copy() if isinstance(columns, np.ndarray) else columns.toarray()

    def noisy(
        self, level: float, rng: np.random.Generator, nodes: NDArray[np.intp] | None = None
    ) -> Seen:
        """Add white noise of ``level`` column deviations to all rows, or to some."""
        mean, std, row_type = self.moments
        out, count = self.dense(), len(row_type) if nodes is None else len(nodes)
        factor = None if self.weights is None else gaussian_factor(self.weights, level * std[0])
        width = std.shape[1] if factor is None else len(factor)
        for block in row_blocks(count, max(width, 1)):
            chosen = block if nodes is None else nodes[block]  # a slice is not copied
            draw = rng.standard_normal((block.stop - block.start, width), dtype=np.float32)
            if factor is None:
                draw *= self.of_rows(level * std, chosen)
            out[chosen] += draw if factor is None else project(draw, factor)
        wider = np.sqrt(1.0 + level**2 * count / len(row_type))
        return replace(self, columns=out, moments=(mean, std * wider, row_type))

    def mixed(self, own: float, other: float, origin: NDArray[np.intp]) -> Seen:
        """Replace each row by ``own`` times itself plus ``other`` times the row ``origin``."""
        mean, std, row_type = self.moments
        columns: Any = self.columns[origin]
        if own:
            columns = self.columns * np.float32(own) + columns * np.float32(other)
        return replace(self, columns=columns, moments=(mean, std * np.hypot(own, other), row_type))

    def scaled(self, level: float) -> Seen:
        """Multiply distances from the column means by ``level``."""
        mean, std, row_type = self.moments
        out = self.dense()
        for rows in row_blocks(*out.shape):
            out[rows] = np.float32(level) * out[rows] + self.of_rows((1.0 - level) * mean, rows)
        return replace(self, columns=out, moments=(mean, level * std, row_type))

    def moved(self, directions: FloatArray) -> Seen:
        """Add ``directions`` column deviations, (F,), to every row."""
        mean, std, row_type = self.moments
        out = self.dense()
        out += self.of_rows(directions * std)
        return replace(self, columns=out, moments=(mean + directions * std, std, row_type))

    def without(self, dropped: NDArray[np.bool_]) -> Seen:
        """Set some columns, (F,) bool, to zero."""
        mean, std, row_type = self.moments
        moments = (mean * ~dropped, std * ~dropped, row_type)
        if self.weights is not None:  # they have been zero at these columns
            return replace(self, moments=moments, weights=self.later[-1], later=self.later[:-1])
        columns = self.columns
        if isinstance(columns, np.ndarray):
            return replace(self, columns=np.where(dropped, np.float32(0), columns), moments=moments)
        sparse = columns.copy()
        sparse.data = np.where(dropped[sparse.indices], np.float32(0), sparse.data)
        sparse.eliminate_zeros()
        return replace(self, columns=sparse, moments=moments)


@dataclass(frozen=True, eq=False)
class Step:
    """One change of features as they are seen; ``dropped`` are columns that it sets to zero."""

    change: Callable[[Seen], Seen]
    dropped: NDArray[np.bool_] | None = None


def changed(graph: Graph, steps: Sequence[Step]) -> Graph:
    """Return the graph with its features after some steps."""
    for step in steps:
        seen = step.change(Seen(graph.features, moments_by_type(graph)))
        graph = graph.replace(features=seen.columns)
    return graph


def seen_through(
    graph: Graph, steps: Sequence[Step], weights: Float32, known: Float32 | None = None
) -> Seen:
    """Return the features of a graph after some steps, seen through weights (F, C).

    ``known`` are the projections of the graph's own features, if they are already available.
    """
    later = [weights]
    for step in reversed(steps):
        if step.dropped is not None:
            later.append(later[-1] * ~step.dropped[:, None])
    first = later.pop()
    if known is None or later:
        known = project(graph.features, first)
    seen = Seen(known, moments_by_type(graph), first, tuple(later))
    for step in steps:
        seen = step.change(seen)
    return seen


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
    >>> g.num_edges, shifts.drop(0.5)(g, seed=1).num_edges
    (288, 144)
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
