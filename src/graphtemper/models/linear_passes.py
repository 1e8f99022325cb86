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
from graphtemper.graph.graph import Graph
from graphtemper.graph.normalised import EdgeSubsets, Operator
from graphtemper.graph.operators import COLUMNS_AT_ONCE, Dense, horner, operator, project
from graphtemper.models.predictor import EdgeRunner, HalfViews, Rows, check_columns, checked_logits

# Weights and projected features of the graphs in use: their passes read the features once.
_projected: WeakKeyDictionary[Graph, tuple[Dense, Dense]] = WeakKeyDictionary()
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
        return self._per_power(project(features, self.stacked_weights.astype(np.float32)))

    def _per_power(self, projected: Dense) -> list[Dense]:
        count = self.weights.shape[2]
        return [
            projected[:, self.hops_used.index(hop) * count :][:, :count]
            if hop in self.hops_used
            else np.zeros((len(projected), count), np.float32)
            for hop in range(self.hops + 1)
        ]

    def _terms(self, graph: Graph) -> list[Dense]:
        """Return `project` of the graph's features, computed once for all passes over it."""
        check_columns(graph.features, self.weights.shape[1])
        weights = self.stacked_weights.astype(np.float32)
        known = _projected.get(graph)
        if known is None or not np.array_equal(known[0], weights):
            known = _projected[graph] = weights, project(graph.features, weights)
            known[1].setflags(write=False)  # passes share it
        return self._per_power(known[1])

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
        if clean is None:
            clean = checked_logits(self.logits(graph), graph.num_nodes)
        factor = self.noise_factor(std)
        base = clean if rows is None else clean[rows]
        shape = (graph.num_nodes, factor.shape[0])
        matrix = operator(graph, self.operator)
        classes = clean.shape[1]
        together = max(COLUMNS_AT_ONCE // classes, 1)
        for start in range(0, passes, together):
            draws = [
                self._by_hop(project(rng.standard_normal(shape, dtype=np.float32), factor))
                for _ in range(min(together, passes - start))
            ]
            terms: list[Dense] = [np.hstack(columns) for columns in zip(*draws, strict=True)]
            changes = horner(matrix, terms, rows)
            for first in range(0, changes.shape[1], classes):
                yield base + changes[:, first : first + classes]

    def half_views(
        self, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray, rows: Rows = None
    ) -> Iterator[HalfViews]:
        """See `graphtemper.models.predictor.Passes.half_views`."""
        matrix = operator(graph, self.operator)
        mean = column_mean.astype(np.float32)[None, :]
        classes = self.num_classes
        of_features, of_mean = self._terms(graph), self.project(mean)
        whole: list[Dense] = [x + c for x, c in zip(of_features, of_mean, strict=True)]
        both, own_both = horner(matrix, whole, rows), _total(whole, rows)
        step = max(COLUMNS_AT_ONCE // (2 * classes), 1)  # all terms of a split are in memory
        for start in range(0, len(halves), step):
            some = halves[start : start + step]
            reader = self._on_halves(some)
            first, read_mean = reader.project(graph.features), reader.project(mean)
            for term, inside, everywhere in zip(first, read_mean, of_mean, strict=True):
                term += np.tile(everywhere, len(some)) - inside  # in place: the widest array here
            views, own_views = horner(matrix, first, rows), _total(first, rows)
            for position in range(len(some)):
                part = slice(position * classes, (position + 1) * classes)
                view, own = views[:, part], own_views[:, part]
                yield HalfViews(
                    *(
                        np.asarray(values + self.intercept, dtype=np.float64)
                        for values in (view, both - view, own, own_both - own)
                    )
                )

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
        total = np.zeros((graph.num_nodes, self.num_classes))
        for term in self._terms(graph):
            total += term
        return np.asarray(total + self.intercept)

    def _by_hop(self, columns: Dense) -> list[Dense]:
        """Cut (N, terms x K) columns into one term per power of S; unused powers are zero."""
        classes = self.num_classes
        terms: list[Dense] = [np.zeros((1, classes), np.float32) for _ in range(self.hops + 1)]
        for position, hop in enumerate(self.hops_used):
            terms[hop] = columns[:, position * classes : (position + 1) * classes]
        return terms

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


def _total(terms: Sequence[Dense], rows: Rows) -> Dense:
    """Return the sum of the terms: a node's own features in place of its neighbours' averages."""
    some = terms if rows is None else [term[rows] for term in terms]
    return np.asarray(sum(some[1:], start=some[0]))
