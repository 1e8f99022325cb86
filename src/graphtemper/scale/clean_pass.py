"""The clean pass of a linear model over a sharded graph, on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.models.linear_passes import LinearPasses
from graphtemper.scale.engine import Engine
from graphtemper.scale.propagation import (
    ColumnSink,
    Projected,
    ShardedOperator,
    StoredTerms,
    propagate,
)
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace


class ShardLogits(Protocol):
    """Logits of all nodes of a sharded graph, on disk."""

    @property
    def graph(self) -> ShardedGraph:
        """The sharded graph."""

    @property
    def num_classes(self) -> int:
        """Number of classes, K."""

    def logits(self, shard: int) -> FloatArray:
        """Return a shard's logits at the source temperature, (n, K) float64."""

    def logit_blocks(self, shard: int) -> list[FloatArray]:
        """Return a shard's `logits` as the blocks that `graphtemper.scale.matching` reads."""


@dataclass(frozen=True, eq=False)
class CleanPass:
    """Logits of a model on the unperturbed graph, on disk.

    Attributes
    ----------
    graph, model
        The sharded graph and the linear model.
    temperature
        The source temperature; `logits` and `own_views` are divided by it.
    operator
        The model's operator S.
    terms
        X W_k of the hops in use, concatenated.
    values, classes
        Logits (N, K) of the model, and predicted classes (N, 1).
    """

    graph: ShardedGraph
    model: LinearPasses
    temperature: float
    operator: ShardedOperator
    terms: Columns
    values: Columns
    classes: Columns

    @property
    def num_classes(self) -> int:
        """Number of classes, K."""
        return self.model.num_classes

    @property
    def stored_terms(self) -> StoredTerms:
        """The terms, for another propagation."""
        return StoredTerms(self.terms, self.model.hops_used, self.num_classes)

    def logits(self, shard: int) -> FloatArray:
        """Return a shard's logits at the source temperature, (n, K) float64."""
        first, last, _ = self.graph.shards[shard]
        return self.values.open()[first:last].astype(np.float64) / self.temperature

    def logit_blocks(self, shard: int) -> list[FloatArray]:
        """Return a shard's `logits` as the blocks that `graphtemper.scale.matching` reads."""
        return [self.logits(shard)]

    def own_views(self, first: int, last: int) -> FloatArray:
        """Return own views (`graphtemper.signals.covariances`) at the source temperature."""
        terms = self.terms.open()[first:last].astype(np.float64)
        by_hop = terms.reshape(last - first, -1, self.num_classes)
        return np.asarray((by_hop.sum(axis=1) + self.model.intercept) / self.temperature)


@dataclass(frozen=True)
class LogitSink:
    """A sink that stores logits and predicted classes."""

    values: Columns
    classes: Columns
    intercept: Any

    def put(self, rows: Rows, values: Any) -> None:
        """See `graphtemper.scale.propagation.Sink`."""
        logits = values + self.intercept
        self.values.write(rows.first, logits)
        self.classes.write(rows.first, logits.argmax(axis=1)[:, None])


def clean_pass(
    engine: Engine,
    graph: ShardedGraph,
    model: LinearPasses,
    temperature: float,
    workspace: Workspace,
) -> CleanPass:
    """Compute the model's logits on every node: project the features, then propagate K columns.

    The result equals ``model(graph)`` in memory, except for the last bit where the matrix product
    of features and weights is rounded differently for another number of rows.
    """
    num_classes = model.num_classes
    width = len(model.hops_used) * num_classes
    weights = model.stacked_weights
    projected = Projected(graph, [weights.astype(np.float32)], [np.zeros(width, np.float32)], width)
    scale = workspace.stage_columns("scale", 1, np.float64)
    clean = CleanPass(
        graph=graph,
        model=model,
        temperature=temperature,
        operator=ShardedOperator(graph, model.operator, scale),
        terms=workspace.stage_columns("terms", width, np.float32),
        values=workspace.stage_columns("logits", num_classes, np.float32),
        classes=workspace.stage_columns("classes", 1, np.int32),
    )
    operator, terms = clean.operator, ColumnSink(clean.terms)
    logits = LogitSink(clean.values, clean.classes, model.intercept.astype(np.float32))
    run = partial(propagate, engine, graph, operator)
    workspace.stage("scale", partial(operator.write_scale, engine), operator.scale)
    workspace.stage("terms", partial(run, projected, 0, workspace, terms), clean.terms)
    workspace.stage(
        "logits",
        partial(run, clean.stored_terms, model.hops, workspace, logits),
        clean.values,
        clean.classes,
    )
    return clean


@dataclass(frozen=True, eq=False)
class Run:
    """A clean pass with the engine and the workspace for perturbed passes."""

    engine: Engine
    workspace: Workspace
    clean: CleanPass

    def map(self, function: Callable[[int], Any]) -> list[Any]:
        """Run a function on every shard."""
        return self.engine.map(function, range(len(self.clean.graph.shards)))
