"""A graph in Parquet: edges and nodes, of which parts are read in passes over the files.

A pass reads every edge once and keeps those that touch given nodes; k passes join k edges. It needs
memory for a flag per node and for what it keeps, whatever the number of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.errors import DamagedError, RangeError, TableError
from graphtemper.graph.attributes import link_numbers, merged_edges
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows
from graphtemper.graph.operators import column_moments
from graphtemper.models.logit_files import NODE
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.sums import Moments, total
from graphtemper.scale.parquet import File, Place, Table, arrow, to_floats, to_numbers
from graphtemper.signals.passes import Keys, mixed

MOST_ROWS, MOST_LINKS, MOST_VALUES = 2_000_000, 8_000_000, 40_000_000
"""The largest part that is read at once: nodes, links, and features."""
_EDGE_VALUES, _NODE_VALUES = 4_000_000, 8_000_000
# Common names for the two ends of an edge, and for what else an edge and a node may have.
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))
_WEIGHT, _EDGE_TYPE = ("weight", "edge_weight"), ("type", "edge_type")
_TYPE, _LABEL, _ROW = "type", "label", "__row"


@dataclass(frozen=True)
class StoredGraph:
    """A graph whose edges and nodes are tables in Parquet.

    Attributes
    ----------
    nodes
        The features, a column each. A column ``node`` numbers the nodes 0 to N - 1 in any order;
        without it they are numbered in the order of the files. A column ``type`` is the type, and
        ``label`` is no feature.
    edges
        The ends of every edge: ``source`` and ``target``, ``src`` and ``dst``, or ``from`` and
        ``to``. A column ``weight`` is the weight, ``type`` the type; all others are attributes.
    """

    nodes: Table
    edges: Table
    ends: tuple[str, str]
    directed: bool = False

    @classmethod
    def open(cls, nodes: Place, edges: Place | None = None, directed: bool = False) -> StoredGraph:
        """Find the files, and check that all parts of a table have the same columns."""
        table = Table() if edges is None else Table.open(edges)
        named = (pair for pair in _END_NAMES if edges is None or {*pair} <= {*table.columns})
        ends = next(named, None)
        if ends is None:
            raise TableError(
                f"{edges} has the columns {', '.join(table.columns)!r:.60}; name the two ends of "
                "an edge source and target."
            )
        graph = cls(Table.open(nodes), table, ends, directed)
        if not graph.num_nodes or not graph.features:
            raise TableError(f"{nodes} has no rows, or no columns of features.")
        return graph

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes.num_rows

    @property
    def num_features(self) -> int:
        """Number of feature columns."""
        return len(self.features)

    @property
    def features(self) -> list[str]:
        """Names of the feature columns."""
        return [name for name in self.nodes.columns if name not in (NODE, _TYPE, _LABEL)]

    @property
    def is_plain(self) -> bool:
        """Whether edges have neither directions nor attributes, nor nodes types."""
        return not self.directed and len(self.edges.columns) == 2 and not self._typed

    @property
    def _typed(self) -> list[str]:
        return [_TYPE] * (_TYPE in self.nodes.columns)

    def read_edges(self, part: int, others: bool = False) -> Iterator[tuple[Rows, Rows, Any]]:
        """Yield both ends of the edges of a file in batches, and the batch."""
        names = self.edges.columns if others else list(self.ends)
        for _, batch in self.edges.batches(part, names, _EDGE_VALUES):
            low, high = (self._numbers(batch, end, self.edges.files[part]) for end in self.ends)
            yield low, high, batch

    def read_nodes(self, part: int, names: list[str]) -> Iterator[tuple[Rows, Any]]:
        """Yield the numbers of the nodes of a file in batches, and the batch."""
        known = [NODE] * (NODE in self.nodes.columns)
        for row, batch in self.nodes.batches(part, [*names, *known], _NODE_VALUES):
            own = np.arange(row, row + batch.num_rows)
            yield self._numbers(batch, NODE, self.nodes.files[part]) if known else own, batch

    def _numbers(self, batch: Any, name: str, file: File) -> Rows:
        """Return a column of numbers of nodes; refuse those that no node has."""
        numbers = to_numbers(batch, name, file)
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_nodes:
            raise RangeError(
                f"{file} names the node {numbers[(numbers < 0) | (numbers >= self.num_nodes)][0]}, "
                f"but there are {self.num_nodes:,}; number the nodes from 0."
            )
        return numbers

    def pairs(self, edges: Any) -> Rows:
        """Return both ends of the edges of a table, (m, 2)."""
        return np.column_stack([edges[end] for end in self.ends]).astype(np.int64)

    def graph(self, engine: Engine, nodes: Rows, edges: Any) -> Graph:
        """Return the graph of some nodes, sorted, with some of the edges between them."""
        work = partial(_rows, graph=self, nodes=nodes)
        found = arrow().concat_tables(engine.map(work, range(len(self.nodes.files))))
        found, pairs = found.sort_by(_ROW), np.searchsorted(nodes, self.pairs(edges))
        if not np.array_equal(found[_ROW], nodes):
            raise self.not_numbered()
        attributes, rest = {}, []
        for name in (name for name in edges.column_names if name not in self.ends):
            if name in _WEIGHT:
                attributes["edge_weight"] = to_floats(edges, [name], "edges", np.float32)[:, 0]
            elif name in _EDGE_TYPE:
                attributes["edge_type"] = to_numbers(edges, name, "edges").astype(np.int64)
            else:
                rest.append(name)
        if rest:
            attributes["edge_features"] = to_floats(edges, rest, "edges", np.float32)
        fields: dict[str, Any] = {"edges": pairs} | attributes
        if not self.directed:
            fields = merged_edges(pairs, attributes, nodes.size)
        if self._typed:
            fields["node_type"] = to_numbers(found, _TYPE, "nodes").astype(np.int64)
        features = to_floats(found, self.features, "nodes", np.float32)
        return Graph(features=features, directed=self.directed, **fields)

    def not_numbered(self) -> DamagedError:
        """Return the error that nodes are missing or repeated."""
        return DamagedError(
            f"{self.nodes.files[0]} and the other files of nodes: the column node must hold 0 to "
            f"{self.num_nodes - 1}, each once; some are missing or repeated."
        )


class StoredWhole:
    """A stored graph as a `graphtemper.signals.graph_parts.Whole`; what was read once is kept.

    Nodes are drawn by their numbers, not by their content.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from pathlib import Path
    >>> from graphtemper.scale.engine import Serial
    >>> folder = Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.table({"source": [0, 1, 2], "target": [1, 2, 3]}), folder / "e.parquet")
    >>> pq.write_table(pa.table({"x": [0.0, 1.0, 2.0, 3.0]}), folder / "n.parquet")
    >>> graph = StoredGraph.open(folder / "n.parquet", folder / "e.parquet")
    >>> whole = StoredWhole(graph, Serial())
    >>> whole.degrees(np.array([0, 1])).tolist(), whole.ball(np.array([0]), 2).tolist()
    ([1, 2], [0, 1, 2])
    """

    def __init__(self, graph: StoredGraph, engine: Engine) -> None:
        self.stored, self._engine = graph, engine
        self.num_nodes, self.num_edges = graph.num_nodes, graph.edges.num_rows
        # Pairs of neighbours, or more where an edge is stored twice.
        self.num_links, self.is_plain = self.num_edges, graph.is_plain
        self._edges = graph.edges.schema.empty_table()
        self._read = self._counted = self._counts = self._ids = np.empty(0, np.int64)
        self._adjacency = sp.csr_matrix((0, 0))

    def readable(self, rows: int, links: int) -> bool:
        """See `graphtemper.signals.graph_parts.Whole`."""
        # Many layers hold the features of a neighbour for both directions of every link.
        values = max(rows, links // 4) * self.stored.num_features
        return rows <= MOST_ROWS and links <= MOST_LINKS and values <= MOST_VALUES

    def degrees(self, nodes: Rows) -> Rows:
        """See `graphtemper.signals.graph_parts.Whole`; more for edges that are stored twice."""
        new = np.setdiff1d(nodes, self._counted)
        if new.size:
            work = partial(_count, graph=self.stored, nodes=new)
            counts = total(self._engine.map(work, range(len(self.stored.edges.files))))
            order = np.argsort(np.concatenate([self._counted, new]), kind="stable")
            self._counted = np.concatenate([self._counted, new])[order]
            self._counts = np.concatenate([self._counts, counts])[order]
        return np.asarray(self._counts[np.searchsorted(self._counted, nodes)])

    def near(self, nodes: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `graphtemper.signals.graph_parts.Whole`."""
        new = np.setdiff1d(nodes, self._read)
        if new.size:
            self._collect(new)
        rows = self._adjacency[np.searchsorted(self._ids, nodes)]
        return self._ids[rows.indices], rows.indptr

    def _collect(self, new: Rows) -> None:
        """Read the edges of more nodes."""
        found = touching(self._engine, self.stored, new, self._read)
        self._edges = arrow().concat_tables([self._edges, found])
        self._read = np.union1d(self._read, new)
        pairs = self.stored.pairs(self._edges)
        self._ids = np.union1d(self._read, pairs)
        links, _ = link_numbers(np.searchsorted(self._ids, pairs), self._ids.size)
        both = np.concatenate([links, links[:, ::-1]])
        size = (self._ids.size, self._ids.size)
        self._adjacency = sp.csr_matrix((np.ones(len(both), np.int8), tuple(both.T)), size)

    def ball(self, centre: Rows, radius: int) -> Rows | None:
        """See `graphtemper.signals.graph_parts.Whole`."""
        inside = boundary = np.unique(centre)
        for _ in range(radius):
            if not self.readable(inside.size, int(self.degrees(boundary).sum())):
                return None
            reached = np.unique(self.near(boundary)[0])
            boundary = np.setdiff1d(reached, inside, assume_unique=True)
            inside = np.union1d(inside, boundary)
        return inside if self.readable(inside.size, 0) else None

    def part(self, nodes: Rows, inner: Rows) -> Graph:
        """See `graphtemper.signals.graph_parts.Whole`."""
        kept = np.isin(self.stored.pairs(self._edges), inner).any(axis=1)
        return self.stored.graph(self._engine, nodes, self._edges.filter(kept))

    def keys(self, nodes: NDArray[Any]) -> Keys:
        """See `graphtemper.signals.graph_parts.Whole`."""
        return mixed(nodes.astype(np.uint64))


