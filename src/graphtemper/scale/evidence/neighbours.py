"""Witnesses on shards: neighbours' own views over edges, over pairs, and across held-out edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.operators import multiply
from graphtemper.scale.clean_pass import Clean, LogitsAndClasses, Run
from graphtemper.scale.edge_choice import EdgeChoice
from graphtemper.scale.evidence.sums import RatioSums, Sums, total
from graphtemper.scale.propagation import ShardedOperator, count_entries, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.signals.evidence import Probe
from graphtemper.signals.neighbours import Covariance

_STAGE = "witnesses"


@dataclass(frozen=True)
class _Centre(Sums):
    """Sums of views centred at every node: over ends of edges, over nodes, and how many of each."""

    by_degree: FloatArray
    plain: FloatArray
    degree: int
    count: int

    @classmethod
    def of(cls, views: FloatArray, degree: NDArray[np.int64]) -> _Centre:
        rows = views - views.mean(axis=1, keepdims=True)
        return cls(degree @ rows, rows.sum(axis=0), int(degree.sum()), len(rows))

    @property
    def mean(self) -> FloatArray:
        """As in `graphtemper.signals.neighbours`: over all edge ends, or nodes without any."""
        return self.by_degree / self.degree if self.degree else self.plain / self.count


@dataclass(frozen=True, eq=False)
class Witnesses:
    """Own views of all nodes, centred, with their squared length as one more column: (N, K + 1)."""

    columns: Columns

    @classmethod
    def write(cls, run: Run) -> Witnesses:
        """Put the own views of a clean pass on disk, centred over all ends of edges."""
        clean, made = run.clean, cls.at(run)

        def work() -> None:
            centre: _Centre = total(run.map(partial(_own_centre, clean=clean)))
            run.map(partial(_write_witnesses, clean=clean, mean=centre.mean, columns=made.columns))

        run.room.stage(_STAGE, work, made.columns)
        return made

    @classmethod
    def at(cls, run: Run) -> Witnesses:
        """Say where they are in a run's workspace."""
        return cls(run.room.lasting(_STAGE, run.clean.num_classes + 1, np.float64))

    @classmethod
    def forget(cls, run: Run) -> None:
        """Remove them from disk."""
        run.room.forget(_STAGE, cls.at(run).columns)


def _own_centre(shard: int, *, clean: Clean) -> _Centre:
    first, last, _ = clean.graph.shards[shard]
    return _Centre.of(clean.own(first, last), clean.graph.degrees(shard))


def _write_witnesses(shard: int, *, clean: Clean, mean: FloatArray, columns: Columns) -> None:
    first, last, _ = clean.graph.shards[shard]
    own = clean.own(first, last)
    witness = own - own.mean(axis=1, keepdims=True) - mean
    columns.write(first, np.column_stack([witness, (witness**2).sum(axis=1)]))


@dataclass(frozen=True)
class _EdgeSums(Sums):
    edge: RatioSums
    wedge: RatioSums
    agreeing: int


class OverEdges(NamedTuple):
    """What neighbours show on all edges: two covariances, and the share of like predictions."""

    edge: Covariance
    wedge: Covariance
    homophily: float | None


def over_edges(run: Run, witnesses: Witnesses) -> OverEdges:
    """Measure as `graphtemper.signals.neighbours.edges_and_wedges` and `predicted_homophily` do."""
    clean = run.clean
    work = partial(_edge_sums, graph=clean.graph, witnesses=witnesses, classes=clean.classes)
    found: _EdgeSums = total(run.map(work))
    ends = 2 * clean.graph.num_edges
    return OverEdges(
        edge=found.edge.covariance,
        wedge=found.wedge.covariance,
        homophily=found.agreeing / ends if ends else None,
    )


def _edge_sums(
    shard: int, *, graph: ShardedGraph, witnesses: Witnesses, classes: Columns
) -> _EdgeSums:
    columns, predicted = witnesses.columns.open(), classes.open()[:, 0]
    parts = []
    for rows in graph.blocks(shard, columns.shape[1]):
        around = _around(rows, columns, np.ones(rows.indices.size))
        d = np.diff(rows.indptr).astype(np.float64)
        edge = np.einsum("ik,ik->i", columns[rows.first : rows.last, :-1], around[:, :-1])
        pairs = (around[:, :-1] ** 2).sum(axis=1) - around[:, -1]
        pairs = np.where(d > 1, pairs / np.maximum(d, 1.0), 0.0)
        agreeing = int((predicted[rows.ends] == predicted[rows.indices]).sum())
        wedge = RatioSums.of(pairs, np.maximum(d - 1.0, 0.0))
        parts.append(_EdgeSums(RatioSums.of(edge, d), wedge, agreeing))
    found: _EdgeSums = total(parts)
    return found


