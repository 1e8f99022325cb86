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
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray, check_integer
from graphtemper._core.reproducible import one_blas_thread, stream
from graphtemper.card.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.passes import Columns
from graphtemper.models.predictor import Predictor, predict
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import sample_run
from graphtemper.scale.stored_graph import StoredWhole
from graphtemper.scale.streaming import Pool
from graphtemper.signals import evidence, receptive_field, sampling
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import (
    Covariance,
    HeldOutProducts,
    centred,
    column_halves,
    edges_and_wedges,
    ratio_of_sums,
    split_nodes,
)
from graphtemper.signals.evidence import Evidence
from graphtemper.signals.graph_parts import Field, Reach
from graphtemper.signals.observation import Observation, Part
from graphtemper.signals.views import own_view

MOST_EDGES = 20_000
"""Edges that are read around one sampled node."""
LEAST = 100
"""Nodes of the smallest block; fewer that are left over are not used."""
_TOO_LARGE = "what the model reads around 100 nodes is too large for memory; leave the model out."
# Nodes whose fields are measured for every one that is used, and sizes of a block that are tried.
_SPARE, _SIZES = 1.25, 14


class Measured(NamedTuple):
    """The evidence of a sample, and its numbers of nodes and links.

    ``worth`` is the number of links with the same sampling error, see `_across_links`.
    """

    evidence: Evidence
    nodes: int
    links: int
    worth: float


def layers(model: Predictor) -> int | None:
    """Return over how many edges a model reads by its declaration; None if it has none.

    A bundled model declares ``hops``, a wrapped module its `Batches` or its message passing layers.

    Examples
    --------
    >>> from graphtemper.models import SIGN
    >>> layers(SIGN(hops=3)), layers(lambda graph: graph.features) is None
    (3, True)
    """
    own = getattr(getattr(model, "batches", None) or model, "hops", None)
    if isinstance(own, int):
        return max(own, 1)
    parts: list[Any] = [*getattr(getattr(model, "module", None), "modules", list)()]
    kinds = [{base.__name__ for base in type(part).__mro__} for part in parts]
    passing = [part for part, kind in zip(parts, kinds, strict=True) if "MessagePassing" in kind]
    return sum(int(getattr(part, "K", 1) or 1) for part in passing) or None


@dataclass(frozen=True, eq=False)
class Given:
    """The stored graph, the model with its card, a pool of nodes, and what is known of all.

    That is: moments of the features, the covariance of the logits, and the share of links whose
    ends are predicted to be of one class, in all (None without links) and by chance.
    """

    whole: StoredWhole
    model: Predictor
    card: SourceCard
    pool: Pool
    moments: tuple[FloatArray, FloatArray]
    covariance: FloatArray
    homophily: float | None
    chance: float
    seed: int

    @property
    def predictor(self) -> Predictor:
        """The model, which takes a graph in one pass."""
        return receptive_field.in_one_pass(self.model)

    def check(self, found: FloatArray, nodes: Rows, depth: int) -> None:
        """Refuse logits that the model does not give on all that is near."""
        known = self.logits(nodes)
        if not receptive_field.agree(found, known):
            node = int(nodes[np.abs(found - known).max(axis=1).argmax()])
            raise errors.other_model(
                f"within {depth} edges the model does not give the logits of node {node}; give the "
                "number of its layers as hops, and check that logits and tables are of one graph."
            )

    def logits(self, nodes: Rows) -> FloatArray:
        """Return the centred logits of nodes of the pool."""
        rows = np.searchsorted(self.pool.nodes, nodes)
        return centred(self.pool.logits[rows])


def measure(given: Given, hops: int | None, size: int) -> tuple[Measured, float, Reason]:
    """Return the evidence of a sample of the pool, the mean log degree, and what to say of it."""
    depth = layers(given.model) if hops is None else check_integer(hops, "hops", 1)
    if depth is None:
        raise errors.missing("the model does not say how far it reads; give its layers as hops.")
    drawn, replaced = draw(given.whole, given.pool, given.card.temperature, size, given.seed)
    if drawn.size < LEAST:
        raise InputError(_TOO_LARGE)
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        reach, parts, used = _reach(given, depth, drawn), list[Measured](), 0
        while not parts or drawn.size - used >= LEAST:
            most = parts[-1].nodes if parts else drawn.size
            parts.append(_block(given, reach, drawn[used : used + most]))
            used += parts[-1].nodes
        found, pool = merged(parts), _readable(given, drawn[:used])
        found = found._replace(evidence=_corrected(given, found.evidence, drawn[:used], pool))
    said = sample_run(found.nodes, found.links, reach.depth)
    if replaced:
        more = f"{replaced:,} nodes, {replaced / found.nodes:.1%} of the sample, reach more than"
        rest = f"{MOST_EDGES:,} edges, and others of their strata took their places."
        said = Reason(said.code, f"{said.text} {more} {rest}")
    return found, float(signals.log_degree(np.diff(given.whole.near(pool)[1])).mean()), said


def _readable(given: Given, sampled: Rows) -> Rows:
    """Return the sampled nodes and as many of the pool as can be read with their neighbours."""
    whole, rest = given.whole, np.setdiff1d(given.pool.nodes, sampled, assume_unique=True)
    rest = rest[whole.degrees(rest) <= MOST_EDGES]
    nodes = np.concatenate([sampled, rest[np.argsort(whole.keys(rest))]])
    fits = [whole.readable(int(x), int(x)) for x in np.cumsum(whole.degrees(nodes) + 1)]
    return np.sort(nodes[: max(sum(fits), sampled.size)])


