r"""Fast passes of networks whose first layer reads the features through one matrix.

Such a network, for instance a GCN, depends on its features only through :math:`X W_1`. Noise E
changes that by :math:`E W_1`, whose rows are Gaussian of the hidden width; half of the columns give
:math:`X_{half} W_1`; and without some edges it stays the same. So each pass works on the hidden
columns and never on the F columns of X, and sparse features stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.graph.normalised import EdgeSubsets, Operator
from graphtemper.graph.operators import Dense, operator, project
from graphtemper.models.linear_passes import gaussian_factor
from graphtemper.models.predictor import (
    EdgeRunner,
    HalfViews,
    Rows,
    check_columns,
    checked_logits,
)

Hidden = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FirstLayerPasses:
    """The fast passes of a network that reads the features only as X W.

    Return one from the ``fast_passes`` method of your own network; see
    `graphtemper.models.predictor`.

    Parameters
    ----------
    weights : (F, H) array
        The matrix W through which the network reads the features.
    finish : callable ``(X W, S) -> logits (N, K)``
        The rest of the network, from X W (float32) and the operator S (CSR) of the edges.
    operator : {"self-loop", "symmetric", "mean"}
        Which operator S the network uses; see `graphtemper.graph.operators.operator`.
    thread_safe : bool
        Whether the network may be called from several threads at once.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(300, degree=10, homophily=0.9, snr=1.0, num_features=6, seed=1)
    >>> inner, outer = np.ones((6, 8), np.float32), np.eye(8, 2, dtype=np.float32)
    >>> def finish(projected, matrix):
    ...     return matrix @ np.maximum(matrix @ projected, 0.0) @ outer
    >>> FirstLayerPasses(inner, finish).own_view(g).shape
    (300, 2)
    """

    weights: Hidden
    finish: Callable[[Hidden, sp.csr_matrix], NDArray[np.floating]]
    operator: Operator = "self-loop"
    thread_safe: bool = True

    def project(
        self, features: Dense | sp.csr_matrix, columns: NDArray[np.bool_] | None = None
    ) -> Hidden:
        """Return X W, (N, H); with ``columns``, (F,) bool, the other columns count as zero."""
        check_columns(features, self.weights.shape[0])
        weights = self.weights if columns is None else self.weights * columns[:, None]
        return project(features, weights).astype(np.float32, copy=False)

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
        factor = gaussian_factor(self.weights.astype(np.float64), std)
        matrix, projected = operator(graph, self.operator), self.project(graph.features)
        shape = (graph.num_nodes, factor.shape[0])
        for _ in range(passes):
            change: Hidden = rng.standard_normal(shape, dtype=np.float32)
            noisy = np.asarray(projected + project(change, factor), dtype=np.float32)
            logits = self._logits(noisy, matrix)
            yield logits if rows is None else logits[rows]

    def half_views(
        self, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray, rows: Rows = None
    ) -> Iterator[HalfViews]:
        """See `graphtemper.models.predictor.Passes.half_views`."""
        matrix = operator(graph, self.operator)
        alone = operator(graph.without_neighbours(), self.operator)
        mean = column_mean.astype(np.float32)[None, :]
        # What the two halves read sums to what all columns read, and so do their means.
        whole = self.project(graph.features) + self.project(mean)
        for half in halves:
            first = self.project(graph.features, half) + self.project(mean, ~half)
            parts = first, whole - first
            views = (self._logits(part, step) for step in (matrix, alone) for part in parts)
            yield HalfViews(*(view if rows is None else view[rows] for view in views))

    def edge_runner(self, graph: Graph) -> EdgeRunner:
        """See `graphtemper.models.predictor.Passes.edge_runner`."""
        projected = self.project(graph.features)
        subsets = EdgeSubsets(graph, self.operator)
        return lambda keep: self._logits(projected, subsets.operator(keep))

    def own_view(self, graph: Graph) -> FloatArray:
        """See `graphtemper.models.predictor.Passes.own_view`."""
        alone = operator(graph.without_neighbours(), self.operator)
        return self._logits(self.project(graph.features), alone)

    def _logits(self, projected: Hidden, matrix: sp.csr_matrix) -> FloatArray:
        return checked_logits(self.finish(projected, matrix), len(projected))
