r"""Covariances between views of the model, in which noise averages out.

**Neighbours.** Products of the views of neighbouring nodes.

The *own view* :math:`o_i` of a node holds the logits of the model without the node's neighbours.
Let own views carry their class with strength a, and let the classes of two neighbours have
correlation :math:`\eta` (2h - 1 in a binary graph). Noise is not shared between nodes; hence, up to
a constant that depends on the classes,

.. math:: c_{edge} = \langle o_i, o_j \rangle_{i \sim j} = a^2 \eta, \qquad
          c_{wedge} = \langle o_j, o_k \rangle_{j \sim i \sim k} = a^2 \eta^2 .

These two equations determine both unknowns. Relative to the source, the *own gain* is the ratio of
the edge covariances over the root of the ratio of the wedge covariances, and the *homophily gain*
is the ratio of the wedge covariances over that of the edge covariances. With logits :math:`z_i` of
the whole model on a graph without the edge (i, j),

.. math:: c_{held} = \langle z_i, o_j \rangle = g\,a\,\eta,

so the *model gain* g is the ratio of the held-out covariances over the root of the ratio of the
wedge covariances. The only assumption about the corruption is that it is not shared between nodes.
Unlike halves of the columns, neighbour covariances notice features that belong to another node.

**Split views.** The first view u is the model on half of the feature columns, the others at their
means; the second is what the other columns add, v = z - u for the clean logits z (see `views`).
Corruption is independent between the halves, so it drops out of the covariance of the two, and the
signal remains. With the same splits at source and target,
the ratio of the two covariances is a squared *signal gain*:

.. math:: g^2 = \frac{\sum_s \mathrm{tr}\,\mathrm{Cov}_t(u_s, v_s)}
                     {\sum_s \mathrm{tr}\,\mathrm{Cov}_s(u_s, v_s)}.

The sums are over splits and come before the ratio, because the covariance of a single split may be
near zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import map_blocks
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import adjacency, link_matrix, multiply

Rows = NDArray[np.int64] | None
# Arrays of a block of logits that are worked on at once, which must fit into the cache.
_COPIES = 4


class Covariance(NamedTuple):
    """A covariance of two views, with its standard error over nodes."""

    value: float
    error: float


def edges_and_wedges(
    own: FloatArray, graph: Graph, nodes: NDArray[np.int64], centre: Rows = None
) -> tuple[Covariance, Covariance]:
    r"""Return the covariance of own views over edges and over wedges at the given nodes.

    A wedge is a pair of neighbours of the same node. ``centre`` are the rows over which views are
    centred, a uniform sample of the nodes; default all.

    With :math:`s_i = \sum_{j \sim i} o_j`, the products over all pairs of neighbours of a node sum
    to :math:`|s_i|^2 - \sum_j |o_j|^2`, so the cost is O(E K). A node has weight 1 per edge, and
    each pair of its d neighbours has weight 1/d.

    Examples
    --------
    >>> own = np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]])
    >>> path = Graph(features=own, edges=[[0, 1], [1, 2], [2, 3]])
    >>> edge, wedge = edges_and_wedges(own, path, np.arange(4))
    >>> round(edge.value, 3), wedge.value  # two of three edges agree, no wedge does
    (0.667, -2.0)
    """
    degree, matrix = graph.degrees.astype(np.float64), adjacency(graph)
    views, unit = _stored(own, degree, centre)
    sums = multiply(matrix, views)
    squares = multiply(matrix, np.einsum("ik,ik->i", views, views))
    edge = unit**2 * _row_products(views, sums)[nodes]
    pairs = unit**2 * (_row_products(sums, sums) - squares)[nodes]
    d = degree[nodes]
    return (
        ratio_of_sums(edge, d),
        ratio_of_sums(np.where(d > 1, pairs / np.maximum(d, 1.0), 0.0), np.maximum(d - 1.0, 0.0)),
    )


class HeldOutProducts:
    """Sums of products of a node's logits with its neighbours' own views across held-out edges."""

    def __init__(
        self, own: FloatArray, graph: Graph, nodes: NDArray[np.int64], centre: Rows = None
    ) -> None:
        self._nodes, self._degree = nodes, graph.degrees.astype(np.float64)
        self._centre = centre
        self._own, self._unit = _stored(own, self._degree, centre)
        self._sums, self._counts = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)

    def add(self, logits: FloatArray, edges: NDArray[np.int32]) -> None:
        """Add one pass: logits (N, K) on a graph without ``edges``."""
        held = link_matrix(edges, self._sums.size)
        near = multiply(held, self._own)
        views, unit = _stored(logits, self._degree, self._centre)
        self._sums += self._unit * unit * _row_products(views, near)
        self._counts += np.diff(held.indptr)

    @property
    def covariance(self) -> Covariance:
        """The covariance at the observed nodes: the mean product."""
        return ratio_of_sums(self._sums[self._nodes], self._counts[self._nodes])


def ratio_of_sums(sums: FloatArray, weights: FloatArray) -> Covariance:
    """Return sum(sums) / sum(weights) with its standard error for independent nodes.

    If all weights are zero, both the value and the error are zero.

    Examples
    --------
    >>> ratio_of_sums(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    Covariance(value=2.0, error=0.7071067811865476)
    """
    total = float(weights.sum())
    if total <= 0.0:
        return Covariance(0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(sums.sum()) / total
        error = float(np.sqrt(((sums - value * weights) ** 2).sum())) / total
    if not np.isfinite(error):
        raise errors.range(
            "the model's logits overflow on a part of its input; check the scale of the features."
        )
    return Covariance(value, error)


def _stored(
    views: FloatArray, degree: FloatArray, centre: Rows = None
) -> tuple[NDArray[np.float32], float]:
    """Return logits with mean zero at every node and over all ends of edges, and their unit.

    The mean is that of the whole graph, or of the rows ``centre``, and not of the observed nodes:
    if one class dominates among these, centring on them would look like lost signal. What is
    stored, in units of a power of two so that no size over- or underflows, is exact to 6e-8 of each
    number, far below the sampling error of a covariance, and half as large to read once per edge.
    """
    known, weight = (views, degree) if centre is None else (views[centre], degree[centre])
    total, classes = float(weight.sum()), views.shape[1]
    mean = weight @ known / total if total > 0.0 else known.mean(axis=0)
    mean -= mean.mean()
    largest = max(float(views.max(initial=0.0)), -float(views.min(initial=0.0)))
    unit = float(2.0 ** np.frexp(largest)[1]) if 0.0 < largest < np.inf else 1.0
    stored, share = np.empty(views.shape, np.float32), np.full((classes, 1), 1.0 / classes)

    def write(rows: slice) -> None:
        block = views[rows] - mean
        block -= block @ share  # a product is faster than a mean of short rows
        np.multiply(block, 1.0 / unit, out=stored[rows], casting="same_kind")

    map_blocks(write, len(views), _COPIES * classes)
    return stored, unit


def _row_products(one: NDArray[np.float32], other: NDArray[np.float32]) -> FloatArray:
    """Return the scalar product of each row with that of the other array."""
    products = np.empty(len(one))

    def write(rows: slice) -> None:
        products[rows] = np.einsum("ik,ik->i", one[rows], other[rows], dtype=np.float64)

    map_blocks(write, len(one), _COPIES * one.shape[1])
    return products


def column_halves(num_features: int, splits: int, seed: int) -> NDArray[np.bool_]:
    """Return random halves of the columns, (splits, F) bool; the same seed gives the same halves.

    Examples
    --------
    >>> column_halves(6, 2, seed=0).sum(axis=1).tolist()
    [3, 3]
    """
    halves = np.zeros((splits, num_features), dtype=bool)
    for row in range(splits):
        order = np.random.default_rng([seed, row]).permutation(num_features)
        halves[row, order[: num_features // 2]] = True
    return halves


class SplitNodes(NamedTuple):
    """What the two views u and v of a split show at each node, (n,) each.

    ``product`` is the node's contribution to the trace of their covariance, ``square`` their
    squared difference, ``lead`` the smaller of their `leads` and ``agree`` the share of the two
    whose largest logit is that of the prediction.
    """

    product: FloatArray
    square: FloatArray
    lead: FloatArray
    agree: FloatArray


def split_nodes(
    first: FloatArray,
    whole: FloatArray,
    predicted: NDArray[np.intp],
    centre: Rows = None,
    nodes: Rows = None,
) -> SplitNodes:
    """Return what the views ``first`` and ``whole - first`` show at each node, or at some.

    Logits are centred per node, because a constant added to all logits of a node has no effect.
    Products are of deviations from the mean over the whole graph, or over the rows ``centre``, a
    uniform sample of it, so that the product of a node does not depend on which other nodes are
    observed. ``predicted`` are the predictions at the nodes that are returned.

    Blocks of nodes are worked on class by class and stay in the cache; no array of the size of the
    logits is written.

    Examples
    --------
    >>> u = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> shown = split_nodes(u, 2.0 * u, np.array([0, 0]))
    >>> shown.product.tolist(), shown.square.tolist(), shown.lead.tolist(), shown.agree.tolist()
    ([2.0, 2.0], [0.0, 0.0], [2.0, -2.0], [1.0, 0.0])
    """
    some = [view if centre is None else view[centre] for view in (first, whole)]
    share = np.full(len(some[0]), 1.0 / len(some[0]))
    mean_first, mean_whole = (share @ view for view in some)
    means = [mean - mean.mean() for mean in (mean_first, mean_whole - mean_first)]
    count, classes = predicted.size, whole.shape[1]
    shown = SplitNodes(*(np.empty(count) for _ in range(4)))

    def write(block: slice) -> None:
        rows = block if nodes is None else nodes[block]
        u = np.array(first[rows].T, dtype=np.float64, order="C")
        v = whole[rows].T - u
        for view in (u, v):
            view -= view.sum(axis=0) / classes
        apart = u - v
        shown.square[block] = np.einsum("kn,kn->n", apart, apart)
        deviations = (view - mean[:, None] for view, mean in zip((u, v), means, strict=True))
        shown.product[block] = np.einsum("kn,kn->n", *deviations)
        one, other = (_leads(view, predicted[block]) for view in (u, v))
        shown.lead[block] = np.minimum(one, other)
        shown.agree[block] = 0.5 * ((one > 0.0).astype(np.float64) + (other > 0.0))

    map_blocks(write, count, _COPIES * classes)
    return shown


def _leads(view: FloatArray, predicted: NDArray[np.intp]) -> FloatArray:
    """Return `leads` of logits (K, n), which are overwritten; ties go to the first class."""
    columns = np.arange(predicted.size)
    own = view[predicted, columns]
    view[predicted, columns] = -np.inf
    lead = own - view.max(axis=0)
    tied = np.flatnonzero(lead == 0.0)
    first = view[:, tied].argmax(axis=0)
    lead[tied[predicted[tied] < first]] = np.nextafter(0.0, 1.0)
    return np.asarray(lead)


def leads(values: FloatArray, predicted: NDArray[np.intp]) -> FloatArray:
    """Return the logit of the prediction minus the largest other logit, (n,).

    Examples
    --------
    >>> leads(np.array([[1.0, 3.0], [2.0, 0.5]]), np.array([1, 1])).tolist()
    [2.0, -1.5]
    """
    return _leads(np.array(values.T, dtype=np.float64), predicted)


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    share = np.full((values.shape[1], 1), 1.0 / values.shape[1])
    return np.asarray(values - values @ share)  # a product is faster than a mean of short rows
