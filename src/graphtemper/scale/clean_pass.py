"""One run of a linear model over a sharded graph: what every stage of it needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper.models.linear import LinearGNN
from graphtemper.scale.engine import Engine
from graphtemper.scale.propagation import Kept, Projected, ShardedOperator, Stored, propagate
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import Rows, ShardedGraph
from graphtemper.scale.storage.workspace import Workspace


@dataclass(frozen=True, eq=False)
class Clean:
    """The model's clean pass on disk, and how logits are read from it.

    Attributes
    ----------
    graph, model
        What ran on what.
    temperature
        The source temperature; `logits` and `own` divide by it.
    operator
        The model's operator S.
    terms
        X W_k of the hops in use, side by side.
    values, classes
        Logits (N, K) as the model gives them, and predicted classes (N, 1).
    """

    graph: ShardedGraph
    model: LinearGNN
    temperature: float
    operator: ShardedOperator
    terms: Columns
    values: Columns
    classes: Columns

    @property
    def num_classes(self) -> int:
        """Number of classes, K."""
        return int(self.model.intercept_.size)

    @property
    def stored(self) -> Stored:
        """The terms, to be propagated again."""
        return Stored(self.terms, self.model.hops_used, self.num_classes)

    def logits(self, shard: int) -> FloatArray:
        """Return a shard's logits at the source temperature, (n, K) float64."""
        first, last, _ = self.graph.shards[shard]
        return self.values.open()[first:last].astype(np.float64) / self.temperature

    def pieces(self, shard: int) -> list[FloatArray]:
        """Return a shard's `logits` as the list that `graphtemper.scale.matching` reads."""
        return [self.logits(shard)]

    def own(self, first: int, last: int) -> FloatArray:
        """Return own views (`graphtemper.signals.neighbours`) at the source temperature."""
        terms = self.terms.open()[first:last].astype(np.float64)
        by_hop = terms.reshape(last - first, -1, self.num_classes)
        return np.asarray((by_hop.sum(axis=1) + self.model.intercept_) / self.temperature)


@dataclass(frozen=True)
class LogitsAndClasses:
    """A sink for logits that also keeps the predicted class."""

    values: Columns
    classes: Columns
    intercept: Any

    def put(self, rows: Rows, values: Any) -> None:
        """See `graphtemper.scale.propagation.Sink`."""
        logits = values + self.intercept
        self.values.write(rows.first, logits)
        self.classes.write(rows.first, logits.argmax(axis=1)[:, None])


def clean_pass(
    engine: Engine, graph: ShardedGraph, model: LinearGNN, temperature: float, room: Workspace
) -> Clean:
    """Project the features once and propagate K columns: the model's logits on every node.

    The same bytes as ``model(graph)`` in memory, but for the last bit where the matrix product of
    features and weights is rounded differently for other numbers of rows.
    """
    count = int(model.intercept_.size)
    width = len(model.hops_used) * count
    weights = model.weights_.transpose(1, 0, 2).reshape(graph.num_features, width)
    project = Projected(graph, [weights.astype(np.float32)], [np.zeros(width, np.float32)], width)
    made = Clean(
        graph=graph,
        model=model,
        temperature=temperature,
        operator=ShardedOperator(graph, model.operator, room.lasting("scale", 1, np.float64)),
        terms=room.lasting("terms", width, np.float32),
        values=room.lasting("logits", count, np.float32),
        classes=room.lasting("classes", 1, np.int32),
    )
    operator, terms = made.operator, Kept(made.terms)
    sink = LogitsAndClasses(made.values, made.classes, model.intercept_.astype(np.float32))
    run = partial(propagate, engine, graph, operator)
    room.stage("scale", partial(operator.measure, engine), operator.scale)
    room.stage("terms", partial(run, project, 0, room, terms), made.terms)
    room.stage(
        "logits", partial(run, made.stored, model.hops, room, sink), made.values, made.classes
    )
    return made


@dataclass(frozen=True, eq=False)
class Run:
    """A clean pass with the engine and the workspace for more of them."""

    engine: Engine
    room: Workspace
    clean: Clean

    def map(self, function: Callable[[int], Any]) -> list[Any]:
        """Run a function on every shard."""
        return self.engine.map(function, range(len(self.clean.graph.shards)))
