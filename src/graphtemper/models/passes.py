r"""Perturbed passes: the logits of a frozen model on slightly changed input.

Every measurement of this package compares a model's logits on a graph with those on some of its
edges, on some of its feature columns, under feature noise, or without neighbours. `Passes.run` is
the one way to take such a pass, and `passes_of` chooses who takes it:

- the model itself, if it has a method ``fast_passes()`` that returns a `Passes`;
- otherwise `ForwardPasses`, which changes the graph and calls the model.

`ProjectedPasses` is for models that read their features only as X W, for a matrix W (F, C): then

- noise E changes X W by E W, whose rows are Gaussian with covariance
  :math:`W^\top \mathrm{diag}(v)\, W`, where v holds the variance of the noise per column; that
  small Gaussian is drawn in place of E;
- some of the columns give :math:`X D W`, with ones on the diagonal of D at these columns;
- without some edges, or without any, X W is the same.

`linear_passes` makes those of logits :math:`\sum_k S^k X W_k + b`, which propagate K columns
instead of the F columns of X. Without neighbours a node's own features take the place of their
averages: :math:`X (W_0 + \dots + W_H)`.

Examples
--------
A linear model of your own becomes fast by declaring its weights:

>>> from graphtemper import csbm
>>> from graphtemper.graph.operators import operator
>>> class OneHop:
...     def __init__(self, weights, bias):
...         self.weights, self.bias = weights, bias
...
...     def __call__(self, graph):
...         return operator(graph, "mean") @ (graph.features @ self.weights) + self.bias
...
...     def fast_passes(self):
...         return linear_passes(self.weights[None], self.bias, hops_used=(1,), operator="mean")
>>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0, num_features=4)
>>> model = OneHop(np.array([[0.0, 1.0]] * 4, dtype=np.float32), np.zeros(2, np.float32))
>>> fast, slow = passes_of(model), ForwardPasses(model)
>>> keep = np.arange(g.num_edges) % 3 > 0
>>> print(f"{abs(fast.run(g, keep=keep) - slow.run(g, keep=keep)).max():.4f}")
0.0000
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, get_args, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_integer
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import Operator, gaussian_factor, horner, operator, project
from graphtemper.models.predictor import Predictor, check_columns, checked_logits, predict

Float32 = NDArray[np.float32]
Mask = NDArray[np.bool_]


class Columns(NamedTuple):
    """The columns that a pass reads, (F,) bool, and what replaces the others, (F,)."""

    read: Mask
    mean: FloatArray


class Noise(NamedTuple):
    """Standard deviation of feature noise per column, (F,), and a generator to draw it with."""

    std: FloatArray
    rng: np.random.Generator


@runtime_checkable
class Passes(Protocol):
    """The passes of one model.

    An implementation must return the logits that the model itself would return, up to rounding; for
    random noise, up to the distribution of the noise.
    """

    @property
    def thread_safe(self) -> bool:
        """Whether the passes may run in several threads at once."""

    @property
    def cheap(self) -> bool:
        """Whether passes cost too little to be counted."""

    def run(
        self,
        graph: Graph,
        *,
        keep: Mask | None = None,
        columns: Columns | None = None,
        noise: Noise | None = None,
        alone: bool = False,
    ) -> FloatArray:
        """Return the logits of a pass, (N, K) float64.

        Parameters
        ----------
        graph
            The graph.
        keep
            The links to read, (L,) bool over `Graph.links`; default all.
        columns
            The columns to read; default all.
        noise
            Gaussian noise to add to the features.
        alone
            Whether every node is read without its neighbours.
        """


def passes_of(predictor: Predictor) -> Passes:
    """Return the predictor's own fast passes if it declares them, otherwise real forward passes.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> model = SIGN().fit(csbm.sample(100, degree=6, homophily=0.8, snr=1.0))
    >>> type(passes_of(model)).__name__, type(passes_of(lambda graph: model(graph))).__name__
    ('ProjectedPasses', 'ForwardPasses')
    """
    declare = getattr(predictor, "fast_passes", None)
    passes = declare() if callable(declare) else declare
    if passes is None:
        return ForwardPasses(predictor)
    if isinstance(passes, Passes):
        return passes
    raise errors.predictor(
        f"fast_passes of {type(predictor).__name__} must be a method that returns a "
        f"graphtemper.models.Passes or None, not {type(passes).__name__}."
    )


@dataclass(frozen=True, eq=False)
class ForwardPasses:
    """Real forward passes of any predictor, on dense features where these change.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 1.0], [0.0, -2.0]], edges=[[0, 1]])
    >>> ForwardPasses(lambda graph: graph.features).run(g, alone=True).tolist()
    [[0.0, 1.0], [0.0, -2.0]]
    """

    predictor: Predictor
    thread_safe: bool = False
    cheap: bool = False

    def run(
        self,
        graph: Graph,
        *,
        keep: Mask | None = None,
        columns: Columns | None = None,
        noise: Noise | None = None,
        alone: bool = False,
    ) -> FloatArray:
        """See `Passes.run`.

        A model that cannot run on a graph without edges is run once more, with copies of the nodes
        that have none; in a graph with attributes or types of edges it has zeros for own views.
        """
        changed = _links(graph, keep, alone)
        if columns is not None or noise is not None:
            features = graph.features
            dense = features if isinstance(features, np.ndarray) else features.toarray()
            if columns is not None:
                dense = np.where(columns.read, dense, columns.mean.astype(np.float32))
            if noise is not None:
                draw = noise.rng.standard_normal(dense.shape, dtype=np.float32)
                draw *= noise.std.astype(np.float32)
                dense = np.add(draw, dense, out=draw)
            changed = changed.replace(features=dense)
        if not alone:
            return predict(self.predictor, changed)
        try:
            return predict(self.predictor, changed)
        except Exception:  # the user's code, which may need an edge for any reason
            joined = _with_copies(graph.replace(features=changed.features))
            if joined is not None:
                return predict(self.predictor, joined)[graph.num_nodes :]
            return np.zeros_like(predict(self.predictor, graph))


def _links(graph: Graph, keep: Mask | None, alone: bool) -> Graph:
    if alone:
        return graph.without_neighbours()
    return graph if keep is None else graph.keep_links(keep)


def _with_copies(graph: Graph) -> Graph | None:
    """Return a graph with a copy of every node, without edges; None if edges are not plain."""
    if not graph.is_plain:
        return None
    features = graph.features
    twice: Features = (
        np.vstack([features, features])
        if isinstance(features, np.ndarray)
        else sp.csr_matrix(sp.vstack([features, features]))
    )
    return Graph(features=twice, edges=graph.edges)


@dataclass(frozen=True, eq=False)
class ProjectedPasses:
    """The passes of a model that reads the features only as X W.

    Return one from the ``fast_passes`` method of your own network.

    Parameters
    ----------
    weights : (F, C) array
        The matrix W through which the model reads the features.
    finish : callable ``(X W, graph) -> logits (N, K)``
        The rest of the model, from X W (float32) and a graph of which it reads the edges alone.
    alone : callable ``X W -> logits (N, K)``, optional
        The same for nodes without neighbours; default ``finish`` on a graph without edges.
    thread_safe, cheap : bool
        See `Passes`.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> g = csbm.sample(300, degree=10, homophily=0.9, snr=1.0, num_features=6, seed=1)
    >>> inner, outer = np.ones((6, 8), np.float32), np.eye(8, 2, dtype=np.float32)
    >>> def finish(projected, graph):
    ...     return operator(graph) @ np.maximum(operator(graph) @ projected, 0.0) @ outer
    >>> ProjectedPasses(inner, finish).run(g, alone=True).shape
    (300, 2)
    """

    weights: Float32
    finish: Callable[[Float32, Graph], NDArray[np.floating]]
    alone: Callable[[Float32], NDArray[np.floating]] | None = None
    thread_safe: bool = True
    cheap: bool = True
    # What was read of the last graph, by columns: a view and its own view read the same.
    _last: list[tuple[Graph, bytes, Float32]] = field(default_factory=list, repr=False)

    def run(
        self,
        graph: Graph,
        *,
        keep: Mask | None = None,
        columns: Columns | None = None,
        noise: Noise | None = None,
        alone: bool = False,
    ) -> FloatArray:
        """See `Passes.run`."""
        projected = self._read(graph, columns)
        if noise is not None:
            factor = gaussian_factor(self.weights, noise.std)
            shape = (graph.num_nodes, len(factor))
            draw = noise.rng.standard_normal(shape, dtype=np.float32)
            projected = np.asarray(projected + project(draw, factor), dtype=np.float32)
        if alone and self.alone is not None:
            logits = self.alone(projected)
        else:
            logits = self._finished(projected, graph, _links(graph, keep, alone), alone)
        # A model is checked when it is called; of its passes, only what could overflow.
        wide = np.asarray(logits, dtype=np.float64)
        return wide if np.isfinite(wide.sum()) else checked_logits(wide, graph.num_nodes)

    def _finished(
        self, projected: Float32, graph: Graph, changed: Graph, alone: bool
    ) -> NDArray[np.floating]:
        """Return the logits; those of nodes alone from copies if the model needs an edge."""
        try:
            return self.finish(projected, changed)
        except Exception:  # the user's code
            joined = _with_copies(graph) if alone else None
            if joined is None:
                raise
            return self.finish(np.vstack([projected, projected]), joined)[graph.num_nodes :]

    def logits(self, graph: Graph) -> Float32:
        """Return the model's own logits, unchecked."""
        return np.asarray(self.finish(self._read(graph, None), graph), dtype=np.float32)

    def _read(self, graph: Graph, columns: Columns | None) -> Float32:
        """Return X W, of some of the columns with the means of the others."""
        key = b"" if columns is None else columns.read.tobytes()
        found = self._multiplied(graph, key, columns)
        if columns is None:
            return found
        return found + columns.mean.astype(np.float32) @ (self.weights * ~columns.read[:, None])

    def _multiplied(self, graph: Graph, key: bytes, columns: Columns | None) -> Float32:
        """Return the products of some columns, which are kept for the next passes."""
        for other, name, found in self._last:
            if other is graph and name == key:
                return found
        check_columns(graph.features, len(self.weights))
        weights = self.weights if columns is None else self.weights * columns.read[:, None]
        found = project(graph.features, weights).astype(np.float32, copy=False)
        found.setflags(write=False)
        # All columns of a graph are read again and again, some of them twice.
        self._last[:] = [item for item in self._last if item[0] is graph and item[1] == b""]
        self._last.append((graph, key, found))
        return found


