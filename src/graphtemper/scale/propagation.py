r"""Sharded propagation: :math:`\sum_k S^k B_k` shard by shard, with the columns on disk.

Horner's rule as in `graphtemper.graph.operators.horner`: one stage per hop, one task per
shard. A task makes its own rows of the term :math:`B_k` (projected
features, noise, or rows from a file),
multiplies its rows of S with the columns of the stage before, which are mapped and shared by all,
and writes its rows of the next. So the disk holds two stages, and memory one block of rows.
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
from graphtemper._core.random_streams import stream
from graphtemper.graph.operators import Operator, multiply, row_scale
from graphtemper.scale.edge_choice import EdgeChoice
from graphtemper.scale.engine import Engine
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace

Values = NDArray[np.float32]
Reader = Callable[[Rows], Values]


@dataclass(frozen=True)
class ShardedOperator:
    """A normalised operator S by rows: the scale of every row on disk, and the edges it keeps."""

    graph: ShardedGraph
    kind: Operator
    scale: Columns
    choice: EdgeChoice | None = None

    def measure(self, engine: Engine) -> None:
        """Count neighbours, those that ``choice`` keeps, and write every row's scale."""
        engine.map(self._write_scale, range(len(self.graph.shards)))

    def _write_scale(self, shard: int) -> None:
        for rows in self.graph.blocks(shard):
            degrees = np.diff(rows.indptr)
            if self.choice is not None:
                degrees = count_entries(rows, self.choice.kept(rows.ends, rows.indices))
            self.scale.write(rows.first, row_scale(degrees, self.kind)[:, None])

    def reader(self) -> Callable[[Rows], sp.csr_matrix]:
        """Return a function from a block of nodes to their rows of S, (n, N) CSR."""
        scale = self.scale.open()[:, 0]
        return lambda rows: self._rows(rows, scale)

    def _rows(self, rows: Rows, scale: FloatArray) -> sp.csr_matrix:
        count = rows.last - rows.first
        shape = (count, self.graph.num_nodes)
        kept = np.ones(rows.indices.size)
        if self.choice is not None:
            kept = self.choice.kept(rows.ends, rows.indices).astype(np.float64)
        # Numbered from 1, as SciPy may drop stored zeros.
        plain = sp.csr_matrix((kept + 1.0, rows.indices, rows.indptr), shape=shape)
        if self.kind == "self-loop":
            own = (np.full(count, 2.0), (np.arange(count), np.arange(rows.first, rows.last)))
            plain = sp.csr_matrix(plain + sp.csr_matrix(own, shape=shape))
        weights = np.repeat(scale[rows.first : rows.last], np.diff(plain.indptr))
        if self.kind != "mean":
            weights *= scale[plain.indices]
        weights *= plain.data - 1.0
        plain.data = weights.astype(np.float32)
        return plain


def count_entries(rows: Rows, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many of each node's neighbours are chosen.

    Examples
    --------
    >>> rows = Rows(0, 2, np.array([0, 1, 3]), np.array([1, 0, 1]))
    >>> count_entries(rows, np.array([True, False, True])).tolist()
    [1, 1]
    """
    before = np.concatenate([[0], np.cumsum(chosen)])
    return np.asarray(before[rows.indptr[1:]] - before[rows.indptr[:-1]])


class Terms(Protocol):
    """The B_k of a propagation, made a block of rows at a time."""

    @property
    def width(self) -> int:
        """How many columns they have."""

    def reader(self, shard: int, hop: int) -> Reader | None:
        """Return what makes rows of B_hop, block after block of a shard; None where it is zero."""


@dataclass(frozen=True, eq=False)
class Projected:
    """X W_k + c_k: a shard's features through one matrix a hop."""

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
            part = features[rows.first - start : rows.last - start]
            return np.asarray(part @ matrix + self.constants[hop], dtype=np.float32)

        return read


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows of a file that holds the terms of the hops in use side by side."""

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

    Pass p of a shard draws from (seed, stage, pass, shard), again and again the same for every hop,
    so nothing but the result is ever stored. Each factor gets the same white numbers.
    """

    factors: Sequence[Values]
    passes: range
    hops_used: tuple[int, ...]
    num_classes: int
    seed: int

    @property
    def width(self) -> int:
        """One column a factor, pass and class, in this order."""
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
    """Where a propagation leaves its result: called with every block of rows."""

    def put(self, rows: Rows, values: Values) -> None:
        """Take the rows' values, (n, C)."""


@dataclass(frozen=True)
class Kept:
    """A sink that keeps the values."""

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
    room: Workspace,
    sink: Sink,
) -> None:
    """Bring the sum over k of S^k B_k to a sink; at most two stages are on disk at a time."""
    before: Columns | None = None
    for hop in range(hops, -1, -1):
        after = None if hop == 0 else room.columns(f"hop{hop}", terms.width, np.float32)
        put: Sink = sink if after is None else Kept(after)
        engine.map(
            partial(
                _hop, graph=graph, operator=operator, terms=terms, hop=hop, before=before, sink=put
            ),
            range(len(graph.shards)),
        )
        if before is not None:
            before.remove()
        before = after


def _hop(
    shard: int,
    *,
    graph: ShardedGraph,
    operator: ShardedOperator,
    terms: Terms,
    hop: int,
    before: Columns | None,
    sink: Sink,
) -> None:
    read = terms.reader(shard, hop)
    matrix = operator.reader() if before is not None else None
    columns = None if before is None else before.open()
    for rows in graph.blocks(shard, terms.width):
        # Features beyond float32, or damaged ones, are found out where logits are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            values: Any = None if read is None else read(rows)
            if matrix is not None and columns is not None:
                moved = multiply(matrix(rows), columns)
                values = moved if values is None else values + moved
        if values is None:
            values = np.zeros((rows.last - rows.first, terms.width), np.float32)
        sink.put(rows, np.asarray(values, dtype=np.float32))