def load(engine: Engine, graph: StoredGraph) -> Graph:
    """Load a stored graph into memory."""
    nodes = np.arange(graph.num_nodes)
    return graph.graph(engine, nodes, touching(engine, graph, nodes, nodes[:0]))


def _flags(count: int, nodes: Rows) -> NDArray[np.bool_]:
    flags = np.zeros(count, dtype=bool)
    flags[nodes] = True
    return flags


def _count(part: int, *, graph: StoredGraph, nodes: Rows) -> Rows:
    """Return how many edges of a file each of some sorted nodes has."""
    wanted, counts = _flags(graph.num_nodes, nodes), np.zeros(nodes.size, np.int64)
    for *ends, _ in graph.read_edges(part):
        for end in ends:
            place = np.searchsorted(nodes, end[wanted[end]])
            counts += np.bincount(place, minlength=nodes.size)
    return counts


def touching(engine: Engine, graph: StoredGraph, nodes: Rows, known: Rows) -> Any:
    """Return a table of the edges with an end in ``nodes`` and none in ``known``."""
    work = partial(_touching, graph=graph, nodes=nodes, known=known)
    return arrow().concat_tables(engine.map(work, range(len(graph.edges.files))))


def _touching(part: int, *, graph: StoredGraph, nodes: Rows, known: Rows) -> Any:
    wanted, found = np.zeros(graph.num_nodes, np.int8), []
    wanted[nodes], wanted[known] = 1, 2
    for low, high, batch in graph.read_edges(part, others=True):
        found.append(batch.filter(np.maximum(wanted[low], wanted[high]) == 1))
    return arrow().Table.from_batches(found)


