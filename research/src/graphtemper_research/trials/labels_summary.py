"""Labels in a table: one row per pair, averaged over draws, and the bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import Columns, mean, page, skipped, texts
from graphtemper_research.trials.natural_summary import pair_name
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How far above the oracle the mean ECE may be, by the number of labels.
EXCESS = {50: 0.02, 200: 0.01}
COVERAGE = (0.85, 0.97)


def outcome(cells: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Summarise cells: one row per pair, model and seed, and the bars over all of them."""
    rows = [row for cell in cells for row in pair_rows(cell)]
    models = list(dict.fromkeys(row["model"] for row in rows))
    bars = [
        bar
        for model in models
        for count in EXCESS
        for bar in compare(model, count, [row for row in rows if row["model"] == model])
    ]
    return Outcome(
        name="labels",
        title="A few labels under natural shifts",
        settings={
            "models": models,
            "seeds": sorted({cell["seed"] for cell in cells}),
            "compositions": sorted({cell["compositions"] for cell in cells}),
            "pairs": len({(row["source"], row["target"]) for row in rows}),
        },
        comparisons=[*bars, *skipped(missing), *outdated(cells)],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(8.0, 4.0),
    )


def pair_rows(cell: Cell) -> list[dict[str, Any]]:
    """Return one row per target of a cell, means over the draws of its labels."""
    rows = []
    for target in dict.fromkeys(row["target"] for row in cell["rows"]):
        mine = [row for row in cell["rows"] if row["target"] == target]
        once = {row["method"]: row for row in mine}
        found = {key: cell[key] for key in ("group", "model", "seed", "source")}
        found |= {"target": target, "nodes": mine[0]["nodes"], "accuracy": mine[0]["accuracy"]}
        found |= {f"ece {name}": once[name]["ece"] for name in (SOURCE, ATLAS, ORACLE)}
        for count in EXCESS:
            with_atlas = [row for row in mine if row["method"].startswith(f"{count} labels,")]
            alone = [row for row in mine if row["method"].startswith(f"{count} labels alone,")]
            found[f"ece {count}"] = mean([row["ece"] for row in with_atlas])
            found[f"ece {count} alone"] = mean([row["ece"] for row in alone])
            found[f"covered {count}"] = mean(
                [float(row["low"] <= row["accuracy"] <= row["high"]) for row in with_atlas]
            )
            found[f"error {count}"] = mean(
                [abs(row["estimate"] - row["accuracy"]) for row in with_atlas]
            )
        rows.append(found)
    return rows


def compare(model: str, count: int, rows: Sequence[Row]) -> list[Comparison]:
    """State the bars of one number of labels over the pairs of one model."""

    def average(key: str) -> float:
        return float(np.mean([row[key] for row in rows]))

    mine, covered = average(f"ece {count}"), average(f"covered {count}")
    limits = {
        f"oracle-T + {EXCESS[count]}": average(f"ece {ORACLE}") + EXCESS[count],
        "source-T": average(f"ece {SOURCE}"),
        "a temperature fitted on the same labels alone": average(f"ece {count} alone"),
    }
    asked = list(limits) if count == min(EXCESS) else list(limits)[:1]
    bars = [
        Comparison(
            f"{model}: mean ECE with {count} labels, against {name}",
            mine,
            f"<= {limit:.4f}",
            # Many labels need no atlas: beside them its bar is the oracle alone.
            bool(mine <= limit) if name in asked else None,
        )
        for name, limit in limits.items()
    ]
    low, high = COVERAGE
    return [
        *bars,
        Comparison(
            f"{model}: coverage of the 90 % interval with {count} labels",
            covered,
            f"{low} to {high}",
            bool(low <= covered <= high),
            note=f"mean error of the accuracy {average(f'error {count}'):.4f}",
        ),
    ]


_ECE: Columns = {
    f"ece {SOURCE}": ("source", ".3f"),
    f"ece {ATLAS}": ("atlas", ".3f"),
    "ece 50": ("50", ".3f"),
    "ece 50 alone": ("50 alone", ".3f"),
    "ece 200": ("200", ".3f"),
    "ece 200 alone": ("200 alone", ".3f"),
    f"ece {ORACLE}": ("oracle", ".3f"),
    "covered 50": ("held 50", ".0%"),
    "covered 200": ("held 200", ".0%"),
}
NARROW: Columns = {"pair": ("graph", ""), **_ECE}
COLUMNS: Columns = {"source": ("from", ""), "target": ("to", ""), **_ECE}
WORDS = (
    "ECE of the source temperature, of the atlas without labels, of the atlas with 50 and 200",
    "labels, of a temperature fitted on the same labels alone, and of the oracle; means over five",
    "draws of the labelled nodes, which are scored with all others. *held* is how often the 90 %",
    "interval holds the true accuracy. Of a small target at most half is labelled.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: the pairs of every group, and the averages."""
    return _tables(found, NARROW)


def _tables(found: Outcome, columns: Columns) -> dict[str, list[dict[str, str]]]:
    tables = {}
    for model in found.settings["models"]:
        mine = [{**row, "pair": pair_name(row)} for row in found.rows if row["model"] == model]
        groups = list(dict.fromkeys(row["group"] for row in mine))
        for group in groups:
            chosen = [row for row in mine if row["group"] == group]
            tables[f"{model}: {group}"] = texts(chosen, columns)
        averages = [_average(group, mine) for group in (*groups, "all")]
        tables[f"{model}: averages"] = texts(averages, COLUMNS)
    return tables


def _average(group: str, rows: Sequence[Row]) -> dict[str, Any]:
    mine = [row for row in rows if group in (row["group"], "all")]
    words = {"source": group, "target": f"{len(mine)} pairs"}
    return words | {key: mean([row[key] for row in mine]) for key in _ECE}


def render(found: Outcome) -> str:
    """Return the Markdown page: the bars, every pair, and the averages."""
    return page(found, "bench labels", WORDS, _tables(found, COLUMNS))


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw each pair's excess over the oracle without labels, with 50 and with 200."""
    axes = figure.subplots(1, 1)
    steps = {f"ece {SOURCE}": "source-T", f"ece {ATLAS}": "atlas"}
    steps |= {f"ece {count}": f"{count} labels" for count in EXCESS}
    steps |= {f"ece {count} alone": f"{count} labels alone" for count in EXCESS}
    excess = [[row[key] - row[f"ece {ORACLE}"] for row in rows] for key in steps]
    axes.boxplot(excess, showfliers=False, medianprops={"color": style.ORANGE})
    axes.plot(range(1, len(steps) + 1), [np.mean(part) for part in excess], "o", color=style.BLUE)
    axes.set_xticks(range(1, len(steps) + 1), list(steps.values()))
    axes.set(ylabel="ECE above the oracle's", title="all pairs; dots are means")
