"""Prediction sets in a table: coverage and size by graph, by shift, and under new class shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import betabinom

from graphtemper.calibrators.conformal.sets import Score
from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, mean, page, skipped, texts
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.9
SCORES: tuple[Score, ...] = ("aps", "raps", "daps")
WEIGHTED, TRUE_SHARES = "atlas, estimated shares", "source-T, true shares"
# In the order in which a trial scores them.
METHODS = (SOURCE, ATLAS, WEIGHTED, TRUE_SHARES, ORACLE)
SHARE_TARGETS = ("equal class shares", "reversed class shares")
AVERAGE = "average"
# A coverage below this quantile of its law is not chance.
CHANCE = 0.001


def outcome(found: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Return one row per graph, score and method, their averages, and one row per target."""
    names = list(dict.fromkeys((cell["model"], cell["graph"]) for cell in found))
    rows = [
        _graph_row(
            model, graph, [c for c in found if (c["model"], c["graph"]) == (model, graph)], *key
        )
        for model, graph in names
        for key in _keys()
    ]
    models = list(dict.fromkeys(model for model, _ in names))
    rows += [_average(model, rows, *key) for model in models for key in _keys()]
    targets = [
        row
        for model in models
        for row in _target_rows(model, [cell for cell in found if cell["model"] == model])
    ]
    return Outcome(
        name="sets",
        title="Prediction sets under shift",
        settings={
            "models": models,
            "seeds": sorted({cell["seed"] for cell in found}),
            "compositions": sorted({cell["compositions"] for cell in found}),
            "level": LEVEL,
        },
        comparisons=[
            _within_chance(found),
            *(line for model in models for line in _lines(model, rows)),
            *skipped(missing),
            *outdated(found),
        ],
        rows=[*rows, *targets],
        draw=lambda figure: _draw(figure, targets),
        size=(8.5, 5.2),
    )


def _keys() -> list[tuple[str, str]]:
    return [(kind, method) for kind in SCORES for method in METHODS]


def _graph_row(
    model: str, graph: str, found: Sequence[Cell], kind: str, method: str
) -> dict[str, Any]:
    mine = [row for cell in found for row in cell["rows"] if row["method"] == method]
    still = [row for row in mine if row["target"] == "none"]
    moved = [row for row in mine if row["target"] in SHARE_TARGETS]
    shifted = [row for row in mine if row["target"] not in ("none", *SHARE_TARGETS)]
    covered = [row[f"{kind} coverage"] for row in shifted]
    return {
        "model": model,
        "graph": graph,
        "score": kind,
        "method": method,
        "unshifted": mean([row[f"{kind} coverage"] for row in still]),
        "unshifted size": mean([row[f"{kind} size"] for row in still]),
        "coverage": mean(covered),
        "shortfall": mean([max(LEVEL - value, 0.0) for value in covered]),
        "lowest": min(covered),
        "size": mean([row[f"{kind} size"] for row in shifted]),
        "singletons": mean([row[f"{kind} singletons"] for row in shifted]),
        "moved": mean([row[f"{kind} coverage"] for row in moved]),
        "moved size": mean([row[f"{kind} size"] for row in moved]),
    }


def _average(model: str, rows: Sequence[Row], kind: str, method: str) -> dict[str, Any]:
    named = {"model": model, "graph": AVERAGE, "score": kind, "method": method}
    mine = [row for row in rows if all(row[k] == named[k] for k in ("model", "score", "method"))]
    numbers = [key for key in mine[0] if key not in named]
    found: dict[str, Any] = {key: mean([row[key] for row in mine]) for key in numbers}
    return named | found | {"lowest": min(row["lowest"] for row in mine)}


