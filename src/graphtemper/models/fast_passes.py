r"""The passes of a model on changed input, and how a model declares a fast way to take them.

The signals of this package compare the logits of a frozen model on many slightly changed copies of
a graph: with noise on the features, on halves of the feature columns, without some of the edges and
without any. `Passes` is the protocol for these passes, and `passes_of` chooses who takes them:

- the model itself, if it has a method ``fast_passes()`` that returns a `Passes`;
- otherwise `ForwardPasses`, which calls the model once per pass.

Two implementations are ready to use. `graphtemper.models.LinearPasses` is for every model whose
logits are :math:`\sum_k S^k X W_k + b`, and needs only its weights.
`graphtemper.models.FirstLayerPasses` is for networks that read the features through one matrix.

Examples
--------
A linear model of your own becomes fast, and runs on sharded graphs, by declaring its weights:

>>> import numpy as np
>>> from graphtemper import csbm
>>> from graphtemper.graph.operators import operator
>>> from graphtemper.models import LinearPasses
>>> class OneHop:
...     def __init__(self, weights, bias):
...         self.weights, self.bias = weights, bias
...
...     def __call__(self, graph):
...         return operator(graph, "mean") @ (graph.features @ self.weights) + self.bias
...
...     def fast_passes(self):
...         return LinearPasses(self.weights[None], self.bias, hops_used=(1,), operator="mean")
>>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4)
>>> model = OneHop(np.array([[0.0, 1.0]] * 4, dtype=np.float32), np.zeros(2, np.float32))
>>> fast, slow = passes_of(model), ForwardPasses(model)
>>> keep = np.arange(g.num_edges) % 3 > 0
>>> bool(np.allclose(fast.edge_runner(g)(keep), slow.edge_runner(g)(keep), atol=1e-5))
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor, predict

Rows = NDArray[np.int64] | None
EdgeRunner = Callable[[NDArray[np.bool_]], FloatArray]


class HalfViews(NamedTuple):
    """The logits on one half of the feature columns and on the other, (N, K) each.

    The own views are those without neighbours, see `Passes.own_view`.
    """

    first: FloatArray
    second: FloatArray
    own_first: FloatArray
    own_second: FloatArray


@runtime_checkable
class Passes(Protocol):
    """The passes of one model. All logits are (N, K) float64, before division by a temperature.

    An implementation must return the logits that the model itself would return, up to rounding; for
    random noise, up to the distribution of the noise.
    """

    @property
    def thread_safe(self) -> bool:
        """Whether the model and its passes may run in several threads at once."""

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
        """Yield the logits under independent Gaussian noise of standard deviation ``std``.

        Parameters
        ----------
        graph
            The graph whose features receive the noise.
        std
            Standard deviation of the noise per feature column, (F,).
        passes
            Number of draws.
        rng
            Source of the random numbers.
        clean
            Logits of all nodes without noise, (N, K), if they are already available.
        rows
            Nodes to return logits for, (n, K) per pass; default all.
        """

    def half_views(
        self, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray, rows: Rows = None
    ) -> Iterator[HalfViews]:
        """Yield the views of each split of the columns, at the given rows (default all nodes).

        ``halves`` is (splits, F) bool. The first view reads the columns where it is true and the
        second view the others; the columns that a view does not read are set to ``column_mean``.
        """

    def edge_runner(self, graph: Graph) -> EdgeRunner:
        """Return a function from a subset of the edges, (E,) bool, to the logits on it."""

    def own_view(self, graph: Graph) -> FloatArray:
        """Return the logits of every node without its neighbours."""


def passes_of(predictor: Predictor) -> Passes:
    """Return the predictor's own fast passes if it declares them, otherwise real forward passes.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> model = SIGN().fit(csbm.sample(100, degree=6, homophily=0.8, snr=1.0))
    >>> type(passes_of(model)).__name__, type(passes_of(lambda graph: model(graph))).__name__
    ('LinearPasses', 'ForwardPasses')
    """
    declared = declared_passes(predictor)
    return ForwardPasses(predictor) if declared is None else declared


def declared_passes(predictor: Predictor) -> Passes | None:
    """Return what the predictor's ``fast_passes()`` returns, or None if it has no such method."""
    declare = getattr(predictor, "fast_passes", None)
    if declare is None:
        return None
    passes = declare() if callable(declare) else declare
    if passes is None or isinstance(passes, Passes):
        return passes
    raise InputError(
        f"fast_passes of {type(predictor).__name__} must be a method that returns a "
        f"graphtemper.models.Passes or None, not {type(passes).__name__}."
    )


@dataclass(frozen=True, eq=False)
class ForwardPasses:
    """Real forward passes of any predictor, on dense features where these change.

    Examples
    --------
    >>> import numpy as np
    >>> g = Graph(features=[[0.0, 1.0], [0.0, -2.0]], edges=[[0, 1]])
    >>> passes = ForwardPasses(lambda graph: graph.features)
    >>> passes.own_view(g).tolist()
    [[0.0, 1.0], [0.0, -2.0]]
    """

    predictor: Predictor
    thread_safe: bool = False

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
        """See `Passes.noisy`."""
        size = std.astype(np.float32)
        dense = _dense(graph) if size.any() else None
        for _ in range(passes):
            noisy = graph
            if dense is not None:
                draw = rng.standard_normal(dense.shape, dtype=np.float32)
                draw *= size
                draw += dense
                noisy = graph.replace(features=draw)
            logits = predict(self.predictor, noisy)
            yield logits if rows is None else logits[rows]

    def half_views(
        self, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray, rows: Rows = None
    ) -> Iterator[HalfViews]:
        """See `Passes.half_views`; the model runs four times per split."""
        dense, mean = _dense(graph), column_mean.astype(np.float32)
        for half in halves:
            parts = [graph.replace(features=np.where(read, dense, mean)) for read in (half, ~half)]
            views = [predict(self.predictor, part) for part in parts]
            views += [self.own_view(part) for part in parts]
            yield HalfViews(*(view if rows is None else view[rows] for view in views))

    def edge_runner(self, graph: Graph) -> EdgeRunner:
        """See `Passes.edge_runner`."""
        return lambda keep: predict(self.predictor, graph.keep_edges(keep))

    def own_view(self, graph: Graph) -> FloatArray:
        """See `Passes.own_view`; zero if the model cannot run on a graph without edges."""
        try:
            return predict(self.predictor, without_edges(graph))
        except Exception:  # the user's code, which may need an edge for any reason
            return np.zeros_like(predict(self.predictor, graph))


def without_edges(graph: Graph) -> Graph:
    """Return the graph without its edges.

    Examples
    --------
    >>> without_edges(Graph(features=[[1.0], [2.0]], edges=[[0, 1]])).num_edges
    0
    """
    return graph.replace(edges=np.empty((0, 2), dtype=np.int32))


def _dense(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()