def linear_passes(
    weights: FloatArray,
    intercept: FloatArray,
    hops_used: tuple[int, ...],
    operator: Operator = "self-loop",
) -> ProjectedPasses:
    r"""Return the passes of a linear graph model, with logits :math:`\sum_k S^k X W_k + b`.

    Parameters
    ----------
    weights : (terms, F, K) array
        The matrices :math:`W_k`, one per power of S in use.
    intercept : (K,) array
    hops_used : tuple of int
        The powers k of S in use, in increasing order.
    operator : {"self-loop", "symmetric", "mean"}
        The aggregation operator S; see `graphtemper.graph.operators.operator`.
    """
    hops = tuple(check_integer(hop, "a power in hops_used", 0) for hop in hops_used)
    if not hops or list(hops) != sorted(set(hops)):
        raise errors.range(f"hops_used must increase and not be empty, not {hops_used!r}.")
    if operator not in get_args(Operator):
        names = ", ".join(get_args(Operator))
        raise errors.choice(f"unknown operator {operator!r}; use one of {names}.")
    terms, bias = (np.asarray(values, dtype=np.float32) for values in (weights, intercept))
    shape = (len(hops), *terms.shape[1:2], *bias.shape)
    if terms.ndim != 3 or bias.ndim != 1 or terms.shape != shape:
        raise errors.shape(
            f"weights must have shape ({len(hops)}, F, K) and intercept (K,), not "
            f"{terms.shape} and {bias.shape}."
        )
    side_by_side = np.ascontiguousarray(terms.transpose(1, 0, 2).reshape(terms.shape[1], -1))
    return ProjectedPasses(
        side_by_side,
        partial(_propagated, bias=bias, hops=hops, kind=operator),
        alone=partial(_summed, bias=bias),
    )


def _propagated(
    projected: Float32, graph: Graph, *, bias: Float32, hops: tuple[int, ...], kind: Operator
) -> Float32:
    parts = iter(np.split(projected, len(hops), axis=1))
    empty = np.zeros((1, bias.size), np.float32)  # the term of a power that is not in use
    terms = [next(parts) if hop in hops else empty for hop in range(hops[-1] + 1)]
    total = horner(operator(graph, kind), terms) if hops[-1] else terms[0]
    return np.asarray(total + bias, dtype=np.float32)


def _summed(projected: Float32, *, bias: Float32) -> Float32:
    """Return the logits of nodes whose own features replace the averages over neighbours."""
    return np.asarray(projected.reshape(len(projected), -1, bias.size).sum(axis=1) + bias)
