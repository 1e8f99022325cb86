r"""The evidence of a large graph from a sample of its nodes, with all that the model reads there.

A model of k layers computes the logits of a node from the nodes within k edges of it, its
receptive field. Logits of the whole graph that were made elsewhere therefore leave little to run:
the perturbed passes are taken on the union of the fields of some nodes and of the ends of some
links, and their cost does not depend on the size of the graph.

- **Depth.** It is found by a test and not assumed: the model runs on the fields of a few nodes, one
  edge deeper each time, until it gives the logits that it gave on the whole graph. Layers that
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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import ball
from graphtemper.graph.operators import adjacency
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals import sampling
from graphtemper.signals.covariances import centred
from graphtemper.signals.observation import Observation, Part
from graphtemper.signals.passes import mixed

Rows = NDArray[np.int64]
SMALL = 100_000
"""Up to this number of nodes the model runs on the whole graph, which is more precise."""
SIZES = (2000, 1400, 1000, 700, 500)
"""Numbers of sampled nodes; the largest whose fields are not too large is used."""
# Largest fields of a sample: rows, links, and the share of the graph.
_MOST_ROWS, _MOST_LINKS, _MOST_SHARE = 400_000, 4_000_000, 0.5
_DEEPEST = 12
# Nodes at which the depth is found.
_TESTED = 24
# Differences of logits, relative to their size, that rounding explains; and the share of nodes
# that may differ by more, since sums over many neighbours round differently.
_TOLERANCE, _FEW = 1e-3, 0.005
# Logits of another model, or in another order, differ by their own size.
_OTHER = 0.3


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


@dataclass(frozen=True, eq=False)
class _Field:
    """The nodes within ``depth`` edges of a centre, and the links that messages to it take."""

    graph: Graph
    nodes: Rows

    @classmethod
    def of(cls, whole: Graph, centre: Rows, depth: int, padded: bool) -> _Field:
        inner = ball(adjacency(whole), centre, depth - 1)
        nodes = ball(adjacency(whole), inner, 1)
        part = whole.subgraph(nodes)
        read = np.zeros(nodes.size, dtype=bool)
        read[np.searchsorted(nodes, inner)] = True
        part = part.keep_links(np.asarray(read[part.links].any(axis=1)))
        if padded:
            part = _with_degrees(part, whole.degrees[nodes] - part.degrees)
        return cls(part, nodes)

    def rows(self, nodes: Rows) -> Rows:
        """Return the rows of some nodes of the whole graph."""
        return np.searchsorted(self.nodes, nodes)


def _with_degrees(graph: Graph, missing: Rows) -> Graph:
    """Return the graph with edges to empty nodes, as many per node as it is missing."""
    count, empty = graph.num_nodes, int(missing.max(initial=0))
    owners = np.repeat(np.arange(count), missing)
    ends = count + np.arange(owners.size) - np.repeat(np.cumsum(missing) - missing, missing)
    features = graph.features
    if isinstance(features, np.ndarray):
        features = np.vstack([features, np.zeros((empty, graph.num_features), features.dtype)])
    else:
        blank = sp.csr_matrix((empty, graph.num_features), dtype=features.dtype)
        features = sp.vstack([features, blank], format="csr")
    edges = np.vstack([graph.edges, np.column_stack([owners, ends]).astype(np.int32)])
    return Graph(features=features, edges=edges)


def relative_work(part: Graph, whole: Graph) -> float:
    """Return the work of a pass over a part, relative to one over the whole graph.

    It is the mean of the shares of nodes and of edges.
    """
    edges = part.num_edges / whole.num_edges if whole.num_edges else 1.0
    return 0.5 * (part.num_nodes / whole.num_nodes + edges)


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
    predictor = _in_one_pass(observation.predictor)
    logits = centred(observation.all_logits * observation.temperature)
    tested = _drawn(observation, _TESTED)
    for depth, padded in _depths(graph):
        field = _Field.of(graph, tested, depth, padded)
        if len(field.nodes) > _MOST_SHARE * graph.num_nodes:
            break
        found = _logits(predictor, field.graph)
        if found is None or not _agree(found[field.rows(tested)], logits[tested]):
            continue
        sample = _sample(observation, predictor, depth, padded)
        if sample is None:
            return None
        part = sample.observation
        if _agree(centred(part.logits * part.temperature), logits[sample.nodes]):
            return sample
    _check_whole(observation, predictor, logits)
    return None


def _depths(graph: Graph) -> Iterator[tuple[int, bool]]:
    for depth in range(1, _DEEPEST + 1):
        yield depth, False
        if graph.is_plain:
            yield depth, True


def _logits(predictor: Predictor, graph: Graph) -> FloatArray | None:
    """Return centred logits, or None if the model does not run on a part of the graph."""
    try:
        return centred(predict(predictor, graph))
    except Exception:  # the user's code, which may need the whole graph for any reason
        return None


def _agree(found: FloatArray, known: FloatArray) -> bool:
    size = np.abs(known).max(axis=1)
    gap = np.abs(found - known).max(axis=1)
    return float((gap > _TOLERANCE * (size + np.median(size))).mean()) <= _FEW


def _check_whole(observation: Observation, predictor: Predictor, logits: FloatArray) -> None:
    """Refuse logits that the model does not give on the whole graph either."""
    found = centred(predict(predictor, observation.graph))
    size = float(np.sqrt((found**2).mean()))
    if float(np.sqrt(((found - logits) ** 2).mean())) > _OTHER * size:
        node = int(np.abs(found - logits).max(axis=1).argmax())
        raise InputError(
            f"the given logits are not those of the model on this graph, for instance at node "
            f"{node}; check the order of the rows, and that the model is the same."
        )


def _in_one_pass(predictor: Any) -> Predictor:
    """Return a predictor that takes a graph in one pass, where it would run in batches."""
    in_batches = getattr(predictor, "batches", None) is not None
    whole: Predictor = replace(predictor, batches=None) if in_batches else predictor
    return whole


def _sample(
    observation: Observation, predictor: Predictor, depth: int, padded: bool
) -> Sample | None:
    """Return the largest sample whose fields are not too large, or None."""
    graph, matrix = observation.graph, adjacency(observation.graph)
    for size in SIZES:
        nodes = _drawn(observation, size)
        links = _to_neighbours(observation, matrix, nodes)
        centre = np.unique(np.concatenate([nodes, links[:, 1]]))
        reached = ball(matrix, centre, depth)
        if reached.size > min(_MOST_ROWS, _MOST_SHARE * graph.num_nodes):
            continue
        inner = reached if padded else ball(matrix, centre, depth - 1)
        if graph.degrees[inner].sum() > min(_MOST_LINKS, _MOST_SHARE * len(graph.links)):
            continue
        field = _Field.of(graph, centre, depth, padded)
        weights = 1.0 / (1.0 / graph.degrees[links]).sum(axis=1)
        part = Part(observation.column_moments, _positions(field, links), weights)
        rows = field.rows(nodes)
        seen = Observation(predictor, field.graph, rows, seed=observation.seed, part=part)
        return Sample(
            nodes=nodes,
            observation=seen.at(observation.temperature),
            depth=depth,
            work=relative_work(field.graph, graph),
            num_links=len(links),
        )
    return None


def _drawn(observation: Observation, size: int) -> Rows:
    """Return nodes of each stratum in proportion to its size, sorted."""
    if size >= observation.num_nodes:
        return observation.nodes
    rng = stream(observation.seed, "sampled nodes")
    groups = sampling.strata(observation.probabilities)
    counts = np.bincount(groups, minlength=sampling.num_strata(observation.num_classes))
    take = sampling.allocated(counts, size, rng.random())
    draws = mixed(observation.node_keys[observation.nodes] + _salt(rng))
    return np.sort(observation.nodes[sampling.lowest(groups, draws, take)])


def _to_neighbours(observation: Observation, matrix: sp.csr_matrix, nodes: Rows) -> Rows:
    """Return every node that has neighbours with a random one of them, (m, 2)."""
    near, keys = matrix[nodes], observation.node_keys
    salt = _salt(stream(observation.seed, "sampled links"))
    chosen = sampling.partners(near.indptr, keys[nodes], keys[near.indices], salt)
    linked = np.diff(near.indptr) > 0
    return np.column_stack([nodes[linked], near.indices[chosen]]).astype(np.int64)


def _salt(rng: np.random.Generator) -> np.uint64:
    return np.uint64(rng.integers(2**64, dtype=np.uint64))


def _positions(field: _Field, links: Rows) -> Rows:
    """Return the numbers of some links of the whole graph in a field."""
    count = field.graph.num_nodes

    def numbers(pairs: NDArray[Any]) -> Rows:
        ends = np.sort(pairs.astype(np.int64), axis=1)
        return np.asarray(ends[:, 0] * count + ends[:, 1])

    known = numbers(field.graph.links)
    order = np.argsort(known)
    return np.asarray(order[np.searchsorted(known[order], numbers(field.rows(links)))])
