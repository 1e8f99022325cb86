r"""A linear graph model on shifted features, without the shifted matrix.

The signals of a linear model read the features X (N, F) through a few projections X P: those of its
weights, and of its weights on halves of the columns. A shift of X is read off what it does to them:

- rows that are mixed, :math:`A X`, give :math:`A (X P)`;
- columns that are set to zero, :math:`X D`, give :math:`X (D P)`;
- a change of contrast or of the means adds a constant row;
- masked entries are drawn in full, but only a block of rows at a time;
- white noise E adds E P, whose rows are Gaussian with covariance
  :math:`P^\top \mathrm{diag}(v)\, P`; that small Gaussian is drawn in place of E.

Some rows are also wanted as they are. Their noise is drawn in full and then projected, so these
rows and the projections of all rows together have exactly the distribution that they have in the
shifted matrix. Column moments are expected ones: those of noise, of masks and of blended rows miss
their random errors, of order :math:`1/\sqrt N`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import Dense, graph_moments, project, row_blocks
from graphtemper.models.linear_passes import LinearPasses, gaussian_factor
from graphtemper.models.predictor import Passes, check_columns
from graphtemper.shifts.steps import Draw, Mask, Mix, Move, Noise, Scale, Select, Step

Rows = NDArray[np.int64]
Float32 = NDArray[np.float32]
# Projections that are more than this share of the columns save too little.
_FEW = 0.5


@dataclass(frozen=True, eq=False)
class ShiftedPasses(LinearPasses):
    """The passes of a linear model whose features are known by their projections.

    ``terms`` (N, powers x K) are projections on the weights, and ``half_terms`` those on the
    weights of halves, each power's together; ``half_means`` are the latter of the column means.
    Features of the graph and column means that a pass is given are not read.
    """

    terms: Float32 = field(kw_only=True)
    half_terms: Float32 = field(kw_only=True)
    half_means: Float32 = field(kw_only=True)
    halves: NDArray[np.bool_] = field(kw_only=True)

    def __call__(self, graph: Graph) -> Float32:
        """Return the logits (N, K): the passes are a predictor too."""
        return self.logits(graph)

    def fast_passes(self) -> ShiftedPasses:
        """Return the passes themselves."""
        return self

    def _terms(self, graph: Graph) -> list[Dense]:
        return self._of_powers(self.terms, slice(0, self.num_classes), self.num_classes)

    def _read_halves(
        self,
        graph: Graph,
        halves: NDArray[np.bool_],
        mean: Dense,
        rows: NDArray[np.int64] | None,
    ) -> tuple[list[Dense], list[Dense], Dense]:
        count, classes = len(halves), self.num_classes
        first = int((self.halves == halves[0]).all(axis=1).argmax())
        assert np.array_equal(self.halves[first : first + count], halves)  # made for these
        part, width = slice(first * classes, (first + count) * classes), len(self.halves) * classes
        terms = self._of_powers(self.half_terms, part, width)
        near = terms if rows is None else [term[rows] for term in terms]
        if rows is not None:
            terms[0] = np.zeros((1, count * classes), np.float32)
        return terms, near, np.vstack(self._of_powers(self.half_means[None], part, width))

    def _of_powers(self, columns: Float32, part: slice, width: int) -> list[Dense]:
        """Return a part of the columns of each power, which are ``width``; zero if not in use."""
        blank = np.zeros((len(columns), part.stop - part.start), np.float32)
        terms: list[Dense] = [blank] * (self.hops + 1)
        for place, hop in enumerate(self.hops_used):
            terms[hop] = columns[:, place * width + part.start : place * width + part.stop]
        return terms


@dataclass(frozen=True, eq=False)
class Shifted:
    """What is read of shifted features.

    Attributes
    ----------
    passes
        The passes of the model, on a graph with the shifted edges.
    moments
        Mean and standard deviation of the columns, (F,) each.
    rows, features
        Some nodes, in increasing order, and their shifted features, (n, F).
    """

    passes: ShiftedPasses
    moments: tuple[FloatArray, FloatArray]
    rows: Rows
    features: Float32


@dataclass(frozen=True, eq=False)
class Readout:
    """The projections of a graph's features through which a linear model is measured.

    ``weights`` (F, C) are those of all powers side by side, and then each power's on all halves;
    ``columns`` (N, C) are the projections of the features of ``graph``.

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> from graphtemper.shifts.steps import draw
    >>> g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=40)
    >>> model = SIGN(hops=1).fit(g)
    >>> readout = Readout.of(model.fast_passes(), g, np.arange(40)[None] % 2 == 0)
    >>> shifted = readout.shifted(draw(shifts.scale(2.0), g), np.arange(10))
    >>> expected = model(shifts.scale(2.0)(g))
    >>> bool(np.allclose(shifted.passes(g), expected, atol=1e-4))
    True
    """

    model: LinearPasses
    halves: NDArray[np.bool_]
    graph: Graph
    weights: Float32
    columns: Float32

    @classmethod
    def of(cls, model: LinearPasses, graph: Graph, halves: NDArray[np.bool_]) -> Readout:
        """Project the features of a graph."""
        own = model.weights.astype(np.float32)
        parts = [power * half[:, None] for power in own for half in halves]
        weights = np.hstack([*own, *parts])
        return cls(model, halves, graph, weights, project(graph.features, weights))

    def shifted(self, drawn: Draw, rows: Rows) -> Shifted:
        """Read the features of a drawn shift; ``rows`` are wanted as they are."""
        graph, steps = drawn.graph, drawn.steps
        check_columns(graph.features, len(self.weights))
        weights, wanted = [self.weights], [rows]
        for step in reversed(steps):
            weights.append(_before(step, weights[-1]))
            wanted.append(_origins(step, wanted[-1]))
        at_source = graph.features is self.graph.features
        mean, std = graph_moments(self.graph if at_source else graph)
        if steps and isinstance(steps[0], Mask):
            state = _masked(steps[0], graph.features, weights[-1], wanted[-1], mean, std)
        else:
            if at_source and weights[-1] is self.weights:
                columns = self.columns.copy()
            else:
                columns = project(graph.features, weights[-1])
            state = _State(columns, wanted[-1], _dense(graph.features, wanted[-1]), mean, std)
        for step, after, left in zip(steps, weights[-2::-1], wanted[-2::-1], strict=True):
            state = state.after(step, after, left)
        return Shifted(self._passes(state), (state.mean, state.std), rows, state.features)

    def _passes(self, state: _State) -> ShiftedPasses:
        width, columns = self.model.num_terms, state.columns
        constants = (state.mean @ self.weights).astype(np.float32)
        terms, half_terms = columns[:, :width].copy(), columns[:, width:].copy()
        for shared in (terms, half_terms):
            shared.setflags(write=False)
        model = self.model
        return ShiftedPasses(
            model.weights,
            model.intercept,
            model.hops_used,
            model.operator,
            terms=terms,
            half_terms=half_terms,
            half_means=constants[width:],
            halves=self.halves,
        )


def saves(passes: Passes, graph: Graph, splits: int) -> bool:
    """Return whether the projections for this number of splits are few beside the columns."""
    if type(passes) is not LinearPasses or graph.node_type is not None:
        return False
    return passes.num_terms * (1 + splits) <= _FEW * graph.num_features


@dataclass(frozen=True, eq=False)
class _State:
    """Projections (N, C), some rows and their features (n, F), and moments of the columns."""

    columns: Float32
    rows: Rows
    features: Float32
    mean: FloatArray
    std: FloatArray

    def after(self, step: Step, weights: Float32, rows: Rows) -> _State:
        """Return the state after a step; ``weights`` are those of its projections."""
        columns, features, mean, std = self.columns, self.features, self.mean, self.std
        if isinstance(step, Mask):
            return self  # see `_masked`
        if isinstance(step, Noise):
            share = self._add_noise(step, weights)
            std = std * np.sqrt(1.0 + step.level**2 * share)
        elif isinstance(step, Mix):
            columns = _mixed(step, columns, np.arange(len(columns)), step.origin)
            here, there = (np.searchsorted(self.rows, part) for part in (rows, step.origin[rows]))
            features = _mixed(step, features, here, there)
            std = std * np.sqrt(step.own**2 + step.other**2)
        elif isinstance(step, Scale):
            level, rest = np.float32(step.level), 1.0 - step.level
            columns = columns * level + (rest * (mean @ weights)).astype(np.float32)
            features = features * level + (rest * mean).astype(np.float32)
            std = std * step.level
        elif isinstance(step, Move):
            change = step.directions * std
            columns = columns + (change @ weights).astype(np.float32)
            features = features + change.astype(np.float32)
            mean = mean + change
        else:
            features = features * step.keep
            mean, std = mean * step.keep, std * step.keep
        return _State(columns, rows, features, mean, std)

    def _add_noise(self, step: Noise, weights: Float32) -> float:
        """Add noise to columns and features, and return the share of nodes that received it."""
        count = len(self.columns)
        size = step.level * self.std
        factor = gaussian_factor(weights.astype(np.float64), size)
        hit = np.arange(count) if step.rows is None else step.rows
        draws = step.rng.standard_normal((hit.size, len(factor)), dtype=np.float32)
        change = project(draws, factor)
        known = np.flatnonzero(np.isin(self.rows, hit, assume_unique=True))
        full = step.rng.standard_normal((known.size, size.size), dtype=np.float32)
        full *= size.astype(np.float32)
        change[np.searchsorted(hit, self.rows[known])] = project(full, weights)
        self.features[known] += full
        if hit.size == count:
            self.columns[:] += change
        else:
            self.columns[hit] += change
        return hit.size / count


def _masked(
    step: Mask,
    features: Features,
    weights: Float32,
    rows: Rows,
    mean: FloatArray,
    std: FloatArray,
) -> _State:
    """Return the state after a mask of the features."""
    count, width = features.shape
    columns = np.empty((count, weights.shape[1]), np.float32)
    wanted = np.empty((rows.size, width), np.float32)
    middle = mean.astype(np.float32)
    for block in row_blocks(count, width):
        gap = _dense(features, block)
        gap -= middle
        gap *= step.kept(gap.shape)
        columns[block] = project(gap, weights)
        first, last = np.searchsorted(rows, (block.start, block.stop))
        wanted[first:last] = gap[rows[first:last] - block.start] + middle
    columns += (mean @ weights).astype(np.float32)
    return _State(columns, rows, wanted, mean, std * np.sqrt(1.0 - step.level))


def _dense(features: Features, rows: Rows | slice) -> Float32:
    """Return some rows as a dense array of its own."""
    some = features[rows]
    return np.array(some) if isinstance(some, np.ndarray) else some.toarray()


def _before(step: Step, weights: Float32) -> Float32:
    """Return the weights that project features before a step as ``weights`` do after it."""
    return weights * step.keep[:, None] if isinstance(step, Select) else weights


def _origins(step: Step, rows: Rows) -> Rows:
    """Return the rows before a step that rows after it are made from."""
    if not isinstance(step, Mix):
        return rows
    origins = step.origin[rows]
    return np.union1d(rows, origins) if step.own else np.sort(origins)


def _mixed(step: Mix, values: Float32, here: NDArray[np.intp], there: NDArray[np.intp]) -> Float32:
    other = values[there]
    if not step.own:
        return other
    return np.asarray(values[here] * np.float32(step.own) + other * np.float32(step.other))
