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

**Split views.** The model on two disjoint halves of the feature columns; a view sets the columns of
the other half to their means. Corruption is independent between the halves, so it drops out of the
covariance of the two outputs, and the signal remains. With the same splits at source and target,
the ratio of the two covariances is a squared *signal gain*:

.. math:: g^2 = \frac{\sum_s \mathrm{tr}\,\mathrm{Cov}_t(u_s, v_s)}
                     {\sum_s \mathrm{tr}\,\mathrm{Cov}_s(u_s, v_s)}.

The sums are over splits and come before the ratio, because the covariance of a single split may be
near zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.graph.normalised import link_matrix, some_links
from graphtemper.graph.operators import adjacency, multiply
from graphtemper.models.linear_passes import LinearPasses
from graphtemper.models.predictor import HalfViews, Rows
from graphtemper.signals import passes as perturb
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe

# Size of the sample of nodes at which split views, noisy passes and the SNR of a larger graph are
# measured. An agreement then has an error of 0.002, a tenth of what the atlas can resolve. Own
# views, edges and held-out edges are measured everywhere.
ENOUGH_NODES = 100_000


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
    views = _centred(own, degree, centre)
    stored, unit = _single(views)
    square = np.einsum("ik,ik->i", stored, stored)
    sums = multiply(matrix, stored, wide=True)
    squares = multiply(matrix, square, wide=True)
    edge = unit * np.einsum("ik,ik->i", views, sums)[nodes]
    pairs = unit * unit * (np.einsum("ik,ik->i", sums, sums) - squares)[nodes]
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
        self._own, self._unit = _single(_centred(own, self._degree, centre))
        self._sums, self._counts = np.zeros(graph.num_nodes), np.zeros(graph.num_nodes)

    def add(self, logits: FloatArray, edges: NDArray[np.int32]) -> None:
        """Add one pass: logits (N, K) on a graph without ``edges``."""
        held = link_matrix(edges, self._sums.size)
        near = multiply(held, self._own, wide=True)
        z = _centred(logits, self._degree, self._centre)
        self._sums += self._unit * np.einsum("ik,ik->i", z, near)
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
        raise InputError(
            "the model's logits overflow on a part of its input; check the scale of the features."
        )
    return Covariance(value, error)


def _centred(views: FloatArray, degree: FloatArray, centre: Rows = None) -> FloatArray:
    """Return logits with mean zero at every node and over all ends of edges.

    The mean is that of the whole graph, or of the rows ``centre``, and not of the observed nodes:
    if one class dominates among these, centring on them would look like lost signal.
    """
    share = np.full((views.shape[1], 1), 1.0 / views.shape[1])
    moved = views - views @ share  # a product is faster than a mean of short rows
    known, weight = (moved, degree) if centre is None else (moved[centre], degree[centre])
    total = float(weight.sum())
    moved -= weight @ known / total if total > 0.0 else known.mean(axis=0)
    return np.asarray(moved)


def _single(views: FloatArray) -> tuple[NDArray[np.float32], float]:
    """Return views in float32 and their unit, a power of two, so that no size over- or underflows.

    What is stored is exact to 6e-8 of each number, far below the sampling error of a covariance,
    and half as large to read once per edge. Sums are in float64.
    """
    largest = max(float(views.max(initial=0.0)), -float(views.min(initial=0.0)))
    unit = 2.0 ** np.frexp(largest)[1] if 0.0 < largest < np.inf else 1.0
    stored = np.empty(views.shape, np.float32)
    np.multiply(views, 1.0 / unit, out=stored, casting="same_kind")
    return stored, float(unit)


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


def node_products(
    first: FloatArray, second: FloatArray, centre: Rows = None, nodes: Rows = None
) -> FloatArray:
    """Return the contribution of each node, or of some, to the covariance of two views.

    Their mean is the trace of the covariance. Logits are centred per node first, because a constant
    added to all logits of a node has no effect.

    The spread over nodes gives the standard error. The views are centred over the whole graph, or
    over the rows ``centre``, a uniform sample of it, so that the product of a node does not depend
    on which other nodes are observed.

    Examples
    --------
    >>> u = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> node_products(u, u).tolist(), node_products(u, -u).tolist()
    ([2.0, 2.0], [-2.0, -2.0])
    """
    views = [np.asarray(view, dtype=np.float64) for view in (first, second)]
    classes = views[0].shape[1]
    # The products of centred views, without writing these: with means a and b over nodes,
    # (u - a)(v - b) = uv - ub - va + ab, and a and b have mean zero over classes.
    some = views if centre is None else [view[centre] for view in views]
    share = np.full(len(some[0]), 1.0 / len(some[0]))
    middle = [centred((share @ view)[None]) for view in some]
    if nodes is not None:
        views = [view[nodes] for view in views]
    (u, total_u), (v, total_v) = (
        (view @ np.column_stack([other[0], np.ones(classes)])).T
        for view, other in zip(views, middle[::-1], strict=True)
    )
    product = np.einsum("ik,ik->i", *views)
    product -= total_u * total_v / classes + u + v
    return np.asarray(product + float((middle[0] * middle[1]).sum()))


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    share = np.full((values.shape[1], 1), 1.0 / values.shape[1])
    return np.asarray(values - values @ share)  # a product is faster than a mean of short rows


