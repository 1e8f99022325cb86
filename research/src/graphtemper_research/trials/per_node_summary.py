"""One temperature per node in a table: averages over shifts and graphs, the bars, the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, mean, page, texts
from graphtemper_research.trials.trial import ORACLE, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GLOBAL, PER_NODE, LOGITS_ONLY = "atlas", "atlas per node", "per node, logits only"
STAC_FULL = "STAC-full"
HALF_THE_GRAPH = ("heterogeneous", "shuffle")
"""Families that hit a part of the nodes and leave the others alone."""
AVERAGE = "average"
ALL, PART = "all shifts", "shifts of a part"


def named(method: str, family: str) -> str:
    """Return what a row calls a method of a card that knows the shift's family, or does not.

    Examples
    --------
    >>> named(GLOBAL, "known")
    'atlas, known family'
    """
    return f"{method}, {family} family"


METHODS = (
    SOURCE,
    STAC_FULL,
    *(named(method, "known") for method in (GLOBAL, PER_NODE, LOGITS_ONLY)),
    *(named(method, "unknown") for method in (GLOBAL, PER_NODE, LOGITS_ONLY)),
    ORACLE,
)


def outcome(cells: Sequence[Cell]) -> Outcome:
    """Summarise cells: one row per model, kind of shift, graph and method, and the averages."""
    rows: list[dict[str, Any]] = []
    models = list(dict.fromkeys(cell["model"] for cell in cells))
    for model in models:
        for shifts in (ALL, PART):
            mine = [cell for cell in cells if cell["model"] == model]
            graphs = list(dict.fromkeys(cell["graph"] for cell in mine))
            found = [
                _summarise(model, shifts, graph, method, mine)
                for graph in graphs
                for method in METHODS
            ]
            rows += found + [_average(model, shifts, method, found) for method in METHODS]
    settings = {
        "models": models,
        "graphs": list(dict.fromkeys(cell["graph"] for cell in cells)),
        "seeds": sorted({cell["seed"] for cell in cells}),
        "compositions": sorted({cell["compositions"] for cell in cells}),
        "shifts": len({row["shift"] for cell in cells for row in cell["rows"]}),
    }
    return Outcome(
        name="per_node",
        title="One temperature per node",
        settings=settings,
        comparisons=[*(bar for model in models for bar in _bars(model, rows)), *outdated(cells)],
        rows=rows,
        draw=lambda figure: _draw(figure, models, rows),
        size=(4.5 * len(models) + 3.5, 4.0),
    )


def _summarise(
    model: str, shifts: str, graph: str, method: str, cells: Sequence[Cell]
) -> dict[str, Any]:
    mine = [
        row
        for cell in cells
        if cell["graph"] == graph
        for row in cell["rows"]
        if row["method"] == method and (shifts == ALL or row["family"] in HALF_THE_GRAPH)
    ]
    head = {"model": model, "shifts": shifts, "graph": graph, "method": method}
    return head | {
        "brier": mean([row["brier"] for row in mine]),
        "nll": mean([math.inf if row["nll"] is None else row["nll"] for row in mine]),
        "auroc": mean([row["auroc"] for row in mine if row["auroc"] is not None]),
        "ece": mean([row["ece"] for row in mine]),
    }


def _average(model: str, shifts: str, method: str, rows: Sequence[Row]) -> dict[str, Any]:
    mine = [row for row in rows if row["method"] == method]
    head = {"model": model, "shifts": shifts, "graph": AVERAGE, "method": method}
    return head | {
        key: mean([row[key] for row in mine if row[key] is not None])
        for key in ("brier", "nll", "auroc", "ece")
    }


def _bars(model: str, rows: Sequence[Row]) -> list[Comparison]:
    """State what one temperature per node has to reach, averaged over the graphs."""

    def gap(key: str, family: str, other: str, shifts: str = ALL) -> tuple[float, str]:
        """Return the average difference, and on how many graphs it has which sign."""
        gaps = {
            graph: _value(rows, model, shifts, graph, named(PER_NODE, family), key)
            - _value(rows, model, shifts, graph, other, key)
            for graph in dict.fromkeys(row["graph"] for row in rows if row["model"] == model)
        }
        average = gaps.pop(AVERAGE)
        below = sum(value < 0 for value in gaps.values())
        return average, f"below zero on {below} of {len(gaps)} graphs"

    known, unknown = (named(GLOBAL, family) for family in ("known", "unknown"))
    asked = [
        ("known family: Brier against the oracle's", "<= 0", gap("brier", "known", ORACLE)),
        ("known family: NLL against the oracle's", "<= 0", gap("nll", "known", ORACLE)),
        ("known family: AUROC against one temperature", ">= 0", gap("auroc", "known", known)),
        ("unknown family: Brier against one temperature", "<= 0", gap("brier", "unknown", unknown)),
        (
            "unknown family, shifts of a part: AUROC against one temperature",
            ">= 0",
            gap("auroc", "unknown", unknown, PART),
        ),
        ("unknown family: NLL against the oracle's", REPORTED, gap("nll", "unknown", ORACLE)),
        ("known family: ECE against one temperature", REPORTED, gap("ece", "known", known)),
        ("unknown family: ECE against one temperature", REPORTED, gap("ece", "unknown", unknown)),
    ]
    met = {"<= 0": lambda value: value <= 0.0, ">= 0": lambda value: value >= 0.0}
    return [
        Comparison(
            f"{model}, {what}",
            value,
            bar,
            None if bar == REPORTED else bool(met[bar](value)),
            note=note,
        )
        for what, bar, (value, note) in asked
    ]


def _value(
    rows: Sequence[Row], model: str, shifts: str, graph: str, method: str, key: str
) -> float:
    wanted = (model, shifts, graph, method)
    (found,) = (
        row[key]
        for row in rows
        if (row["model"], row["shifts"], row["graph"], row["method"]) == wanted
    )
    return math.nan if found is None else float(found)


COLUMNS: Columns = {
    "graph": ("graph", ""),
    "method": ("method", ""),
    "brier": ("Brier", ".4f"),
    "nll": ("NLL", ".4f"),
    "auroc": ("AUROC", ".4f"),
    "ece": ("ECE", ".4f"),
}
WORDS = (
    "Means over the shifts, then over the graphs. *Brier* is over all classes (0 to 2), *AUROC* is",
    "how often a right node is more confident than a wrong one. Lower Brier, NLL and ECE and",
    "higher AUROC are better. *logits only* is the same model fitted to margin, entropy and the",
    "predicted class alone, the paper's ablation. *Shifts of a part* are heterogeneous noise and",
    "shuffled features, which hit half of the nodes. The oracle has one temperature, from the",
    "target's labels.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: the averages over graphs."""
    narrow = {key: value for key, value in COLUMNS.items() if key != "graph"}
    return {
        f"{model}: {shifts}, average over graphs": texts(
            [
                row
                for row in found.rows
                if (row["model"], row["shifts"], row["graph"]) == (model, shifts, AVERAGE)
            ],
            narrow,
        )
        for model in found.settings["models"]
        for shifts in (ALL, PART)
    }