def _target_rows(model: str, found: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return one row per target and score: the coverage of every method, averaged over graphs."""
    measured = [row for cell in found for row in cell["rows"]]
    targets = dict.fromkeys(row["target"] for row in measured)
    return [
        {"model": model, "target": target, "score": kind}
        | {
            f"{key} {method}": mean(
                [
                    row[f"{kind} {key}"]
                    for row in measured
                    if row["target"] == target and row["method"] == method
                ]
            )
            for method in METHODS
            for key in ("coverage", "size")
        }
        for target in targets
        for kind in SCORES
    ]


def _within_chance(found: Sequence[Cell]) -> Comparison:
    """Count where the unshifted graph, whose nodes are exchangeable, is covered as promised.

    Given n labelled nodes, the number covered of m new ones is beta-binomial with parameters
    m, k = ceil((n + 1) level) and n + 1 - k, or larger.
    """
    rows = [
        row
        for cell in found
        for row in cell["rows"]
        if row["target"] == "none" and row["method"] == SOURCE
    ]
    kept = 0
    for row in rows:
        k = int(np.ceil((row["card_nodes"] + 1) * LEVEL - 1e-9))
        least = float(betabinom.ppf(CHANCE, row["nodes"], k, row["card_nodes"] + 1 - k))
        kept += sum(row[f"{kind} coverage"] * row["nodes"] >= least - 1e-6 for kind in SCORES)
    total = len(rows) * len(SCORES)
    return Comparison(
        "unshifted graphs and scores covered as promised",
        kept,
        f"{total}",
        kept == total,
        note=f"of {total}; not below the {CHANCE:.1%} quantile of the beta-binomial law",
    )


def _lines(model: str, rows: Sequence[Row]) -> list[Comparison]:
    found = []
    for kind in SCORES:
        mine = {
            row["method"]: row
            for row in rows
            if (row["model"], row["graph"], row["score"]) == (model, AVERAGE, kind)
        }
        for method in (SOURCE, ATLAS, WEIGHTED, ORACLE):
            row = mine[method]
            what = f"{model}, {kind.upper()}, {method}: coverage under shift"
            note = (
                f"mean shortfall {row['shortfall']:.3f}, lowest {row['lowest']:.3f}, "
                f"mean size {row['size']:.2f}"
            )
            found.append(Comparison(what, row["coverage"], REPORTED, None, note=note))
        for method in (SOURCE, ATLAS, WEIGHTED, TRUE_SHARES):
            what = f"{model}, {kind.upper()}, {method}: coverage under new class shares"
            note = f"mean size {mine[method]['moved size']:.2f}"
            found.append(Comparison(what, mine[method]["moved"], REPORTED, None, note=note))
    return found


NARROW: Columns = {
    "method": ("method", ""),
    "unshifted": ("still", ".3f"),
    "coverage": ("shifted", ".3f"),
    "shortfall": ("short", ".3f"),
    "lowest": ("lowest", ".3f"),
    "size": ("size", ".2f"),
}
COLUMNS: Columns = {
    "graph": ("graph", ""),
    **NARROW,
    "unshifted size": ("size still", ".2f"),
    "singletons": ("singletons", ".0%"),
    "moved": ("new shares", ".3f"),
    "moved size": ("size, new shares", ".2f"),
}
TARGETS: Columns = {
    "target": ("target", ""),
    **{f"coverage {method}": (method, ".3f") for method in METHODS},
    **{f"size {method}": (f"size {method}", ".2f") for method in (SOURCE, ATLAS, ORACLE)},
}
WORDS = (
    "Sets that were asked to hold the true class with probability 0.9. **Coverage is guaranteed",
    "only under exchangeability**, that is for *still* with source-T: the graph as it is. All else",
    "is measured, not promised. Thresholds come from the source, at the source temperature; at the",
    "target the probabilities are those of the source temperature, of the atlas, or of the oracle,",
    "which sees the target's labels. *Shifted* is the mean coverage over fifteen shifts, *short*",
    "the mean of what is missing to 0.9, *lowest* the worst shift, *size* the mean number of",
    "classes in a set, *singletons* the share of sets with one class. *New shares* is the mean",
    "over two targets whose graph is the source's but whose scored nodes have equal or reversed",
    "class shares. *Estimated shares* weights the thresholds with the class shares that",
    "`recalibrate` reports, where it reports any; *true shares* with those that only the labels",
    "tell. A set is never empty: where a model is right more often than 0.9 its sets cover more.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: the averages of every score."""
    rows = [row for row in found.rows if row.get("graph") == AVERAGE]
    return {
        f"{model}: {kind.upper()}": texts(
            [row for row in rows if (row["model"], row["score"]) == (model, kind)], NARROW
        )
        for model in found.settings["models"]
        for kind in SCORES
    }


def render(found: Outcome) -> str:
    """Return the Markdown page: graph by graph, then target by target, for every score."""
    parts = {}
    for model in found.settings["models"]:
        for kind in SCORES:
            mine = [row for row in found.rows if (row["model"], row["score"]) == (model, kind)]
            graphs = [row for row in mine if "graph" in row]
            targets = [row for row in mine if "target" in row]
            parts[f"{model}, {kind.upper()}: by graph"] = texts(graphs, COLUMNS)
            parts[f"{model}, {kind.upper()}: by target, averaged over graphs"] = texts(
                targets, TARGETS
            )
    return page(found, "bench sets", WORDS, parts)


def _draw(figure: Figure, targets: Sequence[Row]) -> None:
    """Draw coverage and size by target, averaged over graphs, one panel a score."""
    panels = figure.subplots(1, len(SCORES), sharey=True, sharex=True)
    marks = {SOURCE: (style.RED, "s"), ATLAS: (style.BLUE, "o"), ORACLE: (style.GREEN, "^")}
    model = targets[0]["model"]
    for axes, kind in zip(panels, SCORES, strict=True):
        rows = [row for row in targets if (row["model"], row["score"]) == (model, kind)]
        for method, (colour, marker) in marks.items():
            values = [row[f"coverage {method}"] for row in rows]
            axes.plot(values, range(len(rows)), marker, color=colour, label=method, alpha=0.85)
        axes.axvline(LEVEL, color="black", linewidth=0.8, linestyle="--")
        axes.set(xlabel="coverage", title=kind.upper())
        axes.set_yticks(range(len(rows)), [row["target"] for row in rows])
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
