r"""Sharded propagation: :math:`\sum_k S^k B_k` shard by shard, with the columns on disk.

Horner's rule as in `graphtemper.graph.operators.horner`: one step per hop, one task per shard. A
task computes its rows of the term :math:`B_k` (projected features, noise, or rows of a file),
multiplies its rows of S with the memory-mapped columns of the previous step, and writes its rows of
the next. The disk holds two steps at a time, and memory one block of rows.

Edges that a pass leaves out must be the same in the shards of both of their ends, so they are not
drawn from a shard's random stream. Each edge is hashed with a key that is drawn from
(seed, stage, pass); the choice is the same for any number of shards and workers.
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
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace

Values = NDArray[np.float32]
Reader = Callable[[Rows], Values]
Nodes = NDArray[np.integer[Any]]
# The constants of the splitmix64 finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom
# number generators", 2014).
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True)
class EdgeSample:
    """A random sample that leaves out a fraction of the edges.

    Examples
    --------
    >>> sample = EdgeSample.draw(seed=0, stage="held-out edges", number=0, left_out=0.3)
    >>> ends = np.arange(100_000)
    >>> bool(abs(sample.includes(ends, ends + 7).mean() - 0.7) < 0.01)
    True
    >>> bool((sample.includes(ends, ends + 7) == sample.includes(ends + 7, ends)).all())
    True
    """

    key: int
    left_out: float

    @classmethod
    def draw(cls, seed: int, stage: str, number: int, left_out: float) -> EdgeSample:
        """Draw the sample of one pass of a stage."""
        return cls(int(stream(seed, stage, number).integers(2**63)), left_out)

    def includes(self, first: Nodes, second: Nodes) -> NDArray[np.bool_]:
        """Return whether each edge is in the sample, given its two ends in either order."""
        low = np.minimum(first, second).astype(np.uint64)
        high = np.maximum(first, second).astype(np.uint64)
        with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is intended
            mixed = _mix(_mix(low + np.uint64(self.key)) + high * _GOLDEN)
        uniform = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.asarray(uniform >= self.left_out)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


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
                degrees = count_entries(rows, self.sample.includes(rows.ends, rows.indices))
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
            included = self.sample.includes(rows.ends, rows.indices).astype(np.float64)
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
    """E W_k of several passes, drawn in logit space (see `graphtemper.signals.passes`).

    Pass p of a shard draws from (seed, stage, pass, shard), the same numbers for every hop, so the
    draws need not be stored. Every factor is applied to the same standard normal draws.
    """

    factors: Sequence[Values]
    passes: range
    hops_used: tuple[int, ...]
    num_classes: int
    seed: int

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
        name, rank = f"feature_noise, shard {shard}", max(part.shape[0] for part in parts)
        streams = [stream(self.seed, name, number) for number in self.passes]

        def read(rows: Rows) -> Values:
            shape = (rows.last - rows.first, rank)
            white = [rng.standard_normal(shape, dtype=np.float32) for rng in streams]
            return np.hstack([w[:, : part.shape[0]] @ part for part in parts for w in white])

        return read


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