def measure_passes(observation: Observation, probe: Probe) -> dict[str, Any]:
    """Return what the passes show, by the names of `graphtemper.signals.evidence.Evidence`.

    Arrays of all nodes live as short as possible: the widest passes come first.
    """
    graph, nodes = observation.graph, observation.nodes
    passes = probe.passes_over(observation.num_nodes, fewest=2)  # agreement needs two passes
    feature, own_feature = halves(observation, probe)
    sizes = [observation.column_moments[1], probe.column_std]
    noise, source_noise = noise_agreements(observation, probe.noise_level, passes, sizes)
    own = observation.passes.own_view(graph) / probe.temperature
    edge, wedge = edges_and_wedges(own, graph, nodes, observation.centre)
    held_out = HeldOutProducts(own, graph, nodes, observation.centre)
    agreement = _held_out_agreement(observation, probe, held_out)
    return dict(
        feature=feature,
        own_feature=own_feature,
        edge=edge,
        wedge=wedge,
        held=held_out.covariance,
        noise_agreement=noise,
        source_noise_agreement=source_noise,
        edge_agreement=agreement,
    )


def halves(observation: Observation, probe: Probe) -> tuple[Covariance, Covariance]:
    """Return the covariance between halves of the columns, for the model and for its own view."""
    graph = observation.graph
    mean, _ = observation.column_moments
    splits = column_halves(graph.num_features, probe.splits, probe.seed)
    classified = graph.classified
    everywhere = observation.centre
    if everywhere is None:
        everywhere = sample_nodes(observation, classified)
    observes_all = observation.num_nodes == classified.size
    nodes = everywhere if observes_all else sample_nodes(observation, observation.nodes)
    rows = None if everywhere.size == graph.num_nodes else np.union1d(everywhere, nodes)
    centre = None if rows is None else np.searchsorted(rows, everywhere)
    at = nodes if rows is None else np.searchsorted(rows, nodes)
    whole, alone = np.zeros(nodes.size), np.zeros(nodes.size)
    with np.errstate(over="ignore", invalid="ignore"):
        for views in _half_views(observation, splits, mean, rows):
            whole += node_products(views.first, views.second, centre, at)
            alone += node_products(views.own_first, views.own_second, centre, at)
    # Averages over splits come first: the splits of one node are dependent, nodes nearly are not.
    ones = np.full(nodes.size, probe.splits * probe.temperature**2)
    return ratio_of_sums(whole, ones), ratio_of_sums(alone, ones)


def _half_views(
    observation: Observation, halves: NDArray[np.bool_], mean: FloatArray, rows: Rows
) -> Iterator[HalfViews]:
    graph, model = observation.graph, observation.passes
    if isinstance(model, LinearPasses):
        return model.half_views(graph, halves, mean, rows, clean=observation.at(1.0).all_logits)
    return model.half_views(graph, halves, mean, rows)


def sample_nodes(observation: Observation, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes, or a sorted sample of `ENOUGH_NODES` if there are more."""
    if nodes.size <= ENOUGH_NODES:
        return nodes
    salt = stream(observation.seed, "measured nodes").integers(2**64, dtype=np.uint64)
    draws = perturb.mixed(observation.node_keys[nodes] + salt)
    return np.sort(nodes[np.argpartition(draws, ENOUGH_NODES)[:ENOUGH_NODES]])


def noise_agreement(observation: Observation, level: float, passes: int) -> float:
    """Return how often two passes agree under noise of the graph's own size."""
    return noise_agreements(observation, level, passes, [observation.column_moments[1]])[0]


def noise_agreements(
    observation: Observation, level: float, passes: int, column_stds: Sequence[FloatArray]
) -> list[float]:
    """Return how often two noisy passes agree, over the observed nodes or a sample of them.

    The noise is ``level`` times each of the ``column_stds``, with the same random numbers.
    """
    graph, model, seed = observation.graph, observation.passes, observation.seed
    sample, keys = sample_nodes(observation, observation.nodes), observation.node_keys
    rows = None if sample.size == graph.num_nodes else sample
    clean = observation.at(1.0).all_logits
    if isinstance(model, LinearPasses):
        rng = perturb.OrderedDraws(stream(seed, "feature_noise"), keys)
        sizes = [level * std for std in column_stds]
        runs = model.noisy_in_sizes(graph, sizes, passes, rng, clean=clean, rows=rows)
        votes = np.split(perturb.count_votes(map(np.vstack, runs)), len(sizes))
    else:
        options: dict[str, Any] = {"clean": clean, "rows": rows, "keys": keys}
        votes = [
            perturb.count_votes(
                perturb.feature_noise(
                    observation.predictor, graph, level, passes, seed, column_std=std, **options
                )
            )
            for std in column_stds
        ]
    return [1.0 - signals.pairwise_disagreement(some) for some in votes]


def _held_out_agreement(observation: Observation, probe: Probe, held_out: HeldOutProducts) -> float:
    """Return Cohen's kappa of the predictions at the two ends of held-out edges.

    Predictions at the ends of an edge in use agree because the ends exchange messages. Across a
    held-out edge they agree only if the classes do and the predictions are right. The same passes
    are added to the held-out products.
    """
    edges = observation.graph.links
    if not len(edges):
        return 0.0
    run = observation.passes.edge_runner(observation.graph)
    rng = stream(observation.seed, "held-out edges")
    values = []
    for _ in range(probe.passes_over(observation.num_nodes)):
        keep = perturb.kept_links(observation.link_keys, probe.edge_share, rng)
        if observation.part is not None:
            keep[observation.part.links] = False
        logits, left_out = run(keep), some_links(edges, ~keep)
        held_out.add(logits / probe.temperature, left_out)
        values.append(observation.agreement(logits, left_out))
    return float(np.mean(values))
