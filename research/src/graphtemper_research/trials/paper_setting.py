"""The paper's own setting, its real-graph table `tab:real`, with the atlas as one more column.

SIGN, feature noise 1.0 drawn as the paper's scripts drew it, the first three stored splits (random
ones where a graph has none), logits [0, g] for two classes. The card is made of the validation
nodes, where the paper fits its source temperature. The atlas contains noise at other strengths; a
second column leaves noise out of it. Each graph is one cell on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.card import atlas
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.models import SIGN
from graphtemper.recalibration.report import style
from graphtemper_research.harness import cells
from graphtemper_research.harness.cells import Cell, Progress, Rows
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import Columns, page, skipped, texts
from graphtemper_research.paper import real, real_graphs
from graphtemper_research.trials import graph_names as features
from graphtemper_research.trials.trial import (
    ATLAS,
    ORACLE,
    PEERS,
    QUICK_COMPOSITIONS,
    SOURCE,
    Source,
    hide_labels,
    score,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.paper_cell/1"
QUICK_GRAPHS = ("county_2012",)
BLIND = "atlas without noise"
METHODS = (*PEERS, ATLAS, BLIND, ORACLE)
# How much more ECE than the oracle's the atlas may have, on each graph.
BAR = 0.005
# Where the paper's table has STAC, among its four columns.
PUBLISHED_STAC = {name: columns[2] for name, columns in real.PUBLISHED.items()}


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every graph that is not in ``out/cells`` yet and compare the atlas with the oracle.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default those of the paper's table and every other of at
        least 300 nodes that is here.
    quick
        One small graph, one split and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    here, missing = features.present(QUICK_GRAPHS) if quick else real_graphs.present()
    names = here if graphs is None else list(graphs)
    if not names:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    splits = 1 if quick else real_graphs.SPLITS
    found = [_cell(out / "cells", name, splits, compositions, progress) for name in names]
    return outcome(found, missing if graphs is None else [])


def _cell(
    folder: Path, name: str, splits: int, compositions: int, progress: Progress | None
) -> Cell:
    graph = features.short(name)
    head = {"schema": SCHEMA, "graph": graph, "splits": splits, "compositions": compositions}
    expected = [{"split": i, "method": method} for i in range(splits) for method in METHODS]

    def measured(show: atlas.Progress | None) -> Rows:
        return measure(features.load(name), splits, compositions, progress=show)

    return cells.finish(folder, graph, head, expected, measured, progress)


def measure(
    graph: Graph,
    splits: int = real_graphs.SPLITS,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> Rows:
    """Return one row per split and method for one graph."""
    assert graph.labels is not None
    rows = []
    for index, nodes in enumerate(real_graphs.splits(graph, splits)):
        source = Source.prepare(
            SIGN(hops=2, C=1.0, max_iter=200, tol=1e-4),
            hide_labels(graph, nodes.test),
            nodes.train,
            nodes.val,
            index,
            compositions,
            progress=progress,
        )
        target = real_graphs.published_noise(
            graph.replace(labels=None), real_graphs.STAC_LEVEL, index
        )
        answers = source.answers(target, nodes.test, index)
        answers[BLIND] = source.ask(target, nodes.test, index, source.card.without("noise"))
        named = {"split": index, "card_nodes": source.num_nodes}
        logits = source.logits(target, nodes.test)
        rows += [named | row for row in score(logits, graph.labels[nodes.test], answers)]
    return rows


def outcome(found: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Average the splits of every graph and state the bar."""
    rows = [_averaged(cell) for cell in found]
    bars = [_bar(row) for row in rows]
    met = sum(bool(item.met) for item in bars)
    what = f"graphs where the bar is met, of {len(rows)}"
    bars.append(Comparison(what, met, f"{len(rows)}", met == len(rows)))
    return Outcome(
        name="paper_setting",
        title="The paper's real-graph table with the atlas in it",
        settings={
            "model": "SIGN, 2 hops, C = 1",
            "noise": real_graphs.STAC_LEVEL,
            "splits": max(cell["splits"] for cell in found),
            "compositions": sorted({cell["compositions"] for cell in found}),
        },
        comparisons=[*bars, *skipped(missing), *cells.outdated(found)],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(7.0, 1.2 + 0.27 * len(rows)),
    )


def _averaged(cell: Cell) -> dict[str, Any]:
    def values(method: str, key: str) -> list[Any]:
        return [row[key] for row in cell["rows"] if row["method"] == method]

    found: dict[str, Any] = {"graph": cell["graph"]}
    found |= {f"ece {method}": float(np.mean(values(method, "ece"))) for method in METHODS}
    found |= {
        "printed": PUBLISHED_STAC.get(cell["graph"]),
        "excess": found[f"ece {ATLAS}"] - found[f"ece {ORACLE}"],
        "accuracy": float(np.mean(values(ATLAS, "accuracy"))),
        "estimate": float(np.mean(values(ATLAS, "estimate"))),
        "STAC estimate": float(np.mean(values("STAC", "estimate"))),
        "verdicts": ", ".join(values(ATLAS, "verdict")),
        "nodes": int(np.mean(values(ATLAS, "nodes"))),
    }
    return found


def _bar(row: Row) -> Comparison:
    ece = {name: row[f"ece {name}"] for name in (ATLAS, ORACLE, "STAC")}
    return Comparison(
        f"{row['graph']}: ECE of the atlas above the oracle's",
        row["excess"],
        f"<= {BAR}",
        bool(row["excess"] <= BAR),
        note=", ".join(f"{name} {value:.3f}" for name, value in ece.items()),
    )


NARROW: Columns = {
    "graph": ("graph", ""),
    "ece uncalibrated": ("plain", ".3f"),
    f"ece {SOURCE}": ("source", ".3f"),
    "ece STAC": ("STAC", ".3f"),
    f"ece {ATLAS}": ("atlas", ".3f"),
    f"ece {BLIND}": ("blind", ".3f"),
    f"ece {ORACLE}": ("oracle", ".3f"),
}
COLUMNS: Columns = {
    **NARROW,
    "printed": ("STAC as printed", ".3f"),
    "accuracy": ("true", ".3f"),
    "estimate": ("said", ".3f"),
    "STAC estimate": ("STAC said", ".3f"),
    "verdicts": ("verdicts", ""),
}
WORDS = (
    "ECE of the uncalibrated model (*plain*), the source temperature, Algorithm 1 as printed,",
    "of the atlas, of the atlas with noise left out of its card (*blind*), and of the oracle; then",
    "the paper's figure for STAC, the true accuracy, and what the atlas and STAC said. The oracle",
    "minimises NLL and not ECE, so the atlas can be below it.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal."""
    return {found.title: texts(found.rows, NARROW)}


def render(found: Outcome) -> str:
    """Return the Markdown page: the bar on every graph, and the table."""
    return page(found, "bench paper-setting", WORDS, {"ECE": texts(found.rows, COLUMNS)})


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw every graph's ECE, method by method."""
    axes = figure.subplots()
    marks = {
        "uncalibrated": (style.GREY, "o"),
        SOURCE: (style.RED, "s"),
        "STAC": (style.ORANGE, "X"),
        BLIND: (style.SKY, "D"),
        ATLAS: (style.BLUE, "o"),
        ORACLE: (style.GREEN, "^"),
    }
    for method, (colour, marker) in marks.items():
        values = [row[f"ece {method}"] for row in rows]
        axes.plot(values, range(len(rows)), marker, color=colour, label=method, alpha=0.85)
    axes.set_yticks(range(len(rows)), [row["graph"] for row in rows])
    axes.set(xlabel="ECE", xlim=(0, None))
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
