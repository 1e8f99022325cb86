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
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.sums import Moments, total
from graphtemper.scale.logits.logit_tables import NODE, checksum
from graphtemper.scale.parquet import (
    File,
    Place,
    arrow,
    num_rows,
    open_parquet,
    parquet_files,
    read_batches,
    same_columns,
    to_floats,
    to_numbers,
)
from graphtemper.signals.passes import Keys, mixed

MOST_ROWS, MOST_LINKS, MOST_VALUES = 2_000_000, 8_000_000, 100_000_000
"""The largest part that is read at once: nodes, links, and features (as float32 400 MB)."""
_EDGES_AT_ONCE, _VALUES_AT_ONCE = 2_000_000, 8_000_000
# Common names for the two ends of an edge, and for what else an edge and a node may have.
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))
_WEIGHT, _TYPE, _NODE_TYPE, LABEL = (
    ("weight", "edge_weight"),
    ("type", "edge_type"),
    "type",
    "label",
)


class Edges(NamedTuple):
    """Edges (m, 2) with their attributes by name, as `graphtemper.Graph` takes them."""

    pairs: NDArray[np.int64]
    attributes: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class StoredGraph:
    """A graph whose edges and nodes are tables in Parquet.

    Attributes
    ----------
    edges
        Files with the ends of every edge: ``source`` and ``target``, ``src`` and ``dst``, or
        ``from`` and ``to``. A column ``weight`` is the weight, ``type`` the type; all others are
        attributes.
    nodes
        Files with the features, a column each. A column ``node`` numbers the nodes 0 to N - 1 in
        any order; without it they are numbered in the order of the files. A column ``type`` is the
        type, and ``label``, -1 where unknown, is no feature.
    """

    edges: tuple[File, ...]
    nodes: tuple[File, ...]
    ends: tuple[str, str]
    others: tuple[str, ...]
    columns: tuple[str, ...]
    directed: bool
    starts: tuple[int, ...]
    num_edges: int

    @classmethod
    def open(cls, nodes: Place, edges: Place | None = None, directed: bool = False) -> StoredGraph:
        """Find the files, and check that all parts of a table have the same columns."""
        node_files = parquet_files(nodes)
        edge_files = [] if edges is None else parquet_files(edges)
        columns, names = same_columns(node_files), same_columns(edge_files) if edge_files else []
        ends = next((pair for pair in _END_NAMES if edges is None or {*pair} <= {*names}), None)
        if ends is None:
            raise TableError(
                f"{edges} has the columns {', '.join(names)!r:.60}; name the two ends of an edge "
                "source and target."
            )
        starts = np.concatenate([[0], np.cumsum(num_rows(node_files))]).tolist()
        graph = cls(
            edges=tuple(edge_files),
            nodes=tuple(node_files),
            ends=ends,
            others=tuple(name for name in names if name not in ends),
            columns=tuple(columns),
            directed=directed,
            starts=tuple(starts),
            num_edges=sum(num_rows(edge_files)),
        )
        if not graph.num_nodes or not graph.features:
            raise TableError(f"{nodes} has no rows, or no columns of features.")
        return graph

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.starts[-1]

    @property
    def num_features(self) -> int:
        """Number of feature columns."""
        return len(self.features)

    @property
    def features(self) -> list[str]:
        """Names of the feature columns."""
        return [name for name in self.columns if name not in (NODE, _NODE_TYPE, LABEL)]

    @property
    def is_plain(self) -> bool:
        """Whether edges have neither directions nor attributes, nor nodes types."""
        return not (self.directed or self.others or _NODE_TYPE in self.columns)

    def read_edges(self, file: File, others: bool = False) -> Iterator[tuple[Rows, Rows, Any]]:
        """Yield both ends of the edges of a file in batches, and the batch."""
        for batch in read_batches(
            file, [*self.ends, *(self.others if others else ())], _EDGES_AT_ONCE
        ):
            low, high = (to_numbers(batch, name, file) for name in self.ends)
            self._check_numbers(low, file)
            self._check_numbers(high, file)
            yield low, high, batch

    def read_nodes(self, part: int, names: list[str]) -> Iterator[tuple[Rows, Any]]:
        """Yield the numbers of the nodes of a file in batches, and the batch."""
        file, row = self.nodes[part], self.starts[part]
        known = [NODE] * (NODE in self.columns)
        step = max(_VALUES_AT_ONCE // max(len(names), 1), 1)
        for batch in read_batches(file, [*names, *known], step):
            own = np.arange(row, row + batch.num_rows)
            numbers = to_numbers(batch, NODE, file) if known else own
            self._check_numbers(numbers, file)
            yield numbers, batch
            row += batch.num_rows

    def attributes(self, batch: Any, file: File) -> dict[str, NDArray[Any]]:
        """Return the attributes of a batch of edges by the names of a `Graph`."""
        found = {}
        for name in self.others:
            if name in _WEIGHT:
                found["edge_weight"] = to_floats(batch, [name], file, np.float32)[:, 0]
            elif name in _TYPE:
                found["edge_type"] = to_numbers(batch, name, file).astype(np.int64)
        rest = [name for name in self.others if name not in (*_WEIGHT, *_TYPE)]
        if rest:
            found["edge_features"] = to_floats(batch, rest, file, np.float32)
        return found

    def _check_numbers(self, numbers: Rows, file: File) -> None:
        """Refuse numbers that no node has."""
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_nodes:
            raise RangeError(
                f"{file} names the node {numbers[(numbers < 0) | (numbers >= self.num_nodes)][0]}, "
                f"but there are {self.num_nodes:,}; number the nodes from 0."
            )

    def graph(self, nodes: Rows, rest: Edges, features: Any, node_type: Any) -> Graph:
        """Return the graph of some nodes, sorted, with some of the links between them."""
        pairs, attributes = np.searchsorted(nodes, rest.pairs), rest.attributes
        fields: dict[str, Any] = {"edges": pairs} | attributes
        if not self.directed:
            fields = merged_edges(pairs, attributes, nodes.size)
        return Graph(features=features, node_type=node_type, directed=self.directed, **fields)


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
        self._rest = Edges(np.empty((0, 2), np.int64), {})
        self._read = self._counted = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._ids, self._adjacency = np.empty(0, np.int64), sp.csr_matrix((0, 0))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.stored.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.stored.num_edges

    @property
    def num_links(self) -> int:
        """Number of pairs of neighbours, or more where an edge is stored twice."""
        return self.stored.num_edges

    @property
    def is_plain(self) -> bool:
        """See `graphtemper.signals.graph_parts.Whole`."""
        return self.stored.is_plain

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
            counts = total(self._engine.map(work, self.stored.edges))
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
        work = partial(_touching, graph=self.stored, nodes=new, known=self._read)
        found = self._engine.map(work, self.stored.edges)
        self._rest = joined([self._rest, *found] if len(self._rest.pairs) else found)
        self._read = np.union1d(self._read, new)
        self._ids = np.union1d(self._read, self._rest.pairs)
        ends = np.searchsorted(self._ids, self._rest.pairs)
        links, _ = link_numbers(ends, self._ids.size)
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
        pairs, attributes = self._rest
        kept = np.isin(pairs, inner).any(axis=1)
        rest = Edges(pairs[kept], {name: values[kept] for name, values in attributes.items()})
        return self.stored.graph(nodes, rest, *node_rows(self._engine, self.stored, nodes))

    def keys(self, nodes: NDArray[Any]) -> Keys:
        """See `graphtemper.signals.graph_parts.Whole`."""
        return mixed(nodes.astype(np.uint64))


def load(engine: Engine, graph: StoredGraph) -> Graph:
    """Load a stored graph into memory."""
    everything = np.arange(graph.num_nodes)
    work = partial(_touching, graph=graph, nodes=everything, known=everything[:0])
    rest = joined(engine.map(work, graph.edges))
    return graph.graph(everything, rest, *node_rows(engine, graph, everything))


def _flags(count: int, nodes: Rows) -> NDArray[np.bool_]:
    flags = np.zeros(count, dtype=bool)
    flags[nodes] = True
    return flags


def _count(file: File, *, graph: StoredGraph, nodes: Rows) -> Rows:
    """Return how many edges of a file each of some sorted nodes has."""
    wanted, counts = _flags(graph.num_nodes, nodes), np.zeros(nodes.size, np.int64)
    for *ends, _ in graph.read_edges(file):
        for end in ends:
            place = np.searchsorted(nodes, end[wanted[end]])
            counts += np.bincount(place, minlength=nodes.size)
    return counts


def _touching(file: File, *, graph: StoredGraph, nodes: Rows, known: Rows) -> Edges:
    """Return the edges of a file with an end in `nodes` and none in `known`."""
    wanted, found = np.zeros(graph.num_nodes, np.int8), []
    wanted[nodes], wanted[known] = 1, 2
    for low, high, batch in graph.read_edges(file, others=True):
        here = np.flatnonzero(np.maximum(wanted[low], wanted[high]) == 1)
        pairs = np.column_stack([low[here], high[here]]).astype(np.int64)
        some = graph.attributes(batch.take(arrow().array(here)), file) if graph.others else {}
        found.append(Edges(pairs, some))
    if not found:  # a file without rows
        some = graph.attributes(open_parquet(file).schema_arrow.empty_table(), file)
        return Edges(np.empty((0, 2), np.int64), some)
    return joined(found)


def joined(parts: list[Edges]) -> Edges:
    """Return all edges of some parts."""
    return Edges(
        np.concatenate([part.pairs for part in parts]),
        {
            name: np.concatenate([part.attributes[name] for part in parts])
            for name in parts[0].attributes
        },
    )


def node_rows(engine: Engine, graph: StoredGraph, nodes: Rows) -> tuple[NDArray[np.float32], Any]:
    """Return the features of sorted nodes, and their types if they have any."""
    parts = range(len(graph.nodes))
    found = engine.map(partial(_rows, graph=graph, nodes=nodes), parts)
    places, features, types = (np.concatenate(column) for column in zip(*found, strict=True))
    if not np.array_equal(np.sort(places), np.arange(nodes.size)):
        raise _not_numbered(graph)
    order = np.argsort(places)
    return features[order], types[order].astype(np.int64) if _NODE_TYPE in graph.columns else None


def _rows(part: int, *, graph: StoredGraph, nodes: Rows) -> tuple[Rows, Any, Any]:
    wanted, typed = _flags(graph.num_nodes, nodes), _NODE_TYPE in graph.columns
    names, file = graph.features, graph.nodes[part]
    found = [(nodes[:0], np.empty((0, len(names)), np.float32), nodes[:0])]
    for own, batch in graph.read_nodes(part, [*names, *[_NODE_TYPE] * typed]):
        here = np.flatnonzero(wanted[own])
        some = batch.take(arrow().array(here))
        types = to_numbers(some, _NODE_TYPE, file) if typed else here
        place = np.searchsorted(nodes, own[here])
        found.append((place, to_floats(some, names, file, np.float32), types))
    places, features, types = (np.concatenate(column) for column in zip(*found, strict=True))
    return places, features, types


class Known(NamedTuple):
    """What is known of all nodes: moments of the features, and agreement with a second opinion."""

    moments: tuple[FloatArray, FloatArray]
    second: float | None


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
    parts = engine.map(work, range(len(graph.nodes)))
    moments = total([moments for found, _, _ in parts for moments in found])
    numbers, agreeing = sum(part[1] for part in parts), sum(part[2] for part in parts)
    if numbers % 2**64 != checksum(np.arange(graph.num_nodes)):
        raise _not_numbered(graph)
    share = None if second is None else agreeing / graph.num_nodes
    return Known((moments.mean, np.sqrt(moments.covariance)), share)


def _not_numbered(graph: StoredGraph) -> DamagedError:
    return DamagedError(
        f"{graph.nodes[0]} and the other files of nodes: the column node must hold 0 to "
        f"{graph.num_nodes - 1}, each once; some are missing or repeated."
    )


def _moments(
    part: int, *, graph: StoredGraph, predicted: NDArray[Any] | None, second: Any
) -> tuple[list[Moments], int, int]:
    found, numbers, agreeing, names = [], 0, 0, graph.features
    for own, batch in graph.read_nodes(part, names):
        features = to_floats(batch, names, graph.nodes[part], np.float32)
        mean, std = column_moments(features)
        if not np.isfinite(mean).all() or not np.isfinite(std).all():
            raise DamagedError(f"{graph.nodes[part]}: its features are not all finite.")
        found.append(Moments(len(features), mean, std**2 * len(features)))
        numbers += checksum(own)
        if second is not None and predicted is not None:
            agreeing += int((second(features) == predicted[own]).sum())
    return found, numbers, agreeing


def homophily(engine: Engine, graph: StoredGraph, predicted: NDArray[Any]) -> float | None:
    """Return the share of edges, without loops, whose ends are predicted to be of one class."""
    work = partial(_agreeing, graph=graph, predicted=predicted)
    agreeing, count = total(engine.map(work, graph.edges))
    return float(agreeing / count) if count else None


def _agreeing(file: File, *, graph: StoredGraph, predicted: NDArray[Any]) -> Rows:
    agreeing = count = 0
    for low, high, _ in graph.read_edges(file):
        loops = int((low == high).sum())
        agreeing += int((predicted[low] == predicted[high]).sum()) - loops
        count += low.size - loops
    return np.array([agreeing, count])
