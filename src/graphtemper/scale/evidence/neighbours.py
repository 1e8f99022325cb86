"""Neighbour covariances on shards, see `graphtemper.signals.covariances`.

Own views of neighbours are compared over edges and over wedges (pairs of neighbours of one node).
Predictions are compared across edges that were held out of a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.graph.operators import multiply
from graphtemper.scale.clean_pass import CleanPass, LogitSink, Run
from graphtemper.scale.evidence.sums import RatioSums, Sums, total
from graphtemper.scale.propagation import EdgeSample, ShardedOperator, count_entries, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.signals.covariances import Covariance
from graphtemper.signals.evidence import Probe

_STAGE = "own-views"


@dataclass(frozen=True)
class _CentreSums(Sums):
    """Sums of row-centred views over edge ends and over nodes, with the number of each."""

    by_degree: FloatArray
    by_node: FloatArray
    degree: int
    count: int

    @classmethod
    def of(cls, views: FloatArray, degree: NDArray[np.int64]) -> _CentreSums:
        rows = views - views.mean(axis=1, keepdims=True)
        return cls(degree @ rows, rows.sum(axis=0), int(degree.sum()), len(rows))

    @property
    def mean(self) -> FloatArray:
        """The mean over all edge ends, or over nodes if there are no edges."""
        return self.by_degree / self.degree if self.degree else self.by_node / self.count


@dataclass(frozen=True, eq=False)
class OwnViews:
    """Centred own views of all nodes and their squared norms, on disk: (N, K + 1)."""

    columns: Columns

    @classmethod
    def write(cls, run: Run) -> OwnViews:
        """Write the own views of a clean pass, centred over all edge ends."""
        clean, views = run.clean, cls.of(run)

        def work() -> None:
            centre: _CentreSums = total(run.map(partial(_own_centre, clean=clean)))
            run.map(partial(_write_own_views, clean=clean, mean=centre.mean, columns=views.columns))

        run.workspace.stage(_STAGE, work, views.columns)
        return views

    @classmethod
    def of(cls, run: Run) -> OwnViews:
        """Return the own views in a run's workspace."""
        return cls(run.workspace.stage_columns(_STAGE, run.clean.num_classes + 1, np.float64))

    @classmethod
    def remove(cls, run: Run) -> None:
        """Remove the own views from disk."""
        run.workspace.remove_stage(_STAGE, cls.of(run).columns)


def _own_centre(shard: int, *, clean: CleanPass) -> _CentreSums:
    first, last, _ = clean.graph.shards[shard]
    return _CentreSums.of(clean.own_views(first, last), clean.graph.degrees(shard))


def _write_own_views(shard: int, *, clean: CleanPass, mean: FloatArray, columns: Columns) -> None:
    first, last, _ = clean.graph.shards[shard]
    views = clean.own_views(first, last)
    centred = views - views.mean(axis=1, keepdims=True) - mean
    columns.write(first, np.column_stack([centred, (centred**2).sum(axis=1)]))


@dataclass(frozen=True)
class _EdgeSums(Sums):
    edge: RatioSums
    wedge: RatioSums
    agreeing: int


class EdgeEvidence(NamedTuple):
    """Covariances of own views over all edges and wedges, and the predicted homophily."""

    edge: Covariance
    wedge: Covariance
    homophily: float | None


def edge_covariances(run: Run, views: OwnViews) -> EdgeEvidence:
    """Return `graphtemper.signals.covariances.edges_and_wedges` and `predicted_homophily`."""
    clean = run.clean
    work = partial(_edge_sums, graph=clean.graph, views=views, classes=clean.classes)
    sums: _EdgeSums = total(run.map(work))
    ends = 2 * clean.graph.num_edges
    return EdgeEvidence(
        edge=sums.edge.covariance,
        wedge=sums.wedge.covariance,
        homophily=sums.agreeing / ends if ends else None,
    )


def _edge_sums(shard: int, *, graph: ShardedGraph, views: OwnViews, classes: Columns) -> _EdgeSums:
    columns, predicted = views.columns.open(), classes.open()[:, 0]
    parts = []
    for rows in graph.blocks(shard, columns.shape[1]):
        neighbours = _neighbour_sums(rows, columns, np.ones(rows.indices.size))
        d = np.diff(rows.indptr).astype(np.float64)
        edge = np.einsum("ik,ik->i", columns[rows.first : rows.last, :-1], neighbours[:, :-1])
        pairs = (neighbours[:, :-1] ** 2).sum(axis=1) - neighbours[:, -1]
        pairs = np.where(d > 1, pairs / np.maximum(d, 1.0), 0.0)
        agreeing = int((predicted[rows.ends] == predicted[rows.indices]).sum())
        wedge = RatioSums.of(pairs, np.maximum(d - 1.0, 0.0))
        parts.append(_EdgeSums(RatioSums.of(edge, d), wedge, agreeing))
    sums: _EdgeSums = total(parts)
    return sums