def render(found: Outcome) -> str:
    """Return the Markdown page: what was asked, the bars, and every row."""
    parts = {
        f"{model}: {shifts}": texts(
            [row for row in found.rows if (row["model"], row["shifts"]) == (model, shifts)],
            COLUMNS,
        )
        for model in found.settings["models"]
        for shifts in (ALL, PART)
    }
    return page(found, "bench per-node", WORDS, parts)


def _draw(figure: Figure, models: Sequence[str], rows: Sequence[Row]) -> None:
    """Draw every graph's Brier score against the oracle's."""
    looks = {
        named(GLOBAL, "unknown"): (style.ORANGE, "^"),
        named(PER_NODE, "unknown"): (style.SKY, "D"),
        named(PER_NODE, "known"): (style.BLUE, "o"),
        STAC_FULL: (style.RED, "s"),
    }
    panels = np.atleast_1d(figure.subplots(1, len(models)))
    for axes, model in zip(panels, models, strict=True):
        mine = [row for row in rows if (row["model"], row["shifts"]) == (model, ALL)]
        best = {row["graph"]: row["brier"] for row in mine if row["method"] == ORACLE}
        axes.axvline(0.0, color=style.GREY, linewidth=0.8)
        for method, (colour, marker) in looks.items():
            chosen = [row for row in mine if row["method"] == method]
            gaps = [row["brier"] - best[row["graph"]] for row in chosen]
            names = [row["graph"] for row in chosen]
            axes.plot(gaps, names, marker, color=colour, label=method)
        axes.set(xlabel="Brier score, less the oracle's", title=model)
        axes.invert_yaxis()
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