def _rows(part: int, *, graph: StoredGraph, nodes: Rows) -> Any:
    """Return the rows of some nodes in a file, with the nodes' numbers."""
    wanted, found = _flags(graph.num_nodes, nodes), []
    for own, batch in graph.read_nodes(part, [*graph.features, *graph._typed]):
        here = wanted[own]
        found.append(batch.filter(here).append_column(_ROW, arrow().array(own[here])))
    return arrow().Table.from_batches(found)


class Known(NamedTuple):
    """What is known of all nodes and edges.

    Moments of the features, agreement with a second opinion, the covariance of the logits, and the
    share of edges whose ends are predicted to be of one class, in all and by chance.
    """

    moments: tuple[FloatArray, FloatArray]
    second: float | None
    covariance: FloatArray = np.zeros((0, 0))
    homophily: float | None = None
    chance: float = 0.0


def known_of_nodes(
    engine: Engine,
    graph: StoredGraph,
    predicted: NDArray[Any] | None = None,
    second: Callable[[Any], Any] | None = None,
) -> Known:
    """Return what is known of all nodes, whose numbers are checked.

    ``second`` gives the classes of features (m, F), which are compared with those predicted.
    """
    work = partial(_moments, graph=graph, predicted=predicted, second=second)
    found = [item for part in engine.map(work, range(len(graph.nodes.files))) for item in part]
    moments, numbers, agreeing = (total(column) for column in zip(*found, strict=True))
    if numbers % 2**64 != _checksum(np.arange(graph.num_nodes)):
        raise graph.not_numbered()
    share = None if second is None else agreeing / graph.num_nodes
    return Known((moments.mean, np.sqrt(moments.covariance)), share)


