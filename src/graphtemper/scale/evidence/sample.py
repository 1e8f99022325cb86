"""The evidence of a stored graph: a sample of its nodes, with all that the model reads around them.

The sample is drawn by a hash of the nodes' numbers, and spread evenly over the strata of predicted
class and confidence and, within them, over the degrees. The model runs on the exact receptive
fields of the sample (`graphtemper.signals.receptive_field`), in blocks whose fields fit into
memory; averages over blocks have the sampling error of all nodes.

**More nodes.** Most of a sample's error is that of the covariances. Three of them compare own
views, the logits of nodes without neighbours (`graphtemper.signals.covariances`), so they are
measured at a pool of ten times as many nodes, of which only the neighbours are read. The other two
are corrected by what is known of more nodes: the covariance of halves of the columns is in
proportion to that of the logits, which is known of all nodes, and products across held-out links
move with those across all links, which are known of the pool. In the same way agreement across
held-out links moves with that across the same links in the whole graph, which is known of all. The
covariances enter the interval with the errors that they have without corrections.

**Hubs.** The field of a node is exact up to `MOST_EDGES` edges along walks of two steps from it.
Above that, the node is replaced by the next one of its stratum in the order of degrees, and the
answer says how many were.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray, check_integer
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError, MissingError, OtherModelError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.passes import Columns
from graphtemper.models.predictor import Predictor, predict
from graphtemper.recalibration.reasons import Reason, sample_run
from graphtemper.scale.engine import Engine
from graphtemper.scale.stored_graph import Known, StoredGraph, StoredWhole
from graphtemper.scale.streaming import Pool
from graphtemper.signals import evidence, receptive_field
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import (
    Covariance,
    HeldOutProducts,
    centred,
    column_halves,
    edges_and_wedges,
    node_products,
    ratio_of_sums,
)
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.graph_parts import Field, Reach
from graphtemper.signals.observation import Observation, Part
from graphtemper.signals.views import own_view

MOST_EDGES = 20_000
"""Edges that are read around one sampled node."""
LEAST = 100
"""Nodes of the smallest block; fewer that are left over are not used."""
_TOO_LARGE = (
    "what the model reads around a hundred nodes is too large for memory; leave the model out, and "
    "its logits are recalibrated by their confidence."
)
# Nodes whose fields are measured for every one that is used, and nodes of a block by their share.
_SPARE, _SMALLER = 1.25, 0.8
_COUNTS = ("nodes", "links", "worth")


@dataclass(frozen=True, eq=False)
class Measured:
    """The evidence of a sample, its numbers of nodes and links, and how many were replaced.

    ``worth`` is the number of links with the same sampling error, see `_across_links`.
    """

    evidence: Evidence
    nodes: int
    links: int
    worth: float
    replaced: int
    depth: int

    def reason(self) -> Reason:
        """Return what to say about the sample."""
        said = sample_run(self.nodes, self.links, self.depth)
        if not self.replaced:
            return said
        text = (
            f"{said.text} {self.replaced:,} nodes, {self.replaced / self.nodes:.1%} of the sample, "
            f"reach more than {MOST_EDGES:,} edges, and others of their strata took their places."
        )
        return Reason(said.code, text)


def layers(model: Predictor) -> int | None:
    """Return over how many edges a model reads by its declaration; None if it has none.

    A bundled model declares ``hops``, a wrapped module its `Batches` or its message passing layers.

    Examples
    --------
    >>> from graphtemper.models import SIGN
    >>> layers(SIGN(hops=3)), layers(lambda graph: graph.features) is None
    (3, True)
    """
    batches = getattr(model, "batches", None)
    own = getattr(model if batches is None else batches, "hops", None)
    if isinstance(own, int):
        return max(own, 1)
    parts: list[Any] = getattr(getattr(model, "module", None), "modules", list)()
    found = [
        int(getattr(part, "K", 1) or 1)
        for part in parts
        if any(base.__name__ == "MessagePassing" for base in type(part).__mro__)
    ]
    return sum(found) or None


@dataclass(frozen=True, eq=False)
class Given:
    """The model with its card, the stored graph, a pool of nodes, and what is known of all."""

    engine: Engine
    graph: StoredGraph
    model: Predictor
    card: SourceCard
    pool: Pool
    whole: Known
    seed: int

    @cached_property
    def predictor(self) -> Predictor:
        """The model, which takes a graph in one pass."""
        return receptive_field.in_one_pass(self.model)

    def check(self, found: FloatArray, nodes: Rows, depth: int) -> None:
        """Refuse logits that the model does not give on all that is near."""
        known = self.known(nodes)
        if not receptive_field.agree(found, known):
            node = int(nodes[np.abs(found - known).max(axis=1).argmax()])
            raise OtherModelError(
                f"within {depth} edges the model does not give the logits of node {node}; give the "
                "number of its layers as hops, and check that logits and tables are of one graph."
            )

    def known(self, nodes: Rows) -> FloatArray:
        """Return the centred logits of nodes of the pool, not divided by a temperature."""
        rows = np.searchsorted(self.pool.nodes, nodes)
        return centred(self.pool.logits[rows] * self.card.temperature)


def measure(given: Given, hops: int | None, size: int) -> tuple[Measured, float]:
    """Return the evidence of a sample of the pool, and the mean log degree of the pool."""
    depth = layers(given.model) if hops is None else check_integer(hops, "hops", 1)
    if depth is None:
        raise MissingError("the model does not say how far it reads; give its layers as hops.")
    whole = StoredWhole(given.graph, given.engine)
    degrees = whole.degrees(given.pool.nodes)
    start = float(stream(given.seed, "sampled nodes").random())
    chosen, replaced = draw(whole, given.pool, degrees, size, start)
    everything = chosen
    parts: list[Measured] = []
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        reach = _reach(given, whole, depth, np.sort(chosen[: receptive_field.TESTED]))
        most = chosen.size
        while not parts or chosen.size >= LEAST:
            found = _block(given, reach, chosen[:most])
            parts, most, chosen = [*parts, found], found.nodes, chosen[found.nodes :]
        found = replace(merged(parts), replaced=replaced)
        pool = _readable(given, whole, everything[: found.nodes], degrees)
        found = replace(found, evidence=_corrected(given, whole, found, everything, pool))
    return found, float(signals.log_degree(degrees).mean())


def _readable(given: Given, whole: StoredWhole, sampled: Rows, degrees: Rows) -> Rows:
    """Return the sampled nodes and as many of the pool as can be read with their neighbours."""
    rest = np.setdiff1d(given.pool.nodes[degrees <= MOST_EDGES], sampled)
    nodes = np.concatenate([sampled, rest[np.argsort(whole.keys(rest))]])
    read = np.cumsum(whole.degrees(nodes) + 1)
    fits = sum(whole.readable(int(count), int(count)) for count in read)
    return np.sort(nodes[: max(fits, sampled.size)])


def _corrected(
    given: Given, whole: StoredWhole, sample: Measured, chosen: Rows, pool: Rows
) -> Evidence:
    """Return the evidence of a sample, with covariances that are known of more nodes."""
    found, field = sample.evidence, Field.of(whole, pool, Reach(1, False))
    if field is None or found.feature is None or found.held is None:
        return found
    graph, rows, unit = field.graph, field.rows(pool), given.card.temperature
    part = Part(given.whole.moments, rows[:0], np.empty(0))
    seen = Observation(given.predictor, graph, rows, part=part)
    own, lone, alone = own_view(seen), graph.subgraph(rows), np.zeros(rows.size)
    probe = given.card.probe
    for half in column_halves(graph.num_features, probe.splits, probe.seed):
        columns = Columns(half, given.whole.moments[0])
        first = seen.passes.run(lone, columns=columns, alone=True)
        alone += node_products(first, own[rows] - first)
    edge, wedge = edges_and_wedges(own / unit, graph, rows, rows)
    known = np.zeros((graph.num_nodes, given.card.num_classes))
    known[rows] = given.known(pool) / unit

    def clean(nodes: Rows) -> float:
        products = HeldOutProducts(own / unit, graph, field.rows(nodes), rows)
        products.add(known, graph.links)
        return products.covariance.value

    held = found.held.value + clean(pool) - clean(chosen[: sample.nodes])
    spread = float(np.trace(given.whole.covariance) / np.trace(found.covariance))
    return replace(
        found,
        edge=edge,
        wedge=wedge,
        own_feature=ratio_of_sums(alone, np.full(rows.size, probe.splits * unit**2)),
        held=Covariance(held, found.held.error),
        feature=Covariance(found.feature.value * spread, found.feature.error),
    )


def draw(
    whole: StoredWhole, pool: Pool, degrees: Rows, size: int, start: float
) -> tuple[Rows, int]:
    """Return a sample whose beginnings are samples too, and how many of its nodes were replaced."""
    order = np.lexsort((degrees, pool.strata))
    first, hubs = spread(degrees[order] > MOST_EDGES, round(_SPARE * size), start)
    nodes = pool.nodes[order[first]]
    near, indptr = whole.near(nodes)
    steps = np.concatenate([[0], np.cumsum(whole.degrees(near))])
    walks = degrees[order[first]] + steps[indptr[1:]] - steps[indptr[:-1]]
    second, more = spread(walks > MOST_EDGES, min(size, nodes.size), start)
    chosen = nodes[second]
    bits = int(max(chosen.size - 1, 1)).bit_length()
    turned = sum(((np.arange(chosen.size) >> bit) & 1) << (bits - 1 - bit) for bit in range(bits))
    return chosen[np.argsort(turned, kind="stable")], hubs + more


def spread(refused: NDArray[np.bool_], size: int, start: float) -> tuple[Rows, int]:
    """Return evenly spread positions, and how many of them are other ones next to those refused.

    Examples
    --------
    >>> spread(np.array([False, False, False, True, False, False]), 3, 0.5)
    (array([1, 2, 5]), 1)
    """
    count = refused.size
    size = min(size, count)
    first = ((np.arange(size) + start) * count / max(size, 1)).astype(np.int64)
    free = np.setdiff1d(np.flatnonzero(~refused), first)
    kept, bad = first[~refused[first]], first[refused[first]]
    for place in bad[: free.size]:
        nearest = int(np.abs(free - place).argmin())
        kept, free = np.append(kept, free[nearest]), np.delete(free, nearest)
    return np.sort(kept), bad.size


def _reach(given: Given, whole: StoredWhole, depth: int, tested: Rows) -> Reach:
    """Return the cheapest fields on which the model gives the known logits of a few nodes.

    A layer that divides by the degrees of both ends of an edge also needs those of the outermost
    nodes, from edges to empty nodes or from one step more.
    """
    found = None
    for reach in (Reach(depth, False), Reach(depth, True), Reach(depth + 1, False)):
        field = None if reach.padded and not whole.is_plain else Field.of(whole, tested, reach)
        if field is None:
            continue
        given.card.check_graph(given.model, field.graph)
        found = centred(predict(given.predictor, field.graph))[field.rows(tested)]
        if receptive_field.agree(found, given.known(tested)):
            return reach
    if found is None:
        raise InputError(_TOO_LARGE)
    given.check(found, tested, depth)
    raise InputError(_TOO_LARGE)


def _block(given: Given, reach: Reach, chosen: Rows) -> Measured:
    """Return the evidence of as many of the chosen nodes as fit into memory."""
    whole, sizes = StoredWhole(given.graph, given.engine), [chosen.size]
    while sizes[-1] * _SMALLER > LEAST:
        sizes.append(int(sizes[-1] * _SMALLER))
    found = receptive_field.sample(
        whole,
        lambda size: np.sort(chosen[:size]),
        given.predictor,
        reach,
        given.whole.moments,
        given.seed,
        sizes,
    )
    if found is None:
        raise InputError(_TOO_LARGE)
    given.check(centred(found.observation.logits), found.nodes, reach.depth)
    seen = found.observation.at(given.card.temperature)
    measured, worth = _across_links(seen, evidence.measure(seen, given.card.probe), given.whole)
    return Measured(measured, found.nodes.size, found.num_links, worth, 0, reach.depth)


def _across_links(seen: Observation, found: Evidence, whole: Known) -> tuple[Evidence, float]:
    """Return the agreement across held-out links as a change of that in the whole graph.

    Only the change is sampled. The second number is how many links would show the agreement itself
    with the same error.
    """
    held = [z.argmax(axis=1) for key, z in seen.memo.items() if key[0] == "held out"]
    if seen.part is None or found.edge_agreement is None or whole.homophily is None or not held:
        return found, 0.0
    low, high = seen.graph.links[seen.part.links].T
    clean, *without = (z[low] == z[high] for z in (seen.all_logits.argmax(axis=1), *held))
    weight = seen.part.weights / seen.part.weights.sum()
    change = np.mean(without, axis=0) - clean
    beyond = max(1.0 - whole.chance, 1e-3)
    kappa = (whole.homophily - whole.chance) / beyond
    moved = found.edge_agreement - seen.agreement(seen.all_logits, seen.graph.links[:0])
    agree = float(np.clip(kappa + moved, -1.0, 1.0))
    variance = float(weight**2 @ (change - weight @ change) ** 2) / beyond**2
    worth = (1.0 - agree**2) / max(variance, weight.size**-2.0)
    return replace(found, edge_agreement=agree), worth


def merged(parts: list[Measured]) -> Measured:
    """Return the averages over blocks, by their numbers of nodes."""
    weights = np.array([part.nodes for part in parts], np.float64)
    weights /= weights.sum()

    def mean(values: list[Any]) -> Any:
        if any(value is None for value in values):
            return None
        if isinstance(values[0], Covariance):
            value, error = np.array(values).T
            return Covariance(float(weights @ value), float(np.sqrt(weights**2 @ error**2)))
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    names = [item.name for item in fields(Evidence)]
    average = {name: mean([getattr(part.evidence, name) for part in parts]) for name in names}
    counts = {name: sum(getattr(part, name) for part in parts) for name in _COUNTS}
    return replace(parts[0], evidence=Evidence(**average), **counts)
