"""Negative controls: what the atlas says about shifts that it cannot see.

They are limits to be written down, not bars to be passed: what matters is which verdict each one
gets. Each graph is one cell on disk, split like the known shifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.card import atlas
from graphtemper.graph.graph import Graph
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, interval, page, skipped, texts
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials.cases import over_graphs
from graphtemper_research.trials.hidden_shifts import (
    class_noise,
    regional_noise,
    rotate,
    row_noise,
    swap_classes,
)
from graphtemper_research.trials.natural_summary import COLOURS
from graphtemper_research.trials.trial import (
    ATLAS,
    METHODS,
    MODELS,
    ORACLE,
    SOURCE,
    TARGET_SEED,
    TOLERANCE,
    Indices,
    Source,
    hide_labels,
    score,
    split,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        "one noise number a node in all its columns: both feature halves carry it",
        lambda graph, seed: row_noise(graph, 1.0, seed),
    ),
    Control(
        "noise 1.5 on one class",
        "the most frequent class alone gets noise",
        lambda graph, seed: class_noise(graph, 1.5, seed),
    ),
)


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = 1,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every graph that is not in ``out/cells`` yet and say what every control gets.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default `GRAPHS`, of which missing ones are left out.
    models, seeds
        Names from `MODELS`; how many splits: 1, 2, ...
    quick
        One graph and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    usual = QUICK_GRAPHS if quick else GRAPHS
    found, missing = over_graphs(
        _cell, out, graphs, usual, models, seeds, quick=quick, progress=progress
    )
    return outcome(found, missing)


def _cell(
    folder: Path, name: str, model: str, seed: int, compositions: int, progress: Progress | None
) -> Cell:
    graph = features.short(name)
    head = {
        "schema": SCHEMA,
        "graph": graph,
        "model": model,
        "seed": seed,
        "compositions": compositions,
    }
    expected = [{"control": c.name, "method": method} for c in CONTROLS for method in METHODS]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(features.load(name), model, seed, compositions, progress=show)

    return cells.finish(folder, f"{graph}-{model}-{seed}", head, expected, measured, progress)


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per control and method for one split of one graph."""
    assert graph.labels is not None
    train, val, test = split(graph, seed)
    source = Source.prepare(
        MODELS[model](seed),
        hide_labels(graph, test),
        train,
        val,
        seed,
        compositions,
        progress=progress,
    )
    rows = []
    for index, control in enumerate(CONTROLS):
        draw = TARGET_SEED + 100 * seed + index
        target = control.graph(graph, draw)
        answers = source.answers(target, test, draw)
        labels = control.labels(graph.labels[test], graph.num_classes)
        named = {"control": control.name, "card_nodes": source.num_nodes}
        rows += [named | row for row in score(source.logits(target, test), labels, answers)]
    return rows


def outcome(found: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Return one row per graph and control, and which controls were trusted although wrong."""
    rows = [row for cell in found for row in _control_rows(cell)]
    limits = [_limit(control, rows) for control in CONTROLS]
    return Outcome(
        name="controls",
        title="What the atlas cannot see",
        settings={
            "models": list(dict.fromkeys(cell["model"] for cell in found)),
            "seeds": sorted({cell["seed"] for cell in found}),
            "compositions": sorted({cell["compositions"] for cell in found}),
        },
        comparisons=[*limits, *skipped(missing), *cells.outdated(found)],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(7.5, 1.0 + 0.26 * len(rows)),
    )


def _control_rows(cell: Cell) -> list[dict[str, Any]]:
    rows = []
    for control in CONTROLS:
        mine = {row["method"]: row for row in cell["rows"] if row["control"] == control.name}
        said = mine[ATLAS]
        rows.append(
            {key: cell[key] for key in ("model", "graph", "seed")}
            | {"control": control.name}
            | {key: said[key] for key in ("accuracy", "estimate", "low", "high", "verdict")}
            | {f"ece {method}": mine[method]["ece"] for method in METHODS}
        )
    return rows


def _limit(control: Control, rows: Sequence[Row]) -> Comparison:
    """Say by how much the estimate is wrong under a control, and what the verdicts were."""
    mine = [row for row in rows if row["control"] == control.name]
    error = sum(abs(row["estimate"] - row["accuracy"]) for row in mine) / len(mine)
    outside = sum(not row["low"] <= row["accuracy"] <= row["high"] for row in mine)
    harmful = sum(
        row["verdict"] == "trust" and row[f"ece {ATLAS}"] - row[f"ece {SOURCE}"] > TOLERANCE
        for row in mine
    )
    verdicts = ", ".join(row["verdict"] for row in mine)
    return Comparison(
        f"{control.name}: error of the accuracy",
        error,
        REPORTED,
        None,
        note=f"{control.why}; verdicts {verdicts}; truth outside the interval on {outside} of "
        f"{len(mine)}; harmful trust on {harmful}",
    )


# A terminal of 80 columns has no room for the oracle, and the graph in a title of its own.
NARROW: Columns = {
    "control": ("control", ""),
    "accuracy": ("true", ".2f"),
    "estimate": ("said", ".2f"),
    "interval": ("interval", ""),
    "verdict": ("verdict", ""),
    f"ece {SOURCE}": ("source", ".3f"),
    f"ece {ATLAS}": ("atlas", ".3f"),
}
COLUMNS: Columns = {"graph": ("graph", ""), **NARROW, f"ece {ORACLE}": ("oracle", ".3f")}
WORDS = (
    "The true accuracy, what the atlas *said*, its 90 % interval and its verdict, then the ECE of",
    "the source temperature, of the atlas and of the oracle. None of these is a bar: no unlabelled",
    "number shows that classes changed their meaning, and the split views assume noise that is",
    "independent between columns and between nodes.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal, one a graph."""
    titles = dict.fromkeys((row["model"], row["graph"]) for row in found.rows)
    return {
        f"{model}: {graph}": texts(
            [interval(r) for r in found.rows if (r["model"], r["graph"]) == (model, graph)], NARROW
        )
        for model, graph in titles
    }


def render(found: Outcome) -> str:
    """Return the Markdown page: what every control got, graph by graph."""
    parts = {
        model: texts([interval(row) for row in found.rows if row["model"] == model], COLUMNS)
        for model in found.settings["models"]
    }
    return page(found, "bench controls", WORDS, parts)


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw every estimate with its interval beside the truth."""
    axes = figure.subplots()
    names = [f"{row['graph']}: {row['control']}" for row in rows]
    for verdict, colour in COLOURS.items():
        mine = [i for i, row in enumerate(rows) if row["verdict"] == verdict]
        middle = [rows[i]["estimate"] for i in mine]
        reach = [
            [rows[i]["estimate"] - rows[i]["low"] for i in mine],
            [rows[i]["high"] - rows[i]["estimate"] for i in mine],
        ]
        axes.errorbar(middle, mine, xerr=reach, fmt="o", color=colour, label=verdict)
    axes.plot(
        [row["accuracy"] for row in rows],
        range(len(rows)),
        "k|",
        markersize=9,
        label="true accuracy",
    )
    axes.set_yticks(range(len(rows)), names)
    axes.set(xlabel="accuracy", xlim=(0, 1))
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