def _checksum(numbers: NDArray[Any]) -> int:
    """Return a number that shows whether two tables have the same nodes, in any order."""
    return int(mixed(numbers.astype(np.uint64)).sum(dtype=np.uint64))


def _moments(
    part: int, *, graph: StoredGraph, predicted: NDArray[Any] | None, second: Any
) -> list[tuple[Moments, int, int]]:
    found, names, file = [], graph.features, graph.nodes.files[part]
    for own, batch in graph.read_nodes(part, names):
        if not own.size:
            continue
        features = to_floats(batch, names, file, np.float32)
        mean, std = column_moments(features)
        if not np.isfinite(mean).all() or not np.isfinite(std).all():
            raise DamagedError(f"{file}: its features are not all finite.")
        agreeing = 0
        if second is not None and predicted is not None:
            agreeing = int((second(features) == predicted[own]).sum())
        moments = Moments(len(features), mean, std**2 * len(features))
        found.append((moments, _checksum(own), agreeing))
    return found


def agreement(
    engine: Engine, graph: StoredGraph, predicted: NDArray[Any], num_classes: int
) -> tuple[float | None, float]:
    """Return the share of edges whose ends are predicted to be of one class, and that by chance.

    Loops do not count; without other edges there is no share.
    """
    work = partial(_agreeing, graph=graph, predicted=predicted, num_classes=num_classes)
    agreeing, *ends = total(engine.map(work, range(len(graph.edges.files))))
    shares = np.array(ends) / max(sum(ends), 1)
    return 2.0 * agreeing / sum(ends) if sum(ends) else None, float(shares @ shares)


def _agreeing(part: int, *, graph: StoredGraph, predicted: NDArray[Any], num_classes: int) -> Rows:
    found = np.zeros(1 + num_classes, np.int64)
    for low, high, _ in graph.read_edges(part):
        one, other = predicted[low], predicted[high]
        loops = one[low == high]
        found[0] += (one == other).sum() - loops.size
        for sign, classes in ((1, one), (1, other), (-2, loops)):
            found[1:] += sign * np.bincount(classes, minlength=num_classes)
    return found
