r"""The evidence of a large graph from a sample of its nodes, with all that the model reads there.

A model of k layers computes the logits of a node from the nodes within k edges of it, its
receptive field. Logits of the whole graph that were made elsewhere therefore leave little to run:
the perturbed passes are taken on the union of the fields of some nodes and of the ends of some
links, and their cost does not depend on the size of the graph.

- **Depth.** It is found by a test and not assumed: the model runs on the fields of a few nodes, one
  edge deeper each time, until it gives the logits that it gave on the whole graph. All sampled
  nodes are then compared, since a model may read farther at some nodes than at others. Layers that
  divide by the degrees of both ends of an edge (GCN) also need the degrees of the outermost nodes.
  These get them from edges to empty nodes, which nothing that is measured reads.
- **Nodes** are a sample in proportion to the strata of predicted class and confidence, which are
  known everywhere; so the sample has the shares of the whole graph.
- **Links** are those to a random neighbour of every sampled node. They are held out in every pass
  without some edges, because the agreement across held-out links needs the logits of both ends. A
  link is chosen with a probability in proportion to :math:`1/d_i + 1/d_j` for the degrees d of its
  ends, and has the inverse as its weight.

Both are drawn by the content of nodes, so that their numbers do not change the answer
(`graphtemper.signals.sampling`).

If the fields of the smallest useful sample are most of the graph, the model runs on all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals import graph_parts, sampling
from graphtemper.signals.covariances import centred
from graphtemper.signals.graph_parts import Field, InMemory, Reach, Whole, logits_on, relative_work
from graphtemper.signals.observation import Observation, Part
from graphtemper.signals.passes import mixed

SMALL = 100_000
"""Up to this number of nodes the model runs on the whole graph, which is more precise."""
SIZES = (2000, 1400, 1000, 700, 500)
"""Numbers of sampled nodes; the largest whose fields are not too large is used."""
TESTED = 24
"""Nodes at which the depth is found."""
_DEEPEST = 12
TOLERANCE = 1e-3
"""Differences of logits, relative to their size, that rounding explains."""
# The share of nodes that may differ by more, since sums over many neighbours round differently.
_FEW = 0.005
# Half precision changes logits by some hundredths of their size; those of another model, in another
# order, or of a field that is too small, differ by more than this share of it.
_OTHER, _TINY = 0.1, 1e-300


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of a graph, observed through its fields.

    Attributes
    ----------
    nodes
        The sampled nodes, (n,).
    observation
        The model on the fields, measured at the sampled nodes.
    depth
        Number of edges over which the model reads.
    work
        Work of one pass over the fields, relative to one over the whole graph.
    num_links
        Number of sampled links.
    """

    nodes: Rows
    observation: Observation
    depth: int
    work: float
    num_links: int


def draw(observation: Observation) -> Sample | None:
    """Return a sample of an observation that was given its logits, or None to run on all nodes.

    Raises `InputError` if the model gives other logits than those of the observation.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(120_000, degree=5, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(500))
    >>> found = draw(Observation(lambda graph: model(graph), g, logits=model(g)))
    >>> found.depth, found.work < 0.5
    (1, True)
    """
    graph = observation.graph
    if graph.num_nodes <= SMALL or graph.target_type is not None or not len(graph.links):
        return None
    whole, predictor = InMemory(observation), in_one_pass(observation.predictor)
    logits = centred(observation.all_logits)
    tested = _drawn(observation, TESTED)
    for reach in reaches(whole):
        field = Field.of(whole, tested, reach)
        if field is None or len(field.nodes) > graph_parts.MOST_SHARE * graph.num_nodes:
            break
        found = logits_on(predictor, field.graph)
        if found is None or not agree(found[field.rows(tested)], logits[tested]):
            continue
        seen = sample(
            whole,
            lambda size: _drawn(observation, size),
            predictor,
            reach,
            observation.column_moments,
            observation.seed,
        )
        if seen is None:
            break
        if agree(centred(seen.observation.logits), logits[seen.nodes]):
            return seen
    check_whole(observation, predictor)
    return None


def reaches(whole: Whole) -> Iterator[Reach]:
    """Yield how far a model may read, the cheapest first."""
    for depth in range(1, _DEEPEST + 1):
        yield Reach(depth, padded=False)
        if whole.is_plain:
            yield Reach(depth, padded=True)


def agree(found: FloatArray, known: FloatArray, tolerance: float = TOLERANCE) -> bool:
    """Return whether centred logits are equal but for rounding."""
    size = np.abs(known).max(axis=1)
    gap = np.abs(found - known).max(axis=1) / np.maximum(size + np.median(size), _TINY)
    return float((gap > tolerance).mean()) <= _FEW and bool(gap.max() <= _OTHER)


def check_whole(observation: Observation, predictor: Predictor) -> None:
    """Refuse logits that the model does not give on the whole graph either."""
    logits = centred(observation.all_logits)
    found = centred(predict(predictor, observation.graph))
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


def sample(
    whole: Whole,
    drawn: Callable[[int], Rows],
    predictor: Predictor,
    reach: Reach,
    moments: tuple[FloatArray, FloatArray],
    seed: int,
    sizes: Sequence[int] | None = None,
) -> Sample | None:
    """Return the largest sample whose fields are not too large, or None.

    Parameters
    ----------
    whole
        The graph.
    drawn
        Returns a sample of a given number of nodes, sorted.
    predictor, reach
        The model, and how far it reads.
    moments
        Mean and standard deviation of the feature columns of the whole graph.
    seed
        Seed of the sampled links and of the perturbed passes.
    sizes
        Numbers of nodes to try, from the largest (default: `SIZES`).
    """
    for size in sizes or SIZES:
        nodes = drawn(size)
        links = _to_neighbours(whole, nodes, seed)
        centre = np.unique(np.concatenate([nodes, links[:, 1]]))
        if not allowed(whole, centre, reach):
            continue
        field = Field.of(whole, centre, reach)
        if field is None:
            continue
        ends = whole.degrees(links.ravel()).reshape(-1, 2)
        weights = 1.0 / (1.0 / ends).sum(axis=1)
        part = Part(moments, _positions(field, links), weights)
        return Sample(
            nodes=nodes,
            observation=Observation(
                predictor, field.graph, field.rows(nodes), seed=seed, part=part
            ),
            depth=reach.depth,
            work=relative_work(field.graph, whole),
            num_links=len(links),
        )
    return None


def allowed(whole: Whole, centre: Rows, reach: Reach) -> bool:
    """Return whether the fields of some nodes are small enough to be read instead of the graph."""
    reached = whole.ball(centre, reach.depth)
    if reached is None:
        return False
    inner = reached if reach.padded else whole.ball(centre, reach.depth - 1)
    return inner is not None and whole.readable(reached.size, int(whole.degrees(inner).sum()))


def _drawn(observation: Observation, size: int) -> Rows:
    """Return nodes of each stratum in proportion to its size, sorted."""
    if size >= observation.num_nodes:
        return observation.nodes
    rng = stream(observation.seed, "sampled nodes")
    groups = sampling.strata(observation.probabilities)
    counts = np.bincount(groups, minlength=sampling.num_strata(observation.num_classes))
    take = sampling.allocated(counts, size, rng.random())
    draws = mixed(observation.nodes.astype(np.uint64) + sampling.salt(rng))
    return np.sort(observation.nodes[sampling.lowest(groups, draws, take)])


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
