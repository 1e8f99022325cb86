"""Two node signals of the paper's outlook, and whether they help on left-out families.

*Disagreement conditioned on local homophily*: how often edge dropout changes a prediction, minus
its mean over nodes of the same graph whose neighbours agree equally often. *Conformal set size*:
the number of classes in the node's APS set, whose threshold covers 90 % of the card's nodes at the
source. Both are added to the signals that the node response reads. The environments are fifteen
shifts of the source, seen at the labelled nodes of the card alone; the gain is measured on families
of shifts and folds of nodes that the fit leaves out. No target takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.calibrators.conformal import scores
from graphtemper.calibrators.conformal.threshold import threshold
from graphtemper.card import node_response
from graphtemper.card.card import SourceCard
from graphtemper.card.node_response import NodeRows
from graphtemper.recalibration.report import style
from graphtemper.signals import node_signals, pointwise
from graphtemper.signals.node_signals import SIGNALS
from graphtemper.signals.observation import Observation
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison
from graphtemper_research.harness.runner import Bench, Request, Selection
from graphtemper_research.leaderboard.standings import Interval
from graphtemper_research.trials import graph_names, shifted_targets, trial
from graphtemper_research.trials.cases import graphs_of, models_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.outlook_signals_cell/1"
GRAPHS = ("cora", "county_2012", "airport_usa", "minesweeper", "actor")
QUICK_GRAPHS = ("county_2012",)
COVERAGE, PASSES, GROUPS = 0.9, 6, 5
PLAIN, CONDITIONED, SET_SIZE = "edge disagreement", "conditioned disagreement", "set size"
EXTRA = (PLAIN, CONDITIONED, SET_SIZE)
VARIANTS = {
    "none": (),
    PLAIN: (PLAIN,),
    CONDITIONED: (CONDITIONED,),
    SET_SIZE: (SET_SIZE,),
    "all three": EXTRA,
}


def conditioned(values: FloatArray, given: FloatArray, groups: int = GROUPS) -> FloatArray:
    """Return values minus their mean over the nodes with about the same rank of another number.

    Examples
    --------
    >>> conditioned(np.array([1.0, 3.0, 5.0, 9.0]), np.array([0.1, 0.2, 0.8, 0.9]), 2).tolist()
    [-1.0, 1.0, -2.0, 2.0]
    """
    rank = np.argsort(np.argsort(given, kind="stable"), kind="stable")
    group = rank * groups // max(len(values), 1)
    sums = np.bincount(group, values, minlength=groups)
    sizes = np.maximum(np.bincount(group, minlength=groups), 1)
    return np.asarray(values - (sums / sizes)[group])


def set_sizes(probabilities: FloatArray, limit: float) -> FloatArray:
    """Return how many classes each APS set holds, at least one.

    Examples
    --------
    >>> set_sizes(np.array([[0.9, 0.1], [0.5, 0.5]]), 0.95).tolist()
    [1.0, 1.0]
    """
    inside = scores.aps(probabilities) <= limit
    return np.asarray(np.maximum(inside.sum(axis=1), 1).astype(np.float64))


def extended(observation: Observation, card: SourceCard, limit: float) -> FloatArray:
    """Return the usual node signals and the three of this trial, (n, D + 3)."""
    usual = node_signals.measure(observation, card.probe)
    flips = pointwise.instability(observation.votes("edge", passes=PASSES))
    agreement = pointwise.neighbour_agreement(observation.all_predictions, observation.graph.edges)[
        observation.nodes
    ]
    sizes = np.log(set_sizes(observation.probabilities, limit))
    return np.column_stack([usual, flips, conditioned(flips, agreement), sizes])


def measure(name: str, model: str, seed: int, show: Show | None = None) -> Rows:
    """Return one row per variant: what node temperatures gain on left-out families, in nats."""
    graph = graph_names.load(name)
    train, val, test = trial.split(graph, seed)
    home = trial.hide_labels(graph, test)
    assert home.labels is not None
    predictor = trial.MODELS[model](seed).fit(home, train)
    card = SourceCard.build(predictor, home, val, seed=seed, compositions=0)
    unit, labels = card.probe.temperature, home.labels[val]
    at_home = Observation(predictor, home, val, temperature=unit, seed=seed)
    own = scores.aps(at_home.probabilities)[np.arange(val.size), labels]
    limit = float(threshold(own, COVERAGE))
    folds = stream(seed, "node folds").integers(0, node_response.FOLDS, val.size)

    def rows_of(observation: Observation) -> NodeRows:
        signals = extended(observation, card, limit).astype(np.float32)
        return NodeRows(signals, observation.logits.astype(np.float32), labels, folds)

    rows, families, accuracies = [], [], []
    for index, (shift, target, draw) in enumerate(shifted_targets.shifted(home, seed)):
        observation = Observation(predictor, target, val, temperature=unit, seed=draw)
        if shift is not None:
            rows.append(rows_of(observation))
            families.append(frozenset({shift.family}))
            accuracies.append(float((observation.predictions == labels).mean()))
        if show is not None:
            show(index + 1, len(shifted_targets.SHIFTS))
    accuracy = float((at_home.predictions == labels).mean())
    measured = (*SIGNALS, *EXTRA)
    source = rows_of(at_home)
    found = []
    for variant, extra in VARIANTS.items():
        response = node_response.fit(
            source, rows, families, accuracies, accuracy, (*SIGNALS, *extra), measured
        )
        found.append({"added": variant, "gain": response.gain, "error": response.error})
    return found


def cases(request: Request) -> Selection:
    """Return a case for every model, graph and split."""
    names, missing = graphs_of(request, GRAPHS, QUICK_GRAPHS)
    expected = [{"added": variant} for variant in VARIANTS]
    found = []
    for model in models_of(request):
        for name in names:
            for seed in request.splits(3):
                graph = graph_names.short(name)
                head: dict[str, Any] = {"schema": SCHEMA, "graph": graph, "model": model}
                head |= {"seed": seed}
                work = partial(measure, name, model, seed)
                found.append(Case(f"{graph}-{model}-{seed}", head, work, expected))
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per model and variant: the gain, and the paired difference over cells."""
    flat = frame.flat(cells, "model", "graph", "seed")
    rows = []
    for model in frame.distinct(cells, "model"):
        base = frame.select(flat, model=model, added="none")
        for variant in VARIANTS:
            own = frame.select(flat, model=model, added=variant)
            pairs = zip(own, base, strict=True)
            gap = Interval.of([row["gain"] - other["gain"] for row, other in pairs])
            better = sum(r["gain"] > b["gain"] for r, b in zip(own, base, strict=True))
            rows.append(
                {
                    "model": model,
                    "added": variant,
                    "gain": frame.mean([row["gain"] for row in own]),
                    "difference": gap.mean,
                    "low": gap.low,
                    "high": gap.high,
                    "better": better,
                    "cells": len(own),
                }
            )
    return rows


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """Say of each signal whether its gain is beyond doubt."""
    return [
        Comparison(
            f"{row['model']}: nats per node that {row['added']} adds on left-out families",
            row["difference"],
            "above 0 with its whole 90 % interval",
            None if row["low"] is None else row["low"] > 0.0,
            note=f"better in {row['better']} of {row['cells']} cells",
        )
        for row in rows
        if row["added"] != "none"
    ]


