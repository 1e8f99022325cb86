"""Negative controls: what the atlas says about shifts that it cannot see.

They document limits and have no bars: what matters is the verdict of each one. Graphs are split as
under the known shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphtemper import Graph
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table, interval
from graphtemper_research.harness.outcome import Comparison, reported
from graphtemper_research.harness.runner import Bench
from graphtemper_research.trials import trial
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.hidden_shifts import (
    class_noise,
    regional_noise,
    rotate,
    row_noise,
    swap_classes,
)
from graphtemper_research.trials.trial import ATLAS, METHODS, ORACLE, SOURCE, Indices, Source

SCHEMA = "graphtemper.control_cell/1"
GRAPHS = ("cora", "county_2012", "minesweeper")
QUICK_GRAPHS = ("county_2012",)


@dataclass(frozen=True)
class Control:
    """A change of the target's graph, or of what its labels mean."""

    name: str
    why: str
    graph: Callable[[Graph, int], Graph] = lambda graph, seed: graph
    labels: Callable[[Indices, int], Indices] = lambda labels, num_classes: labels


CONTROLS = (
    Control("none", "the graph as it is, for comparison"),
    Control("rotated features", "the columns lose their meaning, distances stay", rotate),
    Control("swapped classes", "only the labels change, so nothing shows", labels=swap_classes),
    Control(
        "regional noise 1",
        "one noise vector per connected region: neighbours do not average it out",
        lambda graph, seed: regional_noise(graph, 1.0, seed),
    ),
    Control(
        "row noise 1",
        "one noise value per node in all its columns: both feature halves carry it",
        lambda graph, seed: row_noise(graph, 1.0, seed),
    ),
    Control(
        "noise 1.5 on one class",
        "only the most frequent class gets noise",
        lambda graph, seed: class_noise(graph, 1.5, seed),
    ),
)


def measure(
    graph: Graph, model: str, seed: int, compositions: int, *, progress: Show | None = None
) -> Rows:
    """Return one row per control and method for one split of one graph."""
    source, _, test = Source.of_split(graph, model, seed, compositions, progress)
    assert graph.labels is not None
    rows: Rows = []
    for index, control in enumerate(CONTROLS):
        draw = trial.TARGET_SEED + 100 * seed + index
        target = control.graph(graph, draw)
        answers = source.answers(target, test, draw)
        labels = control.labels(graph.labels[test], graph.num_classes)
        facts = {"control": control.name, "card_nodes": source.num_nodes}
        rows += [facts | row for row in trial.score(source.logits(target, test), labels, answers)]
    return rows


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per model, graph, seed and control."""
    keys = ("model", "graph", "seed")
    return [
        facts
        | frame.pick(methods[ATLAS], "accuracy", "estimate", "low", "high", "verdict")
        | {f"ece {method}": methods[method]["ece"] for method in METHODS}
        for facts, methods in frame.by_method(frame.flat(cells, *keys), *keys, "control")
    ]


def limits(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State by how much the estimate is wrong under every control, and the verdicts."""
    comparisons = []
    for control in CONTROLS:
        own = frame.select(rows, control=control.name)
        outside = sum(not row["low"] <= row["accuracy"] <= row["high"] for row in own)
        harmful = sum(
            row["verdict"] == "trust"
            and row[f"ece {ATLAS}"] - row[f"ece {SOURCE}"] > trial.TOLERANCE
            for row in own
        )
        comparisons.append(
            reported(
                f"{control.name}: error of the accuracy",
                frame.mean([abs(row["estimate"] - row["accuracy"]) for row in own]) or 0.0,
                f"{control.why}; verdicts {', '.join(row['verdict'] for row in own)}; truth "
                f"outside the interval on {outside} of {len(own)}; harmful trust on {harmful}",
            )
        )
    return comparisons


_ANSWER = (
    Column("control"),
    Column("accuracy", "true", ".2f"),
    Column("estimate", spec=".2f"),
    Column(interval, "interval"),
    Column("verdict"),
    Column(f"ece {SOURCE}", "source", ".3f"),
    Column(f"ece {ATLAS}", "atlas", ".3f"),
)


BENCH = Bench(
    name="controls",
    title="What the atlas cannot see",
    command="bench controls",
    introduction="""\
The true accuracy, the *estimate* of the atlas with its 90 % interval and its verdict, then the
ECE of the source temperature, the atlas and the oracle. None of these is a bar: no unlabelled
number shows that classes changed their meaning, and the split views assume noise that is
independent between columns and between nodes.""",
    cases=graph_cases(measure, SCHEMA, GRAPHS, QUICK_GRAPHS),
    rows=summarise,
    bars=limits,
    tables=(
        Table("{model}", (Column("graph"), *_ANSWER, Column(f"ece {ORACLE}", "oracle", ".3f"))),
    ),
    terminal=(Table("{model}: {graph}", _ANSWER),),
)