def _neighbour_sums(rows: Rows, columns: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted sums of neighbours' rows: (n, C) float64."""
    shape = (rows.last - rows.first, len(columns))
    matrix = sp.csr_matrix((weights, rows.indices, rows.indptr), shape=shape)
    return np.asarray(multiply(matrix, columns))


class HeldOutEvidence(NamedTuple):
    """Covariance and agreement (Cohen's kappa) of predictions across held-out edges."""

    covariance: Covariance
    agreement: float


@dataclass(frozen=True)
class _AgreementSums(Sums):
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


def held_out_covariance(
    run: Run, views: OwnViews, probe: Probe, seed: int, keys: Columns
) -> HeldOutEvidence:
    """Leave a fraction of the edges out of each pass and compare predictions across them.

    The edges are drawn by the keys of nodes (`graphtemper.scale.node_keys`), as in memory.
    """
    clean, kappas, products = run.clean, [], []
    passes = probe.passes_over(clean.graph.num_nodes) if clean.graph.num_edges else 0
    rng = stream(seed, "held-out edges")
    for number in range(passes):
        sample = EdgeSample(keys, int(rng.integers(2**64, dtype=np.uint64)), probe.edge_share)
        columns = run.workspace.stage_columns(f"held-out-{number}", 2, np.float64)
        work = partial(_held_out_pass, run, views, sample, columns)
        kappas.append(run.workspace.stage(f"held-out-{number}", work, columns))
        products.append(columns)
    if not products:
        return HeldOutEvidence(Covariance(0.0, 0.0), 0.0)
    work_sums = partial(_held_out_sums, graph=clean.graph, products=products)
    sums: RatioSums = total(run.map(work_sums))
    defined = [kappa for kappa in kappas if kappa is not None]
    return HeldOutEvidence(sums.covariance, float(np.mean(defined)) if defined else 0.0)


def _held_out_pass(
    run: Run, views: OwnViews, sample: EdgeSample, products: Columns
) -> float | None:
    """Write each node's products of one pass; return its kappa."""
    clean = run.clean
    scale = run.workspace.scratch_columns("held-out-scale", 1, np.float64)
    operator = ShardedOperator(clean.graph, clean.model.operator, scale, sample)
    operator.write_scale(run.engine)
    values = run.workspace.scratch_columns("held-out-logits", clean.num_classes, np.float32)
    classes = run.workspace.scratch_columns("held-out-classes", 1, np.int32)
    sink = LogitSink(values, classes, clean.model.intercept.astype(np.float32))
    hops, terms = clean.model.hops, clean.stored_terms
    propagate(run.engine, clean.graph, operator, terms, hops, run.workspace, sink)
    centre: _CentreSums = total(run.map(partial(_logit_centre, clean=clean, values=values)))
    work = partial(
        _write_held_out_products,
        clean=clean,
        values=values,
        predicted=classes,
        views=views,
        sample=sample,
        mean=centre.mean,
        products=products,
    )
    sums: _AgreementSums = total(run.map(work))
    values.remove()
    classes.remove()
    operator.scale.remove()
    return sums.kappa


def _logit_centre(shard: int, *, clean: CleanPass, values: Columns) -> _CentreSums:
    first, last, _ = clean.graph.shards[shard]
    logits = values.open()[first:last].astype(np.float64) / clean.temperature
    return _CentreSums.of(logits, clean.graph.degrees(shard))


def _write_held_out_products(
    shard: int,
    *,
    clean: CleanPass,
    values: Columns,
    predicted: Columns,
    views: OwnViews,
    sample: EdgeSample,
    mean: FloatArray,
    products: Columns,
) -> _AgreementSums:
    logits, columns, num_classes = values.open(), views.columns.open(), clean.num_classes
    top = predicted.open()[:, 0]
    parts = []
    for rows in clean.graph.blocks(shard, columns.shape[1]):
        held = ~sample.includes(rows)
        neighbours = _neighbour_sums(rows, columns, held.astype(np.float64))[:, :-1]
        z = logits[rows.first : rows.last].astype(np.float64) / clean.temperature
        z = z - z.mean(axis=1, keepdims=True) - mean
        product = np.einsum("ik,ik->i", z, neighbours)
        products.write(rows.first, np.column_stack([product, count_entries(rows, held)]))
        own, others = top[rows.ends[held]], top[rows.indices[held]]
        counts = np.bincount(own, minlength=num_classes)
        parts.append(_AgreementSums(counts, int((own == others).sum())))
    sums: _AgreementSums = total(parts)
    return sums


def _held_out_sums(shard: int, *, graph: ShardedGraph, products: list[Columns]) -> RatioSums:
    first, last, _ = graph.shards[shard]
    summed = np.asarray(sum(columns.open()[first:last] for columns in products))
    return RatioSums.of(summed[:, 0], summed[:, 1])
