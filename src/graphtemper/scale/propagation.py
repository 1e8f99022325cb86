r"""Sharded propagation: :math:`\sum_k S^k B_k` shard by shard, with the columns on disk.

Horner's rule as in `graphtemper.graph.operators.horner`: one step per hop, one task per shard. A
task computes its rows of the term :math:`B_k` (projected features, noise, or rows of a file),
multiplies its rows of S with the memory-mapped columns of the previous step, and writes its rows of
the next. The disk holds two steps at a time, and memory one block of rows.

Noise and the edges that a pass leaves out are drawn by the keys of nodes
(`graphtemper.scale.node_keys`), so that they are the same in the shards of both ends of an edge,
for any number of shards and workers, and whatever the numbers of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.graph.normalised import Operator, row_scale
from graphtemper.graph.operators import multiply
from graphtemper.scale.engine import Engine
from graphtemper.scale.node_keys import normals
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace
from graphtemper.signals.covariances import ENOUGH_NODES
from graphtemper.signals.passes import Keys, OrderedDraws, kept, mixed

Values = NDArray[np.float32]
Reader = Callable[[Rows], Values]
_NAME = "feature_noise"


@dataclass(frozen=True)
class EdgeSample:
    """A random sample that leaves out a fraction of the edges, those of `signals.passes.kept`.

    Attributes
    ----------
    keys
        The keys of all nodes (`graphtemper.scale.node_keys`).
    salt
        The random number of the sample.
    left_out
        The fraction.
    """

    keys: Columns
    salt: int
    left_out: float

    def includes(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether the edge of each entry of a block is in the sample."""
        keys = self.keys.open()[:, 0]
        own = np.repeat(mixed(keys[rows.first : rows.last]), np.diff(rows.indptr))
        return kept(own + mixed(keys[rows.indices]), self.left_out, np.uint64(self.salt))


@dataclass(frozen=True)
class ShardedOperator:
    """A normalised operator S: the scale of every row on disk, and the sample of edges it uses."""

    graph: ShardedGraph
    kind: Operator
    scale: Columns
    sample: EdgeSample | None = None

    def write_scale(self, engine: Engine) -> None:
        """Count the neighbours of each node in the sample and write the scale of each row."""
        engine.map(self._write_shard, range(len(self.graph.shards)))

    def _write_shard(self, shard: int) -> None:
        for rows in self.graph.blocks(shard):
            degrees = np.diff(rows.indptr)
            if self.sample is not None:
                degrees = count_entries(rows, self.sample.includes(rows))
            self.scale.write(rows.first, row_scale(degrees, self.kind)[:, None])

    def reader(self) -> Callable[[Rows], sp.csr_matrix]:
        """Return a function that maps a block of nodes to their rows of S, (n, N) CSR."""
        scale = self.scale.open()[:, 0]
        return lambda rows: self._rows(rows, scale)

    def _rows(self, rows: Rows, scale: FloatArray) -> sp.csr_matrix:
        count = rows.last - rows.first
        shape = (count, self.graph.num_nodes)
        included = np.ones(rows.indices.size)
        if self.sample is not None:
            included = self.sample.includes(rows).astype(np.float64)
        # Entries are stored plus 1, because SciPy may drop stored zeros.
        matrix = sp.csr_matrix((included + 1.0, rows.indices, rows.indptr), shape=shape)
        if self.kind == "self-loop":
            loops = (np.full(count, 2.0), (np.arange(count), np.arange(rows.first, rows.last)))
            matrix = sp.csr_matrix(matrix + sp.csr_matrix(loops, shape=shape))
        weights = np.repeat(scale[rows.first : rows.last], np.diff(matrix.indptr))
        if self.kind != "mean":
            weights *= scale[matrix.indices]
        weights *= matrix.data - 1.0
        matrix.data = weights.astype(np.float32)
        return matrix


