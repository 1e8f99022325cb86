r"""Shared passes: the evidence of a model that is expensive to run, in few forward passes.

Measured one by one, halves of the columns, two kinds of noise, held-out edges and own views take
45 passes. Here a graph takes a clean pass, two passes per split of the columns, and one pass per
split but the first, at least one, without some edges:

- One pass of a split reads half of the columns, the others being set to their means. The second
  view is what the other columns add, :math:`v = z - u` for clean logits z and the first view u.
  For a linear model that averages over neighbours it is the view of the other half up to a
  constant; in general, noise of the first half cancels from it to first order.
- The other has feature noise. Its agreement with the clean prediction takes the place of the
  agreement between noisy passes. The change of the logits is also subtracted, which to first order
  is a pass with the opposite noise: a prediction rarely changes in both, so the mean of the two
  agreements is more than twice as precise. The agreement under noise of the source's size, which
  may differ from the graph's own by a factor r, is that of the clean logits plus r times their
  change.
- Passes without a random share of the edges give the held-out edges of `covariances`. Noise would
  hide what they show, so they have none.

Own views, without neighbours, are read off copies of the nodes that join these passes without
edges, unless they are known: they depend on the features alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import ball
from graphtemper.graph.operators import adjacency
from graphtemper.models.predictor import (
    checked_logits,
    dense_features,
    predict,
)
from graphtemper.signals.covariances import (
    Covariance,
    HeldOutProducts,
    centred,
    column_halves,
    edges_and_wedges,
    node_products,
    ratio_of_sums,
)
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import OrderedDraws, Probe, feature_noise, kept_links

Float32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class OwnViews:
    """The logits of every node without its neighbours, (N, K): of all columns, and per half."""

    whole: FloatArray
    halves: tuple[FloatArray, ...]


OWN_VIEWS = ("own views",)
"""Under this key the memo of an observation may hold its `OwnViews`."""


@dataclass(frozen=True, eq=False)
class SharedViews:
    """What shared passes show, in units of the source temperature.

    Attributes
    ----------
    feature, own_feature
        Covariance between the views of a split, and between its own views.
    edge, wedge, held
        Neighbour covariances, see `graphtemper.signals.covariances`.
    noise_agreement, source_noise_agreement
        How often a noisy prediction is the clean one, with noise of the graph's own size and of
        the source's.
    edge_agreement
        Cohen's kappa across held-out edges.
    own : OwnViews
        The own views of every node, before division by the temperature.
    own_square : (N,) array
        Squared difference of the own views of a split.
    square, lead, agree : (n,) arrays
        Squared difference of the views of a split, the smaller lead of the prediction in them, and
        how often they agree with it.
    """

    feature: Covariance
    own_feature: Covariance
    edge: Covariance
    wedge: Covariance
    held: Covariance
    noise_agreement: float
    source_noise_agreement: float
    edge_agreement: float
    own: OwnViews
    own_square: FloatArray
    square: FloatArray
    lead: FloatArray
    agree: FloatArray


def measure(observation: Observation, probe: Probe) -> SharedViews:
    """Measure an observation, once.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=8, homophily=0.8, snr=1.0, num_features=10, seed=1)
    >>> probe = Probe(1.0, 0.5, g.features.std(axis=0), 0.9, 0.1, seed=0, shared_splits=2)
    >>> views = measure(Observation(SIGN().fit(g), g), probe)
    >>> views.edge.value > 5 * views.edge.error, views.edge_agreement > 0.2
    (True, True)
    """
    key = ("shared passes", probe.shared_splits, probe.temperature, probe.noise_level)
    if key not in observation.memo:
        with np.errstate(over="ignore", invalid="ignore"):
            observation.memo[key] = _in_passes(observation, probe)
    views: SharedViews = observation.memo[key]
    return views


def _in_passes(observation: Observation, probe: Probe) -> SharedViews:
    graph, nodes = observation.graph, observation.nodes
    passes = _Passes(observation, probe)
    own, held, edge_agreement = _held_out(observation, probe, passes)
    halves, firsts = _Halves.of(observation, probe, passes, own)
    edge, wedge = edges_and_wedges(own / probe.temperature, graph, nodes, observation.centre)
    near, far = _noise_agreements(observation, probe, passes)
    return SharedViews(
        **halves.__dict__,
        edge=edge,
        wedge=wedge,
        held=held,
        noise_agreement=near,
        source_noise_agreement=far,
        edge_agreement=edge_agreement,
        own=OwnViews(own, firsts),
    )


def own_views(observation: Observation, probe: Probe) -> OwnViews:
    """Return the own views of an observation, as far as it reads halves of the columns."""
    return measure(observation, probe).own


def _held_out(
    observation: Observation, probe: Probe, passes: _Passes
) -> tuple[FloatArray, Covariance, float]:
    """Return own views, the covariance across held-out edges, and the agreement across them."""
    graph, rounds = observation.graph, num_held_out(probe.shared_splits)
    kept = [passes.kept() for _ in range(rounds)]
    logits, own = passes.without_and_own(kept[0])
    products = HeldOutProducts(
        own / probe.temperature, graph, observation.nodes, observation.centre
    )
    kappas = []
    for position, keep in enumerate(kept):
        found = passes.without(keep) if position else logits
        held_out = graph.links[~keep]
        if len(held_out):
            kappas.append(observation.agreement(found, held_out))
            products.add(found / probe.temperature, held_out)
    return own, products.covariance, float(np.mean(kappas)) if kappas else 0.0


def num_held_out(splits: int) -> int:
    """Return the number of passes without some edges."""
    return max(splits - 1, 1)


def _noise_agreements(
    observation: Observation, probe: Probe, passes: _Passes
) -> tuple[float, float]:
    """Return how often noise leaves predictions as they are: of the graph's size, the source's."""
    nodes, predicted = observation.nodes, observation.predictions
    clean = passes.clean[nodes]
    factor = _noise_ratio(probe.column_std, observation.column_moments[1])
    near: list[float] = []
    far: list[float] = []
    for _ in range(probe.shared_splits):
        change = passes.noisy()[nodes] - clean
        for found, size in ((near, 1.0), (far, factor)):
            both = (clean + sign * size * change for sign in (1.0, -1.0))
            found += [float((logits.argmax(axis=1) == predicted).mean()) for logits in both]
    return float(np.mean(near)), float(np.mean(far))


@dataclass(frozen=True, eq=False)
class _Halves:
    """What the halves of the columns show; see `SharedViews`."""

    feature: Covariance
    own_feature: Covariance
    own_square: FloatArray
    square: FloatArray
    lead: FloatArray
    agree: FloatArray

    @classmethod
    def of(
        cls, observation: Observation, probe: Probe, passes: _Passes, own: FloatArray
    ) -> tuple[_Halves, tuple[FloatArray, ...]]:
        nodes, predicted, clean = observation.nodes, observation.predictions, passes.clean
        centre = observation.centre
        splits, unit = probe.shared_splits, probe.temperature
        whole, alone, square, lead, agree = (np.zeros(nodes.size) for _ in range(5))
        own_square = np.zeros(observation.graph.num_nodes)
        firsts = []
        halves = column_halves(observation.graph.num_features, splits, probe.seed)
        for number, half in enumerate(halves):
            first, own_first = passes.half(half, number)
            firsts.append(own_first)
            whole += node_products(first, clean - first, centre, nodes)
            alone += node_products(own_first, own - own_first, centre, nodes)
            pair = [centred(view[nodes]) for view in (first, clean - first)]
            square += ((pair[0] - pair[1]) ** 2).sum(axis=1)
            lead += np.minimum(*(leads(view, predicted) for view in pair))
            agree += sum((view.argmax(axis=1) == predicted) / 2.0 for view in pair)
            own_square += (centred(2.0 * own_first - own) ** 2).sum(axis=1)
        ones = np.full(nodes.size, splits * unit**2)
        found = cls(
            feature=ratio_of_sums(whole, ones),
            own_feature=ratio_of_sums(alone, ones),
            own_square=own_square / (splits * unit**2),
            square=square / (splits * unit**2),
            lead=lead / (splits * unit),
            agree=agree / splits,
        )
        return found, tuple(firsts)


class _Passes:
    """The passes over the graph of one observation."""

    def __init__(self, observation: Observation, probe: Probe) -> None:
        graph = observation.graph
        self._predictor, self._graph, self._probe = observation.predictor, graph, probe
        self.clean = observation.all_logits * observation.temperature
        mean, std = observation.column_moments
        self._mean, self._size = (
            values.astype(np.float32) for values in (mean, probe.noise_level * std)
        )
        self._links = observation.link_keys
        self._rng = OrderedDraws(stream(observation.seed, "shared passes"), observation.node_keys)
        self._reader = _reader(observation, probe) if probe.copies else None
        self._noise = probe.noise_level * std, self._rng
        self._part = observation.part
        self._own: OwnViews | None = observation.memo.get(OWN_VIEWS)
        # In a part of a graph, only own views of the sample and its neighbours are exact.
        self._copied = np.arange(graph.num_nodes)
        if observation.part is not None:
            self._copied = ball(adjacency(graph), observation.nodes, 1)

    @cached_property
    def _dense(self) -> Float32:
        return dense_features(self._graph)

    def noisy(self) -> FloatArray:
        """Return the logits under feature noise of the graph's own size."""
        known = self._read(noise=self._noise)
        if known is not None:
            return known
        draw = self._rng.standard_normal(self._dense.shape, dtype=np.float32)
        draw *= self._size
        draw += self._dense
        return predict(self._predictor, self._graph.replace(features=draw))

    def half(self, half: NDArray[np.bool_], number: int) -> tuple[FloatArray, FloatArray]:
        """Return the view that reads half of the columns, and its own view."""
        if self._own is not None:
            logits = self._read(columns=half)
            if logits is None:
                changed = self._graph.replace(features=np.where(half, self._dense, self._mean))
                logits = predict(self._predictor, changed)
            return logits, self._own.halves[number]
        known = self._read(columns=half, copies=self._copied)
        if known is not None:
            return self._cut(known)
        return self._with_own(np.where(half, self._dense, self._mean), None)

    def without(self, keep: NDArray[np.bool_]) -> FloatArray:
        """Return the logits on some of the edges."""
        known = self._read(keep)
        if known is not None:
            return known
        return predict(self._predictor, self._graph.keep_links(keep))

    def without_and_own(self, keep: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the logits on some of the edges, and those without any."""
        if self._own is not None:
            return self.without(keep), self._own.whole
        known = self._read(keep, copies=self._copied)
        return self._cut(known) if known is not None else self._with_own(self._dense, keep)

    def _read(self, *arguments: Any, **named: Any) -> FloatArray | None:
        """Return the logits of a pass through the model's first matrices, if it has such."""
        logits = None if self._reader is None else self._reader.logits(*arguments, **named)
        return None if logits is None else checked_logits(logits, len(logits))

    def _cut(self, logits: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = self._graph.num_nodes
        own = np.zeros((count, logits.shape[1]))
        own[self._copied] = logits[count:]
        return logits[:count], own

    def _with_own(
        self, features: Float32, keep: NDArray[np.bool_] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logits on some of the edges, and those of the same features without edges."""
        part = self._graph if keep is None else self._graph.keep_links(keep)
        if self._probe.copies and self._graph.is_plain:  # copies have no attributes
            copies = features[self._copied]
            joined = Graph(features=np.vstack([features, copies]), edges=part.edges)
            return self._cut(predict(self._predictor, joined))
        changed = part.replace(features=features)
        logits = predict(self._predictor, changed)
        try:
            own = predict(self._predictor, changed.without_neighbours())
        except Exception:  # the user's code, which may need an edge for any reason
            own = np.zeros_like(logits)
        return logits, own

    def kept(self) -> NDArray[np.bool_]:
        """Return which edges to read: all but a random share, and never all of them."""
        keep = kept_links(self._links, self._probe.edge_share, self._rng)
        if self._part is not None:
            keep[self._part.links] = False
        return keep


def _reader(observation: Observation, probe: Probe | None = None) -> Any:
    """Return the passes through the model's first matrices, if it has any; see `pyg.deferred`."""
    graph, key = observation.graph, ("first matrices",)
    if not hasattr(observation.predictor, "deferred") or not graph.is_plain:
        return None
    if key not in observation.memo:
        mean, _ = observation.column_moments
        half = None if probe is None else column_halves(graph.num_features, 1, probe.seed)[0]
        observation.memo[key] = observation.predictor.deferred(graph, mean, half)
    return observation.memo[key]


def run_clean(observation: Observation, probe: Probe) -> None:
    """Take the clean pass through the model's first matrices, if it has any.

    Its logits are those of the model up to the rounding of sums in another order.
    """
    reader = _reader(observation, probe)
    logits = None if reader is None else reader.logits()
    if logits is not None:
        observation.set_logits(logits)


def noisy_passes(observation: Observation, level: float, passes: int) -> Iterator[FloatArray]:
    """Yield the logits of the observed nodes under noise of the graph's own size."""
    rng = OrderedDraws(stream(observation.seed, "feature_noise"), observation.node_keys)
    reader, noise = _reader(observation), (level * observation.column_moments[1], rng)
    while passes and reader is not None:
        logits = reader.logits(noise=noise)
        if logits is None:  # the module is not linear in the features of this graph
            break
        yield logits[observation.nodes]
        passes -= 1
    if passes:
        predictor, seed = observation.predictor, observation.seed
        for logits in feature_noise(
            predictor,
            observation.graph,
            level,
            passes,
            seed,
            column_std=observation.column_moments[1],
            keys=observation.node_keys,
        ):
            yield logits[observation.nodes]


def _noise_ratio(source: FloatArray, own: FloatArray) -> float:
    """Return the size of the source's columns over that of the graph's own: a geometric mean."""
    both = (source > 0.0) & (own > 0.0)
    return float(np.exp(np.log(source[both] / own[both]).mean())) if both.any() else 1.0


def leads(values: FloatArray, predicted: NDArray[np.intp]) -> FloatArray:
    """Return the logit of the prediction minus the largest other logit, (n,).

    Examples
    --------
    >>> leads(np.array([[1.0, 3.0], [2.0, 0.5]]), np.array([1, 1])).tolist()
    [2.0, -1.5]
    """
    rows = np.arange(len(values))
    others = values.copy()
    others[rows, predicted] = -np.inf
    return np.asarray(values[rows, predicted] - others.max(axis=1))
