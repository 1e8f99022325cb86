r"""Fast passes of linear graph models, whose logits are :math:`\sum_k S^k X W_k + b`.

Prediction projects first and then propagates K columns instead of the F columns of X. The passes of
`graphtemper.models.predictor` cost no more than that:

- Feature noise E adds :math:`\sum_k S^k (E W_k)` to the logits, and a row of
  :math:`(E W_0, \dots, E W_H)` is Gaussian with covariance :math:`W^\top \mathrm{diag}(v)\, W`,
  where v holds the variance of the noise per column. That small Gaussian is drawn in place of E.
- The views of two halves of the columns sum to the view of all columns plus that of the column
  means, so only the first half is propagated, for several splits at once.
- Without some edges only S changes; X W is computed once.
- Without neighbours a node's own features replace their averages: :math:`X (W_0 + \dots + W_H)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_integer
from graphtemper.errors import InputError
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.normalised import EdgeSubsets, Operator
from graphtemper.graph.operators import (
    COLUMNS_AT_ONCE,
    Dense,
    horner,
    multiply,
    operator,
    project,
    project_parts,
)
from graphtemper.models.predictor import EdgeRunner, HalfViews, Rows, check_columns, checked_logits

# Powers, weights and projected features of the graphs in use: passes read the features once.
_Projected = tuple[tuple[int, ...], Dense, list[Dense]]
_projected: WeakKeyDictionary[Graph, _Projected] = WeakKeyDictionary()
# Directions whose variance is below this fraction of the largest hold only rounding error.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class LinearPasses:
    r"""A linear graph model: logits :math:`\sum_k S^k X W_k + b`, with its fast passes.

    Return one from the ``fast_passes`` method of your own linear model; see
    `graphtemper.models.predictor` for an example.

    Parameters
    ----------
    weights : (terms, F, K) array
        The matrices :math:`W_k`, one per power of S in use.
    intercept : (K,) array
    hops_used : tuple of int
        The powers k of S in use, in increasing order.
    operator : {"self-loop", "symmetric", "mean"}
        The aggregation operator S; see `graphtemper.graph.operators.operator`.
    thread_safe : bool
        Whether the model that declares these passes may be called from several threads at once.
    """

    weights: FloatArray
    intercept: FloatArray
    hops_used: tuple[int, ...]
    operator: Operator = "self-loop"
    thread_safe: bool = True

    def __post_init__(self) -> None:
        for name in ("weights", "intercept"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        hops = tuple(check_integer(hop, "a power in hops_used", 0) for hop in self.hops_used)
        object.__setattr__(self, "hops_used", hops)
        if not hops or list(hops) != sorted(set(hops)):
            raise InputError(f"hops_used must increase and not be empty, not {self.hops_used!r}.")
        if self.operator not in get_args(Operator):
            names = ", ".join(get_args(Operator))
            raise InputError(f"unknown operator {self.operator!r}; use one of {names}.")
        shape = (len(hops), *self.weights.shape[1:2], *self.intercept.shape)
        if self.weights.ndim != 3 or self.intercept.ndim != 1 or self.weights.shape != shape:
            raise InputError(
                f"weights must have shape ({len(hops)}, F, K) and intercept (K,), not "
                f"{self.weights.shape} and {self.intercept.shape}."
            )

    @property
    def hops(self) -> int:
        """The highest power of S in use."""
        return self.hops_used[-1]

    @property
    def num_classes(self) -> int:
        """Number of classes, K."""
        return int(self.intercept.size)

    @property
    def num_terms(self) -> int:
        """Number of projected columns: K for each power of S in use."""
        return int(len(self.hops_used) * self.intercept.size)

    @property
    def stacked_weights(self) -> FloatArray:
        """The weights of all powers side by side, (F, terms x K)."""
        return self.weights.transpose(1, 0, 2).reshape(self.weights.shape[1], -1)

    def logits(self, graph: Graph) -> NDArray[np.float32]:
        """Return the logits (N, K) of every node."""
        terms = self._terms(graph)
        total = horner(operator(graph, self.operator), terms) if self.hops else terms[0]
        return np.asarray(total + self.intercept.astype(np.float32), dtype=np.float32)

    def project(self, features: Dense | sp.csr_matrix) -> list[Dense]:
        """Return B_k = X W_k for k = 0..hops, (N, K) each; zero for powers that are not in use."""
        check_columns(features, self.weights.shape[1])
        found = iter(project_parts(features, self._single))
        empty = np.zeros((features.shape[0], self.num_classes), np.float32)
        return [next(found) if hop in self.hops_used else empty for hop in range(self.hops + 1)]

    @property
    def _single(self) -> list[Dense]:
        return list(self.weights.astype(np.float32))

    def _terms(self, graph: Graph) -> list[Dense]:
        """Return `project` of the graph's features, computed once for all passes over it."""
        weights, known = self.weights.astype(np.float32), _projected.get(graph)
        if known is None or known[0] != self.hops_used or not np.array_equal(known[1], weights):
            known = _projected[graph] = self.hops_used, weights, self.project(graph.features)
            for term in known[2]:
                term.setflags(write=False)  # passes share it
        return known[2]

    def noise_factor(self, std: FloatArray) -> NDArray[np.float32]:
        """Return the factor of the noise in all terms side by side, (r, terms x K)."""
        return gaussian_factor(self.stacked_weights, std)

    def noisy(
        self,
        graph: Graph,
        std: FloatArray,
        passes: int,
        rng: np.random.Generator,
        *,
        clean: FloatArray | None = None,
        rows: Rows = None,
    ) -> Iterator[FloatArray]:
        """See `graphtemper.models.predictor.Passes.noisy`."""
        for (logits,) in self.noisy_in_sizes(graph, [std], passes, rng, clean=clean, rows=rows):
            yield logits

    def noisy_in_sizes(
        self,
        graph: Graph,
        sizes: Sequence[FloatArray],
        passes: int,
        rng: np.random.Generator,
        *,
        clean: FloatArray | None = None,
        rows: Rows = None,
    ) -> Iterator[list[FloatArray]]:
        """Yield what `noisy` does, for noise of several sizes made of the same random numbers."""
        if clean is None:
            clean = checked_logits(self.logits(graph), graph.num_nodes)
        factor = _side_by_side([self.noise_factor(std) for std in sizes], len(self.hops_used))
        base = clean if rows is None else clean[rows]
        matrix, width = operator(graph, self.operator), factor.shape[2]
        together = max(COLUMNS_AT_ONCE // width, 1)
        for start in range(0, passes, together):
            count = min(together, passes - start)
            terms = self._empty_terms(graph.num_nodes, count * width, rows)
            here: list[Dense] = []
            for number in range(count):
                part = slice(number * width, (number + 1) * width)
                draw = rng.standard_normal((graph.num_nodes, factor.shape[1]), dtype=np.float32)
                self._write_terms(draw, list(factor), [term[:, part] for term in terms], rows)
                if rows is not None and 0 in self.hops_used:
                    here.append(project(draw[rows], factor[0]))
            changes = horner(matrix, terms, rows)
            if here:
                changes = changes + np.hstack(here)
            for one in np.split(changes, count, axis=1):
                yield [base + change for change in np.split(one, len(sizes), axis=1)]

    def _empty_terms(self, count: int, width: int, rows: Rows) -> list[Dense]:
        """Return arrays for the terms of some columns; one row of zeros for terms that are zero.

        If only some rows are of interest, the first term is such, for the caller to add there.
        """
        read = {hop for hop in self.hops_used if hop or rows is None}
        return [
            np.empty((count, width), np.float32)
            if hop in read
            else np.zeros((1, width), np.float32)
            for hop in range(self.hops + 1)
        ]

    def _write_terms(
        self, features: Features, weights: Sequence[Dense], terms: Sequence[Dense], rows: Rows
    ) -> None:
        """Write the products with the weights of each power in use to `_empty_terms`."""
        pairs = zip(self.hops_used, weights, strict=True)
        read = [(hop, one) for hop, one in pairs if hop or rows is None]
        if read:
            project_parts(features, [one for _, one in read], [terms[hop] for hop, _ in read])

    def half_views(
        self,
        graph: Graph,
        halves: NDArray[np.bool_],
        column_mean: FloatArray,
        rows: Rows = None,
        *,
        clean: FloatArray | None = None,
    ) -> Iterator[HalfViews]:
        """See `graphtemper.models.predictor.Passes.half_views`; ``clean`` is as in `noisy`.

        A view is what its columns give plus what the means of the others give; the means are the
        same at every node, so that only S^k 1 is propagated for them.
        """
        matrix = operator(graph, self.operator)
        mean = column_mean.astype(np.float32)[None, :]
        if clean is None:
            both = horner(matrix, self._terms(graph), rows).astype(np.float64)
        else:
            both = (clean if rows is None else clean[rows]) - self.intercept
        own_both = _total(self._terms(graph), rows).astype(np.float64)
        spread = _powers_of_ones(matrix, self.hops)[slice(None) if rows is None else rows]
        alone = np.ones((1, self.hops + 1))
        of_mean = np.vstack(self.project(mean))
        both += spread @ of_mean
        own_both += alone @ of_mean
        step = max(COLUMNS_AT_ONCE // self.num_classes, 1)
        for start in range(0, len(halves), step):
            some = halves[start : start + step]
            terms, near, inside = self._read_halves(graph, some, mean, rows)
            own = _total(near, None)
            views = horner(matrix, terms, rows)
            if rows is not None:
                views = views + near[0]
            rest = of_mean[:, None] - inside.reshape(self.hops + 1, len(some), -1)
            for position in range(len(some)):
                part = slice(position * self.num_classes, (position + 1) * self.num_classes)
                view = views[:, part] + spread @ rest[:, position]
                own_view = own[:, part] + alone @ rest[:, position]
                yield HalfViews(
                    *(
                        values + self.intercept
                        for values in (view, both - view, own_view, own_both - own_view)
                    )
                )

    def _read_halves(
        self, graph: Graph, halves: NDArray[np.bool_], mean: Dense, rows: Rows
    ) -> tuple[list[Dense], list[Dense], Dense]:
        """Return terms of all nodes on halves side by side, those of the rows, and of the means.

        With rows, the first term of all nodes is that of `_empty_terms`.
        """
        reader = self._on_halves(halves)
        near = reader.project(graph.features if rows is None else graph.features[rows])
        terms = near
        if rows is not None:
            terms = reader._empty_terms(graph.num_nodes, near[0].shape[1], rows)
            reader._write_terms(graph.features, reader._single, terms, rows)
        return terms, near, np.vstack(reader.project(mean))

    def edge_runner(self, graph: Graph) -> EdgeRunner:
        """See `graphtemper.models.predictor.Passes.edge_runner`."""
        terms = self._terms(graph)
        subsets = EdgeSubsets(graph, self.operator)

        def run(keep: NDArray[np.bool_]) -> FloatArray:
            logits = horner(subsets.operator(keep), terms) + self.intercept
            return checked_logits(logits, graph.num_nodes)

        return run

    def own_view(self, graph: Graph) -> FloatArray:
        """See `graphtemper.models.predictor.Passes.own_view`."""
        total = np.tile(self.intercept, (graph.num_nodes, 1))
        for term in self._terms(graph):
            total += term
        return total

    def _on_halves(self, halves: NDArray[np.bool_]) -> LinearPasses:
        """Return the model that reads each half of the columns into K separate logits."""
        weights = [self.weights * half[None, :, None] for half in halves]
        return replace(
            self,
            weights=np.concatenate(weights, axis=2),
            intercept=np.tile(self.intercept, len(halves)),
        )


def gaussian_factor(weights: FloatArray, std: FloatArray) -> NDArray[np.float32]:
    """Return (r, C) L with L^T L = W^T diag(std^2) W for W (F, C): white rows times L are E W.

    r is the rank, so a binary model (whose first logit is always 0) draws half the numbers.
    """
    scaled = weights * std[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    relevant = values > _NEGLIGIBLE * max(float(values[-1]), np.finfo(np.float64).tiny)
    factor = (vectors[:, relevant] * np.sqrt(values[relevant])).T
    factor[:, ~scaled.any(axis=0)] = 0.0  # a logit without weights has no noise at all
    return np.asarray(factor, dtype=np.float32)


def _side_by_side(factors: Sequence[Dense], terms: int) -> Dense:
    """Return the factors of several sizes of noise, (terms, r, sizes x K)."""
    rank = max(len(factor) for factor in factors)
    padded = [np.pad(factor, ((0, rank - len(factor)), (0, 0))) for factor in factors]
    cut = [np.stack(np.split(factor, terms, axis=1)) for factor in padded]
    return np.concatenate(cut, axis=2)


def _powers_of_ones(matrix: sp.csr_matrix, hops: int) -> FloatArray:
    """Return S^k 1 for k = 0..hops, (N, hops + 1): what a constant column becomes."""
    columns = [np.ones((matrix.shape[0], 1), np.float32)]
    for _ in range(hops):
        columns.append(multiply(matrix, columns[-1]))
    return np.hstack(columns).astype(np.float64)


def _total(terms: Sequence[Dense], rows: Rows) -> Dense:
    """Return the sum of the terms: a node's own features in place of its neighbours' averages."""
    some = terms if rows is None else [term[rows] for term in terms]
    return np.asarray(sum(some[1:], start=some[0]))
