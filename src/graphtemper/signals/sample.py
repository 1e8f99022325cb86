"""The evidence of a large graph from a sample of its nodes, with all that the model reads there.

A model of k layers computes the logits of a node from the nodes within k edges of it, its
receptive field. Logits of the whole graph that were made elsewhere therefore leave little to run:
the perturbed passes are taken on the union of the fields of some nodes and of the ends of some
links, whose cost does not depend on the size of the graph. The graph is in memory or in files
(`graphtemper.graph.neighbourhoods.Whole`).

**Depth.** It is tested and not assumed: the model runs on the fields of a few nodes, one edge
deeper each time, until it gives their known logits. All sampled nodes are then compared, since a
model may read farther at some nodes than at others. Layers that divide by the degrees of both ends
of an edge (GCN) also need the degrees of the outermost nodes, which get them from edges to empty
nodes that nothing else reads.

**Nodes.** The sample is drawn by a hash of the nodes' numbers from a pool of ten times as many,
and spread evenly over the strata of predicted class and confidence and, within them, over the
degrees. It is measured in blocks whose fields fit into memory, and are less than half of a graph in
memory; averages over blocks have the sampling error of all nodes. If the sample of a graph in
memory would read as much as the whole graph has, the model runs on that, which is more precise.

**Links** are those to a random neighbour of every sampled node. They are held out in every pass
without some edges, because the agreement across held-out links needs the logits of both ends. A
link is chosen with a probability in proportion to 1/d + 1/d' for the degrees of its ends, and has
the inverse as its weight.

**More nodes.** Most of a sample's error is that of the covariances. Three of them compare own
views, the logits of nodes without neighbours (`graphtemper.signals.covariances`), so they are
measured at the pool, of which only the neighbours are read. The other two are corrected by what is
known of more nodes: the covariance of halves of the columns is in proportion to that of the
logits, which is known of all nodes, and products across held-out links move with those across all
links, which are known of the pool. In the same way agreement across held-out links moves with that
across the same links in the whole graph, which is known of all. The covariances enter the interval
with the errors that they have without corrections.

**Hubs.** The field of a node is exact up to `MOST_EDGES` edges along walks of two steps from it.
Above that, the node is replaced by the next one of its stratum in the order of degrees, and the
answer says how many were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import mixed, one_blas_thread, stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows, Whole
from graphtemper.models.passes import Columns
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals import evidence, sampling
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
from graphtemper.signals.graph_parts import (
    MOST_ROWS,
    Field,
    InMemory,
    Reach,
    logits_on,
    relative_work,
)
from graphtemper.signals.observation import Observation, Part
from graphtemper.signals.passes import Probe
from graphtemper.signals.views import own_view

SMALL = 100_000
"""Up to this number of nodes the model runs on the whole graph, which is more precise."""
SIZE = 2_000
"""Nodes that the model runs on, of a larger graph."""
POOL = 10
"""Nodes that a sample is drawn from, for each of its nodes."""
MOST_EDGES = 20_000
"""Edges that are read around one sampled node."""
LEAST = 100
"""Nodes of the smallest sample, and of the smallest block of one."""
TOLERANCE = 1e-3
"""Differences of logits, relative to their size, that rounding explains."""
_TOO_LARGE = "what the model reads around 100 nodes is too large for memory; leave the model out."
# Nodes at which the depth is tested, and the largest depth that is.
_TESTED, _DEEPEST = 24, 12
# Nodes whose fields are measured for every one that is used, and sizes of a block that are tried.
_SPARE, _SIZES = 1.25, 14
# The share of nodes that may differ by more, since sums over many neighbours round differently.
_FEW = 0.005
# Half precision changes logits by some hundredths of their size; those of another model, in another
# order, or of a field that is too small, differ by more than this share of it.
_OTHER, _TINY = 0.1, 1e-300


class Pool(NamedTuple):
    """Random nodes, in increasing order, with their logits."""

    nodes: Rows
    logits: FloatArray


@dataclass(frozen=True, eq=False)
class Large:
    """A graph of which a sample is measured, the model, and what is known of all nodes.

    Attributes
    ----------
    whole, predictor, probe
        The graph, the model, and how to measure.
    pool
        The nodes that the sample is drawn from.
    moments
        Mean and standard deviation of the feature columns.
    covariance
        Covariance of the logits, in units of the source temperature.
    homophily, chance
        The share of links whose ends have one predicted class (None without links), and by chance.
    seed
        Seed of the sample and of the perturbed passes.
    most_edges
        Edges that are read around one sampled node.
    accept
        Refuses a part that the model was not made for, before it runs there.
    """

    whole: Whole
    predictor: Predictor
    probe: Probe
    pool: Pool
    moments: tuple[FloatArray, FloatArray]
    covariance: FloatArray
    homophily: float | None
    chance: float
    seed: int
    most_edges: int = MOST_EDGES
    accept: Callable[[Graph], None] = lambda graph: None

    @classmethod
    def in_memory(cls, observation: Observation, probe: Probe, size: int) -> Large:
        """Return an observation whose logits are known, with a pool for ``size`` nodes."""
        graph, nodes = observation.graph, observation.nodes
        salt = sampling.salt(stream(observation.seed, "pool of nodes"))
        drawn = np.argsort(mixed(nodes.astype(np.uint64) + salt), kind="stable")
        rows = np.sort(drawn[: POOL * size])
        known, everywhere = evidence.of_logits(observation, probe), observation.all_predictions
        ends = np.bincount(everywhere, graph.degrees, minlength=observation.num_classes)
        shares = ends / max(float(ends.sum()), 1.0)
        return cls(
            whole=InMemory(observation),
            predictor=in_one_pass(observation.predictor),
            probe=probe,
            pool=Pool(nodes[rows], observation.logits[rows]),
            moments=observation.column_moments,
            covariance=known.covariance,
            homophily=known.homophily,
            chance=float(shares @ shares),
            seed=observation.seed,
        )

    def check(self, found: FloatArray, nodes: Rows, depth: int) -> None:
        """Refuse centred logits that the model does not give on all that is near."""
        known = self.logits(nodes)
        if not agree(found, known):
            node = int(nodes[np.abs(found - known).max(axis=1).argmax()])
            raise errors.other_model(
                f"within {depth} edges the model does not give the logits of node {node}; check "
                "that logits and tables are of one graph and of this model."
            )

    def logits(self, nodes: Rows) -> FloatArray:
        """Return the centred logits of nodes of the pool."""
        return centred(self.pool.logits[np.searchsorted(self.pool.nodes, nodes)])


class Sampled(NamedTuple):
    """The evidence of a sample of nodes.

    Attributes
    ----------
    evidence
        Averages over the sample; what needs no receptive fields, over the pool.
    num_nodes, num_links
        Numbers of sampled nodes and links.
    worth
        Number of links with the same sampling error, see `_across_links`.
    depth
        Number of edges over which the model reads.
    work
        Work of one pass over the fields, relative to one over the whole graph.
    replaced, most_edges
        Number of nodes that others stand for, because they reach more than so many edges.
    log_degree
        Mean log degree of the pool.
    """

    evidence: Evidence
    num_nodes: int
    num_links: int
    worth: float
    depth: int
    work: float
    replaced: int = 0
    most_edges: int = MOST_EDGES
    log_degree: float = 0.0


def measure(large: Large, size: int, depth: int | None = None) -> Sampled:
    """Return the evidence of a sample of ``size`` nodes, as many as can be read.

    ``depth`` is where the test of the depth begins (default 1). An error says that too few nodes
    can be read, or that the model does not give the known logits.
    """
    # One thread, because sums in another order have other last bits.
    with one_blas_thread():
        drawn, replaced = draw(large, size)
        if drawn.size < LEAST:
            raise InputError(_TOO_LARGE)
        reach = _reach(large, depth or 1, drawn)
        blocks = _blocks(large, reach, drawn)
        used = sum(block.num_nodes for block in blocks)
        found, pool = merged(blocks), _readable(large, drawn[:used])
        corrected = _corrected(large, found.evidence, drawn[:used], pool)
    degree = np.diff(large.whole.near(pool)[1])
    return found._replace(
        evidence=corrected,
        replaced=replaced,
        most_edges=large.most_edges,
        log_degree=float(signals.log_degree(degree).mean()),
    )


def in_memory(observation: Observation, probe: Probe, size: int) -> Sampled | None:
    """Return the evidence of a sample of an observation that was given its logits.

    None if the model has to run on all nodes; it is an error if it gives other logits there.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(20_000, degree=4, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(500))
    >>> observation = Observation(lambda graph: model(graph), g, logits=model(g))
    >>> probe = Probe(1.0, 0.5, g.features.std(axis=0), 0.9, 0.1)
    >>> sampled = in_memory(observation, probe, 500)
    >>> sampled.depth, sampled.num_nodes, sampled.work < 0.5
    (1, 500, True)
    """
    if observation.graph.target_type is None and len(observation.graph.links):
        try:
            return measure(Large.in_memory(observation, probe, size), size)
        except InputError:
            pass  # the whole graph decides
    check_whole(observation)
    return None


def agree(found: FloatArray, known: FloatArray, tolerance: float = TOLERANCE) -> bool:
    """Return whether centred logits are equal but for rounding."""
    size = np.abs(known).max(axis=1)
    gap = np.abs(found - known).max(axis=1) / np.maximum(size + np.median(size), _TINY)
    return float((gap > tolerance).mean()) <= _FEW and bool(gap.max() <= _OTHER)


def check_whole(observation: Observation) -> None:
    """Refuse logits that the model does not give on the whole graph."""
    logits = centred(observation.all_logits)
    found = centred(predict(in_one_pass(observation.predictor), observation.graph))
    size = float(np.sqrt((found**2).mean()))
    if float(np.sqrt(((found - logits) ** 2).mean())) > _OTHER * size:
        node = int(np.abs(found - logits).max(axis=1).argmax())
        raise errors.other_model(
            f"the given logits are not those of the model on this graph, for instance at node "
            f"{node}; check the order of the rows, and that the model is the same."
        )


def in_one_pass(predictor: Any) -> Predictor:
    """Return a predictor that takes a graph in one pass, where it would run in batches."""
    in_batches = getattr(predictor, "batches", None) is not None
    whole: Predictor = replace(predictor, batches=None) if in_batches else predictor
    return whole


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


def _readable(large: Large, sampled: Rows) -> Rows:
    """Return the sampled nodes and as many of the pool as can be read with their neighbours."""
    whole, rest = large.whole, np.setdiff1d(large.pool.nodes, sampled, assume_unique=True)
    rest = rest[whole.degrees(rest) <= large.most_edges]
    nodes = np.concatenate([sampled, rest[np.argsort(whole.keys(rest))]])
    fits = [whole.readable(int(x), int(x)) for x in np.cumsum(whole.degrees(nodes) + 1)]
    return np.sort(nodes[: max(sum(fits), sampled.size)])


def _corrected(large: Large, found: Evidence, chosen: Rows, pool: Rows) -> Evidence:
    """Return the evidence of chosen nodes, with what is known of more nodes."""
    field = Field.of(large.whole, pool, Reach(1, False))
    if field is None or found.feature is None or found.held is None:
        return found
    graph, rows, probe = field.graph, field.rows(pool), large.probe
    known, unit = np.zeros((graph.num_nodes, large.pool.logits.shape[1])), probe.temperature
    known[rows] = large.logits(pool)
    part = Part(large.moments, rows[:0], np.empty(0))
    seen = Observation(large.predictor, graph, rows, part=part, logits=known)
    own, lone, alone = own_view(seen), graph.subgraph(rows), np.zeros(rows.size)
    for half in column_halves(graph.num_features, probe.splits, probe.seed):
        columns = Columns(half, large.moments[0])
        first = seen.passes.run(lone, columns=columns, alone=True)
        alone += split_nodes(first, own[rows], own[rows].argmax(axis=1)).product
    edge, wedge = edges_and_wedges(own / unit, graph, rows, rows)

    def clean(nodes: Rows) -> float:
        products = HeldOutProducts(own / unit, graph, field.rows(nodes), rows)
        products.add(known / unit, graph.links)
        return products.covariance.value

    held = found.held.value + clean(pool) - clean(chosen)
    spread = np.trace(large.covariance) / (np.trace(found.covariance) or 1.0)
    return replace(
        found,
        second_agreement=evidence.second_agreement(seen, probe),
        edge=edge,
        wedge=wedge,
        own_feature=ratio_of_sums(alone, np.full(rows.size, probe.splits * unit**2)),
        held=Covariance(held, found.held.error),
        feature=Covariance(float(found.feature.value * spread), found.feature.error),
    )


def draw(large: Large, size: int) -> tuple[Rows, int]:
    """Return a sample whose beginnings are samples too, and how many of its nodes were replaced."""
    whole, pool = large.whole, large.pool
    degrees = whole.degrees(pool.nodes)
    start = float(stream(large.seed, "sampled nodes").random())
    strata = sampling.strata(temperatures.apply(pool.logits, large.probe.temperature))
    order = np.lexsort((degrees, strata))
    first, hubs = spread(degrees[order] > large.most_edges, round(_SPARE * size), start)
    nodes = pool.nodes[order[first]]
    near, indptr = whole.near(nodes)
    steps = np.concatenate([[0], np.cumsum(whole.degrees(near))])
    walks = whole.degrees(nodes) + np.diff(steps[indptr])
    second, more = spread(walks > large.most_edges, min(size, nodes.size), start)
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


def _reach(large: Large, depth: int, chosen: Rows) -> Reach:
    """Return the cheapest fields on which the model gives the known logits of a few nodes."""
    whole, tested, found = large.whole, np.sort(chosen[:_TESTED]), None
    for reach in _reaches(depth, padded=whole.is_plain):
        field = Field.of(whole, tested, reach)
        if field is None:
            break
        large.accept(field.graph)
        # Code of the user's may need the whole graph for any reason; files are never read whole.
        logits = (
            centred(predict(large.predictor, field.graph))
            if whole.on_disk
            else logits_on(large.predictor, field.graph)
        )
        found = found if logits is None else logits[field.rows(tested)]
        if found is not None and agree(found, large.logits(tested)):
            return reach
        if field.nodes.size == whole.num_nodes:
            break
    if found is not None:
        large.check(found, tested, depth)
    raise InputError(_TOO_LARGE)


def _reaches(depth: int, *, padded: bool) -> Iterator[Reach]:
    """Yield how far a model may read, the cheapest first."""
    for edges in range(depth, _DEEPEST + 1):
        yield Reach(edges, False)
        if padded:
            yield Reach(edges, True)


def _blocks(large: Large, reach: Reach, drawn: Rows) -> list[Sampled]:
    """Return the evidence of a sample in blocks of as many nodes as can be read at once.

    A graph in memory is never read more often than once: one that a model can run on as a whole is
    refused if its sample would be, and of a larger one the sample is what once reads.
    """
    whole, blocks, used, work = large.whole, list[Sampled](), 0, 0.0
    while not blocks or drawn.size - used >= LEAST:
        most = blocks[-1].num_nodes if blocks else drawn.size
        block = _block(large, reach, drawn[used : used + most])
        if not whole.on_disk:
            if block.work * drawn.size > block.num_nodes and whole.num_nodes <= MOST_ROWS:
                raise InputError(_TOO_LARGE)
            if blocks and work + block.work > 1.0:
                break
        blocks.append(block)
        used, work = used + block.num_nodes, work + block.work
    return blocks


def _block(large: Large, reach: Reach, chosen: Rows) -> Sampled:
    """Return the evidence of as many of the chosen nodes as can be read at once."""
    whole = large.whole.fresh()
    least = min(LEAST, chosen.size)
    for size in np.geomspace(chosen.size, least, _SIZES).astype(int).tolist():
        block = _observed(large, whole, reach, np.sort(chosen[:size]))
        if block is not None:
            break
    else:
        raise InputError(_TOO_LARGE)
    seen, nodes = block
    large.check(centred(seen.logits), nodes, reach.depth)
    found, worth = _across_links(seen, evidence.measure(seen, large.probe, whole=False), large)
    assert seen.part is not None
    return Sampled(
        evidence=found,
        num_nodes=nodes.size,
        num_links=seen.part.links.size,
        worth=worth,
        depth=reach.depth,
        work=relative_work(seen.graph, whole),
    )


def _observed(
    large: Large, whole: Whole, reach: Reach, nodes: Rows
) -> tuple[Observation, Rows] | None:
    """Return the model on the fields of nodes and of a link of each; None if too large."""
    links = _to_neighbours(whole, nodes, large.seed)
    centre = np.unique(np.concatenate([nodes, links[:, 1]]))
    field = Field.of(whole, centre, reach) if _allowed(whole, centre, reach) else None
    if field is None:
        return None
    ends = whole.degrees(links.ravel()).reshape(-1, 2)
    part = Part(large.moments, _positions(field, links), 1.0 / (1.0 / ends).sum(axis=1))
    rows = field.rows(nodes)
    seen = Observation(large.predictor, field.graph, rows, seed=large.seed, part=part)
    return seen, nodes


def _allowed(whole: Whole, centre: Rows, reach: Reach) -> bool:
    """Return whether the fields of some nodes are small enough to be read instead of the graph."""
    reached = whole.ball(centre, reach.depth)
    if reached is None:
        return False
    inner = reached if reach.padded else whole.ball(centre, reach.depth - 1)
    return inner is not None and whole.readable(reached.size, int(whole.degrees(inner).sum()))


def _to_neighbours(whole: Whole, nodes: Rows, seed: int) -> Rows:
    """Return every node that has neighbours with a random one of them, (m, 2)."""
    near, indptr = whole.near(nodes)
    salt = sampling.salt(stream(seed, "sampled links"))
    chosen = sampling.partners(indptr, whole.keys(nodes), whole.keys(near), salt)
    linked = np.diff(indptr) > 0
    return np.column_stack([nodes[linked], near[chosen]]).astype(np.int64)


def _positions(field: Field, links: Rows) -> Rows:
    """Return the numbers of some links of the whole graph in a field."""
    count = field.graph.num_nodes

    def numbers(pairs: NDArray[Any]) -> Rows:
        ends = np.sort(pairs.astype(np.int64), axis=1)
        return np.asarray(ends[:, 0] * count + ends[:, 1])

    known = numbers(field.graph.links)
    order = np.argsort(known)
    return np.asarray(order[np.searchsorted(known[order], numbers(field.rows(links)))])


def _across_links(seen: Observation, found: Evidence, large: Large) -> tuple[Evidence, float]:
    """Return the agreement across held-out links as a change of that in the whole graph.

    Only the change is sampled. The second number is how many links would show the agreement itself
    with the same error.
    """
    held = [z.argmax(axis=1) for key, z in seen.memo.items() if key[0] == "held out"]
    if seen.part is None or found.edge_agreement is None or large.homophily is None or not held:
        return found, 0.0
    low, high = seen.graph.links[seen.part.links].T
    clean, *without = (z[low] == z[high] for z in (seen.all_logits.argmax(axis=1), *held))
    weight = seen.part.weights / seen.part.weights.sum()
    change = np.mean(without, axis=0) - clean
    beyond = max(1.0 - large.chance, 1e-3)
    kappa = (large.homophily - large.chance) / beyond
    moved = found.edge_agreement - seen.agreement(seen.all_logits, seen.graph.links[:0])
    agree = float(np.clip(kappa + moved, -1.0, 1.0))
    variance = float(weight**2 @ (change - weight @ change) ** 2) / beyond**2
    worth = (1.0 - agree**2) / max(variance, weight.size**-2.0)
    return replace(found, edge_agreement=agree), worth


def merged(blocks: Sequence[Sampled]) -> Sampled:
    """Return the averages over blocks, by their numbers of nodes."""
    nodes = sum(block.num_nodes for block in blocks)
    weights = np.array([block.num_nodes for block in blocks]) / nodes

    def mean(values: list[Any]) -> Any:
        if any(value is None for value in values):
            return None
        if isinstance(values[0], Covariance):
            value, error = np.array(values).T
            return Covariance(float(weights @ value), float(np.sqrt(weights**2 @ error**2)))
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    names = [item.name for item in fields(Evidence)]
    average = {name: mean([getattr(block.evidence, name) for block in blocks]) for name in names}
    return blocks[0]._replace(
        evidence=Evidence(**average),
        num_nodes=nodes,
        num_links=sum(block.num_links for block in blocks),
        worth=sum(block.worth for block in blocks),
        work=sum(block.work for block in blocks),
    )