def _span(row: Row) -> str:
    return "" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}"


_COLUMNS = (
    Column("added", "signals added"),
    Column("gain", "gain of node temperatures (nats per node)", ".4f"),
    Column("difference", "difference", "+.4f"),
    Column(_span, "90 % over cells"),
    Column(lambda row: f"{row['better']} of {row['cells']}", "better in"),
)


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    axes = figure.subplots()
    axes.barh([row["added"] for row in rows], [row["gain"] for row in rows], color=style.BLUE)
    axes.set(xlabel="gain of node temperatures on left-out families (nats per node)")
    axes.invert_yaxis()


BENCH = Bench(
    name="outlook_signals",
    title="Two node signals of the paper's outlook",
    command="bench outlook-signals",
    introduction="""\
What node temperatures gain over one temperature on left-out families of shifts and left-out nodes
of the source, in nats per node, with the usual node signals and with others added. *Difference*
is paired over cells (a graph and a split).""",
    cases=cases,
    rows=summarise,
    bars=bars,
    tables=(Table("{model}", _COLUMNS),),
    terminal=(Table("{model}", _COLUMNS),),
    draw=_draw,
    size=lambda rows: (6.5, 2.6),
    settings=lambda cells, rows: {
        key + "s": frame.distinct(cells, key) for key in ("model", "graph", "seed")
    },
)
