"""A graph in Parquet: edges and nodes, of which parts are read in passes over the files.

A pass reads every edge once and keeps those that touch given nodes; k passes join k edges. It needs
memory for a flag per node and for what it keeps, whatever the number of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import mixed
from graphtemper.errors import FileError
from graphtemper.graph.attributes import link_numbers, merged_edges
from graphtemper.graph.graph import Graph
from graphtemper.graph.neighbourhoods import Rows, Whole
from graphtemper.graph.operators import column_moments
from graphtemper.models.logit_files import NODE
from graphtemper.scale.engine import Engine, each
from graphtemper.scale.parquet import File, Place, Table, arrow, to_floats, to_numbers
from graphtemper.scale.sums import Moments, distinct, limit, total

MOST_ROWS, MOST_LINKS, MOST_VALUES = 2_000_000, 8_000_000, 40_000_000
"""The largest part that is read at once: nodes, links, and features."""
LINKS = 4_000_000
"""Links of which the predicted classes of both ends are compared."""
_EDGE_VALUES, _NODE_VALUES = 4_000_000, 8_000_000
# Common names for the two ends of an edge, and for what else an edge and a node may have.
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))
_KNOWN = {x.removeprefix(p): x for x in ("edge_weight", "edge_type") for p in ("", "edge_")}
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
        ends = [pair for pair in _END_NAMES if edges is None or {*pair} <= {*table.columns}]
        if not ends:
            raise errors.table(f"{edges}: name the two ends of an edge source and target.")
        graph = cls(Table.open(nodes), table, ends[0], directed)
        if not graph.num_nodes or not graph.features:
            raise errors.table(f"{nodes} has no rows, or no columns of features.")
        return graph

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.nodes.num_rows

    @property
    def num_edges(self) -> int:
        """Number of stored edges."""
        return self.edges.num_rows

    @property
    def has_edges(self) -> bool:
        """Whether a table of edges was given."""
        return bool(self.edges.files)

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
        return not (self.directed or len(self.edges.columns) > 2 or _TYPE in self.nodes.columns)

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
        bad = numbers[(numbers < 0) | (numbers >= self.num_nodes)]
        if bad.size:
            raise errors.range(f"{file} names the node {bad[0]}, but there are {self.num_nodes:,}.")
        return numbers

    def pairs(self, edges: Any) -> Rows:
        """Return both ends of the edges of a table, (m, 2)."""
        return np.column_stack([edges[end] for end in self.ends]).astype(np.int64)

    def graph(self, engine: Engine, nodes: Rows, edges: Any) -> Graph:
        """Return the graph of some nodes, sorted, with some of the edges between them."""
        found = arrow().concat_tables(each(engine, self.nodes, _rows, graph=self, nodes=nodes))
        found, pairs = found.sort_by(_ROW), np.searchsorted(nodes, self.pairs(edges))
        if not np.array_equal(found[_ROW], nodes):
            raise self.not_numbered()
        others = [name for name in edges.column_names if name not in self.ends]
        values = {name: to_numbers(edges, name, "edges", "fiub") for name in others}
        fields: dict[str, Any] = {_KNOWN[x]: values.pop(x) for x in others if x in _KNOWN}
        if values:
            fields["edge_features"] = np.column_stack(list(values.values()))
        fields |= {"edges": pairs} if self.directed else merged_edges(pairs, fields, nodes.size)
        if _TYPE in self.nodes.columns:
            fields["node_type"] = to_numbers(found, _TYPE, "nodes")
        features = to_floats(found, self.features, "nodes", np.float32)
        return Graph(features=features, directed=self.directed, **fields)

    def not_numbered(self) -> FileError:
        """Return the error that nodes are missing or repeated."""
        said = f"0 to {self.num_nodes - 1}, each once; some are missing or repeated."
        return errors.damaged(
            f"{self.nodes.files[0]} and the others: the column node must hold {said}"
        )


class Tables(NamedTuple):
    """Where the logits of a graph are, and its edges and nodes; see `StoredGraph.open`."""

    logits: Place
    graph: Place
    features: Place
    directed: bool = False

    def open(self) -> StoredGraph:
        """Return the graph."""
        return StoredGraph.open(self.features, self.graph, self.directed)


class StoredWhole(Whole):
    """A stored graph as a `graphtemper.graph.neighbourhoods.Whole`; what was read once is kept.

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

    on_disk = True

    def __init__(self, graph: StoredGraph, engine: Engine) -> None:
        self.stored, self.engine = graph, engine
        self.num_nodes, self.num_edges = graph.num_nodes, graph.edges.num_rows
        # Pairs of neighbours, or more where an edge is stored twice.
        self.num_links, self.is_plain = self.num_edges, graph.is_plain
        self._edges = graph.edges.schema.empty_table()
        self._read = self._ids = np.empty(0, np.int64)
        self._counts = np.full(graph.num_nodes, -1, np.int32)
        self._adjacency = sp.csr_matrix((0, 0))

    def fresh(self) -> StoredWhole:
        """See `graphtemper.graph.neighbourhoods.Whole`."""
        return StoredWhole(self.stored, self.engine)

    def readable(self, rows: int, links: int) -> bool:
        """See `graphtemper.graph.neighbourhoods.Whole`."""
        # Many layers hold the features of a neighbour for both directions of every link.
        values = max(rows, links // 4) * self.stored.num_features
        return rows <= MOST_ROWS and links <= MOST_LINKS and values <= MOST_VALUES

    def degrees(self, nodes: Rows) -> Rows:
        """See `graphtemper.graph.neighbourhoods.Whole`; more for edges that are stored twice."""
        new = distinct(nodes[self._counts[nodes] < 0])
        if new.size:
            found = each(self.engine, self.stored.edges, _count, graph=self.stored, nodes=new)
            self._counts[new] = total(found)
        return self._counts[nodes].astype(np.int64)

    def near(self, nodes: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `graphtemper.graph.neighbourhoods.Whole`."""
        new = np.setdiff1d(distinct(nodes), self._read, assume_unique=True)
        if new.size:
            found = touching(self.engine, self.stored, new, self._read)
            self._edges = arrow().concat_tables([self._edges, found])
            self._read, pairs = distinct(self._read, new), self.stored.pairs(self._edges)
            self._ids = distinct(self._read, *pairs.T)
            links, _ = link_numbers(np.searchsorted(self._ids, pairs), self._ids.size)
            size = (self._ids.size, self._ids.size)
            half = sp.coo_matrix((np.ones(len(links), np.int8), tuple(links.T)), size)
            self._adjacency = (half + half.T).tocsr()
        rows = self._adjacency[np.searchsorted(self._ids, nodes)]
        return self._ids[rows.indices], rows.indptr

    def ball(self, centre: Rows, radius: int) -> Rows | None:
        """See `graphtemper.graph.neighbourhoods.Whole`."""
        inside = boundary = distinct(centre)
        for _ in range(radius):
            if not self.readable(inside.size, int(self.degrees(boundary).sum())):
                return None
            reached = distinct(self.near(boundary)[0])
            boundary = np.setdiff1d(reached, inside, assume_unique=True)
            inside = distinct(inside, boundary)
        return inside if self.readable(inside.size, 0) else None

    def part(self, nodes: Rows, inner: Rows) -> Graph:
        """See `graphtemper.graph.neighbourhoods.Whole`."""
        kept = np.isin(self.stored.pairs(self._edges), inner).any(axis=1)
        return self.stored.graph(self.engine, nodes, self._edges.filter(kept))


def load(engine: Engine, graph: StoredGraph) -> Graph:
    """Load a stored graph into memory."""
    nodes = np.arange(graph.num_nodes)
    return graph.graph(engine, nodes, touching(engine, graph, nodes, nodes[:0]))


def _count(part: int, *, graph: StoredGraph, nodes: Rows) -> Rows:
    """Return how many edges of a file each of some sorted nodes has."""
    wanted, counts = _flags(graph.num_nodes, nodes), np.zeros(nodes.size, np.int64)
    for *ends, _ in graph.read_edges(part):
        for end in ends:
            place = np.searchsorted(nodes, end[wanted[end] == 1])
            counts += np.bincount(place, minlength=nodes.size)
    return counts


def _flags(count: int, nodes: Rows) -> NDArray[np.bool_]:
    flags = np.zeros(count, dtype=bool)
    flags[nodes] = True
    return flags


def touching(engine: Engine, graph: StoredGraph, nodes: Rows, known: Rows) -> Any:
    """Return a table of the edges with an end in ``nodes`` and none in ``known``."""
    found = each(engine, graph.edges, _touching, graph=graph, nodes=nodes, known=known)
    return arrow().concat_tables(found)


def _touching(part: int, *, graph: StoredGraph, nodes: Rows, known: Rows) -> Any:
    wanted = _flags(graph.num_nodes, nodes) + 2 * _flags(graph.num_nodes, known).view(np.int8)
    found = graph.read_edges(part, others=True)
    kept = [x.filter(np.maximum(wanted[low], wanted[high]) == 1) for low, high, x in found]
    return arrow().Table.from_batches(kept)


def _rows(part: int, *, graph: StoredGraph, nodes: Rows) -> Any:
    """Return the rows of some nodes in a file, with the nodes' numbers."""
    wanted, found = _flags(graph.num_nodes, nodes), []
    names = [name for name in graph.nodes.columns if name not in (NODE, _LABEL)]
    for own, batch in graph.read_nodes(part, names):
        here = wanted[own]
        found.append(batch.filter(here).append_column(_ROW, arrow().array(own[here])))
    return arrow().Table.from_batches(found)


def moments_of(engine: Engine, graph: StoredGraph) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of the features of all nodes, whose numbers are checked."""
    found = [item for part in each(engine, graph.nodes, _moments, graph=graph) for item in part]
    moments, numbers = (total(column) for column in zip(*found, strict=True))
    if numbers % 2**64 != _checksum(np.arange(graph.num_nodes)):
        raise graph.not_numbered()
    return moments.mean, np.sqrt(moments.covariance)


def _checksum(numbers: NDArray[Any]) -> int:
    """Return a number that shows whether two tables have the same nodes, in any order."""
    return int(mixed(numbers.astype(np.uint64)).sum(dtype=np.uint64))


def _moments(part: int, *, graph: StoredGraph) -> list[tuple[Moments, int]]:
    found, file = [], graph.nodes.files[part]
    for own, batch in graph.read_nodes(part, graph.features):
        if own.size:
            mean, std = column_moments(to_floats(batch, graph.features, file, np.float32))
            if not (np.isfinite(mean) & np.isfinite(std)).all():
                raise errors.damaged(f"{file}: its features are not all finite.")
            found.append((Moments(own.size, mean, std**2 * own.size), _checksum(own)))
    return found


def some_links(engine: Engine, graph: StoredGraph, count: int = LINKS) -> Rows:
    """Return ``count`` of the links or a few more or less, (m, 2); all of a graph that has no more.

    A link is taken by a hash of its ends, so that one that is stored twice counts once.
    """
    most = limit(count / max(graph.edges.num_rows, 1))
    found = distinct(*each(engine, graph.edges, _links, graph=graph, most=most))
    return np.column_stack(np.divmod(found, np.uint64(graph.num_nodes))).astype(np.int64)


def _links(part: int, *, graph: StoredGraph, most: np.uint64) -> NDArray[np.uint64]:
    found = [np.empty(0, np.uint64)]
    for one, other, _ in graph.read_edges(part):
        low, high = np.minimum(one, other).astype(np.uint64), np.maximum(one, other)
        pairs = low * np.uint64(graph.num_nodes) + high.astype(np.uint64)
        found.append(pairs[(mixed(pairs) <= most) & (one != other)])
    return np.concatenate(found)