def _corrected(given: Given, found: Evidence, chosen: Rows, pool: Rows) -> Evidence:
    """Return the evidence of chosen nodes, with what is known of more nodes."""
    field = Field.of(given.whole, pool, Reach(1, False))
    if field is None or found.feature is None or found.held is None:
        return found
    graph, rows, unit = field.graph, field.rows(pool), given.card.temperature
    part = Part(given.moments, rows[:0], np.empty(0))
    seen = Observation(given.predictor, graph, rows, part=part)
    own, lone, alone = own_view(seen), graph.subgraph(rows), np.zeros(rows.size)
    probe = given.card.probe
    for half in column_halves(graph.num_features, probe.splits, probe.seed):
        columns = Columns(half, given.moments[0])
        first = seen.passes.run(lone, columns=columns, alone=True)
        alone += split_nodes(first, own[rows], own[rows].argmax(axis=1)).product
    edge, wedge = edges_and_wedges(own / unit, graph, rows, rows)
    known = np.zeros((graph.num_nodes, given.card.num_classes))
    known[rows] = given.logits(pool)

    def clean(nodes: Rows) -> float:
        products = HeldOutProducts(own / unit, graph, field.rows(nodes), rows)
        products.add(known / unit, graph.links)
        return products.covariance.value

    held = found.held.value + clean(pool) - clean(chosen)
    spread = np.trace(given.covariance) / (np.trace(found.covariance) or 1.0)
    return replace(
        found,
        second_agreement=evidence.measure(Observation(known, graph, rows), probe).second_agreement,
        edge=edge,
        wedge=wedge,
        own_feature=ratio_of_sums(alone, np.full(rows.size, probe.splits * unit**2)),
        held=Covariance(held, found.held.error),
        feature=Covariance(float(found.feature.value * spread), found.feature.error),
    )


def draw(whole: StoredWhole, pool: Pool, unit: float, size: int, seed: int) -> tuple[Rows, int]:
    """Return a sample whose beginnings are samples too, and how many of its nodes were replaced."""
    degrees, start = whole.degrees(pool.nodes), float(stream(seed, "sampled nodes").random())
    order = np.lexsort((degrees, sampling.strata(temperatures.apply(pool.logits, unit))))
    first, hubs = spread(degrees[order] > MOST_EDGES, round(_SPARE * size), start)
    nodes = pool.nodes[order[first]]
    near, indptr = whole.near(nodes)
    steps = np.concatenate([[0], np.cumsum(whole.degrees(near))])
    walks = whole.degrees(nodes) + np.diff(steps[indptr])
    second, more = spread(walks > MOST_EDGES, min(size, nodes.size), start)
    chosen = nodes[second]
    more += round(hubs * chosen.size / max(nodes.size, 1))
    return chosen[np.argsort(whole.keys(chosen))], more


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


def _reach(given: Given, depth: int, chosen: Rows) -> Reach:
    """Return the cheapest fields on which the model gives the known logits of a few nodes.

    A layer that divides by the degrees of both ends of an edge also needs those of the outermost
    nodes, from edges to empty nodes or from one step more.
    """
    tested, found = np.sort(chosen[: receptive_field.TESTED]), None
    padded = [Reach(depth, True)] * given.whole.is_plain
    for reach in (Reach(depth, False), *padded, Reach(depth + 1, False)):
        field = Field.of(given.whole, tested, reach)
        if field is not None:
            given.card.check_graph(given.model, field.graph)
            found = centred(predict(given.predictor, field.graph))[field.rows(tested)]
            if receptive_field.agree(found, given.logits(tested)):
                return reach
    if found is not None:
        given.check(found, tested, depth)
    raise InputError(_TOO_LARGE)


def _block(given: Given, reach: Reach, chosen: Rows) -> Measured:
    """Return the evidence of as many of the chosen nodes as fit into memory."""
    whole = StoredWhole(given.whole.stored, given.whole.engine)
    sizes = np.geomspace(chosen.size, LEAST, _SIZES).astype(int).tolist()
    largest = partial(receptive_field.sample, whole, lambda size: np.sort(chosen[:size]))
    found = largest(given.predictor, reach, given.moments, given.seed, sizes)
    if found is None:
        raise InputError(_TOO_LARGE)
    given.check(centred(found.observation.logits), found.nodes, reach.depth)
    seen = found.observation
    measured, worth = _across_links(seen, evidence.measure(seen, given.card.probe), given)
    return Measured(measured, found.nodes.size, found.num_links, worth)


def _across_links(seen: Observation, found: Evidence, whole: Given) -> tuple[Evidence, float]:
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
    evidences, *counts = zip(*parts, strict=True)
    nodes, links, worth = map(sum, counts)
    weights = np.array(counts[0]) / nodes

    def mean(values: list[Any]) -> Any:
        if any(value is None for value in values):
            return None
        if isinstance(values[0], Covariance):
            value, error = np.array(values).T
            return Covariance(float(weights @ value), float(np.sqrt(weights**2 @ error**2)))
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    names = [item.name for item in fields(Evidence)]
    average = {name: mean([getattr(found, name) for found in evidences]) for name in names}
    return Measured(Evidence(**average), nodes, links, worth)