def count_entries(rows: Rows, selected: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of each node's neighbours that are selected.

    Examples
    --------
    >>> rows = Rows(0, 2, np.array([0, 1, 3]), np.array([1, 0, 1]))
    >>> count_entries(rows, np.array([True, False, True])).tolist()
    [1, 1]
    """
    before = np.concatenate([[0], np.cumsum(selected)])
    return np.asarray(before[rows.indptr[1:]] - before[rows.indptr[:-1]])


class Terms(Protocol):
    """The terms B_k of a propagation, computed in blocks of rows."""

    @property
    def width(self) -> int:
        """Number of columns."""

    def reader(self, shard: int, hop: int) -> Reader | None:
        """Return a function that computes rows of B_hop of a shard, or None if B_hop is zero."""


@dataclass(frozen=True, eq=False)
class Projected:
    """X W_k + c_k: a shard's features times one matrix per hop."""

    graph: ShardedGraph
    weights: Sequence[Values | None]
    constants: Sequence[Values]
    width: int

    def reader(self, shard: int, hop: int) -> Reader | None:
        """See `Terms`."""
        matrix = self.weights[hop]
        if matrix is None:
            return None
        features, start = self.graph.features(shard), self.graph.shards[shard].first

        def read(rows: Rows) -> Values:
            block = features[rows.first - start : rows.last - start]
            return np.asarray(block @ matrix + self.constants[hop], dtype=np.float32)

        return read


@dataclass(frozen=True, eq=False)
class StoredTerms:
    """Rows of a file that holds the terms of the hops in use, concatenated."""

    columns: Columns
    hops_used: tuple[int, ...]
    width: int

    def reader(self, shard: int, hop: int) -> Reader | None:
        """See `Terms`."""
        if hop not in self.hops_used:
            return None
        values, start = self.columns.open(), self.hops_used.index(hop) * self.width
        return lambda rows: values[rows.first : rows.last, start : start + self.width]


@dataclass(frozen=True, eq=False)
class Noise:
    """E W_k of several passes, drawn in logit space (see `graphtemper.models.linear_passes`).

    The draws belong to the keys of nodes and are the same for every hop and factor. On graphs that
    are measured at all nodes in memory, they are those of `graphtemper.signals.covariances`. On
    larger ones they are hashes, which need no order of all nodes.
    """

    factors: Sequence[Values]
    passes: range
    hops_used: tuple[int, ...]
    num_classes: int
    seed: int
    keys: Columns

    @property
    def width(self) -> int:
        """One column per factor, pass and class, in this order."""
        return len(self.factors) * len(self.passes) * self.num_classes

    def reader(self, shard: int, hop: int) -> Reader | None:
        """See `Terms`."""
        if hop not in self.hops_used:
            return None
        start = self.hops_used.index(hop) * self.num_classes
        parts = [factor[:, start : start + self.num_classes] for factor in self.factors]
        rank, keys = max(part.shape[0] for part in parts), self.keys.open()[:, 0]
        draws = self._ordered(keys, rank) if keys.size <= ENOUGH_NODES else self._hashed(keys, rank)

        def read(rows: Rows) -> Values:
            white = [draw(rows) for draw in draws]
            return np.hstack([w[:, : part.shape[0]] @ part for part in parts for w in white])

        return read

    def _ordered(self, keys: Keys, rank: int) -> list[Reader]:
        """Return readers of the draws of each pass, which are made for all nodes in one order."""
        rng, shape = OrderedDraws(stream(self.seed, _NAME), keys), (keys.size, rank)
        found: list[Reader] = []
        for number in range(self.passes.stop):
            draws = rng.standard_normal(shape, dtype=np.float32)
            if number in self.passes:
                found.append(partial(_rows_of, draws))
        return found

    def _hashed(self, keys: Keys, rank: int) -> list[Reader]:
        """Return readers of the draws of each pass, hashes of keys."""
        streams = (stream(self.seed, _NAME, 1 + number) for number in self.passes)
        salts = [rng.integers(2**64, dtype=np.uint64) for rng in streams]

        def read(rows: Rows, salt: np.uint64) -> Values:
            return normals(keys[rows.first : rows.last], rank, salt)

        return [partial(read, salt=salt) for salt in salts]


def _rows_of(draws: Values, rows: Rows) -> Values:
    return draws[rows.first : rows.last]


class Sink(Protocol):
    """Receives the result of a propagation, one block of rows at a time."""

    def put(self, rows: Rows, values: Values) -> None:
        """Store the values of the rows, (n, C)."""


@dataclass(frozen=True)
class ColumnSink:
    """A sink that writes the values to a column file."""

    columns: Columns

    def put(self, rows: Rows, values: Values) -> None:
        """See `Sink`."""
        self.columns.write(rows.first, values)


def propagate(
    engine: Engine,
    graph: ShardedGraph,
    operator: ShardedOperator,
    terms: Terms,
    hops: int,
    workspace: Workspace,
    sink: Sink,
) -> None:
    """Compute the sum over k of S^k B_k and pass it to a sink; the disk holds at most two steps."""
    previous: Columns | None = None
    for hop in range(hops, -1, -1):
        current = None
        if hop:
            current = workspace.scratch_columns(f"hop{hop}", terms.width, np.float32)
        step = partial(
            _hop,
            graph=graph,
            operator=operator,
            terms=terms,
            hop=hop,
            previous=previous,
            sink=sink if current is None else ColumnSink(current),
        )
        engine.map(step, range(len(graph.shards)))
        if previous is not None:
            previous.remove()
        previous = current


def _hop(
    shard: int,
    *,
    graph: ShardedGraph,
    operator: ShardedOperator,
    terms: Terms,
    hop: int,
    previous: Columns | None,
    sink: Sink,
) -> None:
    read = terms.reader(shard, hop)
    matrix = operator.reader() if previous is not None else None
    columns = None if previous is None else previous.open()
    for rows in graph.blocks(shard, terms.width):
        # Overflow, and damaged features, are reported where logits are checked to be finite.
        with np.errstate(over="ignore", invalid="ignore"):
            values: Any = None if read is None else read(rows)
            if matrix is not None and columns is not None:
                product = multiply(matrix(rows), columns)
                values = product if values is None else values + product
        if values is None:
            values = np.zeros((rows.last - rows.first, terms.width), np.float32)
        sink.put(rows, np.asarray(values, dtype=np.float32))