def _around(rows: Rows, columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted sums of neighbours' rows: (n, C) float64."""
    shape = (rows.last - rows.first, len(columns))
    matrix = sp.csr_matrix((weights, rows.indices, rows.indptr), shape=shape)
    return np.asarray(multiply(matrix, columns))


class HeldOutEdges(NamedTuple):
    """What predictions show across edges that the model did not see."""

    covariance: Covariance
    agreement: float


@dataclass(frozen=True)
class _PassSums(Sums):
    classes: NDArray[np.int64]
    agreeing: int

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of the two ends (`graphtemper.signals.evidence`); None without edges."""
        ends = int(self.classes.sum())
        if not ends:
            return None
        chance = float(((self.classes / ends) ** 2).sum())
        return (self.agreeing / ends - chance) / max(1.0 - chance, 1e-3)


def held_out(run: Run, witnesses: Witnesses, probe: Probe, seed: int) -> HeldOutEdges:
    """Leave a share of the edges out of each pass and compare predictions across them."""
    clean, kappas, kept = run.clean, [], []
    passes = probe.passes_over(clean.graph.num_nodes) if clean.graph.num_edges else 0
    for number in range(passes):
        choice = EdgeChoice.draw(seed, "held-out edges", number, probe.edge_share)
        products = run.room.lasting(f"held-out-{number}", 2, np.float64)
        work = partial(_held_out_pass, run, witnesses, choice, products)
        kappas.append(run.room.stage(f"held-out-{number}", work, products))
        kept.append(products)
    if not kept:
        return HeldOutEdges(Covariance(0.0, 0.0), 0.0)
    sums: RatioSums = total(run.map(partial(_held_sums, graph=clean.graph, kept=kept)))
    seen = [value for value in kappas if value is not None]
    return HeldOutEdges(sums.covariance, float(np.mean(seen)) if seen else 0.0)


def _held_out_pass(
    run: Run, witnesses: Witnesses, choice: EdgeChoice, products: Columns
) -> float | None:
    """Write each node's products of one pass; return its kappa."""
    clean = run.clean
    scale = run.room.columns("held-out-scale", 1, np.float64)
    operator = ShardedOperator(clean.graph, clean.model.operator, scale, choice)
    operator.measure(run.engine)
    values = run.room.columns("held-out-logits", clean.num_classes, np.float32)
    classes = run.room.columns("held-out-classes", 1, np.int32)
    sink = LogitsAndClasses(values, classes, clean.model.intercept_.astype(np.float32))
    propagate(run.engine, clean.graph, operator, clean.stored, clean.model.hops, run.room, sink)
    centre: _Centre = total(run.map(partial(_pass_centre, clean=clean, values=values)))
    work = partial(
        _pass_sums,
        clean=clean,
        values=values,
        predicted=classes,
        witnesses=witnesses,
        choice=choice,
        mean=centre.mean,
        products=products,
    )
    found: _PassSums = total(run.map(work))
    values.remove()
    classes.remove()
    operator.scale.remove()
    return found.kappa


def _pass_centre(shard: int, *, clean: Clean, values: Columns) -> _Centre:
    first, last, _ = clean.graph.shards[shard]
    logits = values.open()[first:last].astype(np.float64) / clean.temperature
    return _Centre.of(logits, clean.graph.degrees(shard))


def _pass_sums(
    shard: int,
    *,
    clean: Clean,
    values: Columns,
    predicted: Columns,
    witnesses: Witnesses,
    choice: EdgeChoice,
    mean: FloatArray,
    products: Columns,
) -> _PassSums:
    logits, columns, count = values.open(), witnesses.columns.open(), clean.num_classes
    top = predicted.open()[:, 0]
    parts = []
    for rows in clean.graph.blocks(shard, columns.shape[1]):
        held = ~choice.kept(rows.ends, rows.indices)
        around = _around(rows, columns, held.astype(np.float64))[:, :-1]
        z = logits[rows.first : rows.last].astype(np.float64) / clean.temperature
        z = z - z.mean(axis=1, keepdims=True) - mean
        number = count_entries(rows, held)
        products.write(rows.first, np.column_stack([np.einsum("ik,ik->i", z, around), number]))
        own, others = top[rows.ends[held]], top[rows.indices[held]]
        parts.append(_PassSums(np.bincount(own, minlength=count), int((own == others).sum())))
    found: _PassSums = total(parts)
    return found


def _held_sums(shard: int, *, graph: ShardedGraph, kept: list[Columns]) -> RatioSums:
    first, last, _ = graph.shards[shard]
    both = sum(columns.open()[first:last] for columns in kept)
    return RatioSums.of(np.asarray(both)[:, 0], np.asarray(both)[:, 1])
