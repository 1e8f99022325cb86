"""Natural shifts in a table: one row per pair, the bars, and where the atlas keeps silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import (
    REPORTED,
    Columns,
    interval,
    mean,
    page,
    skipped,
    texts,
)
from graphtemper_research.trials.trial import ATLAS, METHODS, ORACLE, SOURCE, TOLERANCE, VERDICTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where the verdict is trust, this share of the pairs has to be better than the source temperature.
BETTER_SHARE = 0.8
# Width and error have to be ordered alike at least so much.
RANK_CORRELATION = 0.5
# An abstention is no answer, so it has no colour.
COLOURS = dict(zip(VERDICTS, (style.GREEN, style.ORANGE, style.GREY), strict=True))


def outcome(cells: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Summarise cells: one row per pair, model and seed, and the bars over all of them."""
    rows = [row for cell in cells for row in pair_rows(cell)]
    models = list(dict.fromkeys(row["model"] for row in rows))
    bars = [
        bar
        for model in models
        for bar in compare(model, [row for row in rows if row["model"] == model])
    ]
    return Outcome(
        name="natural_shifts",
        title="The atlas under natural shifts",
        settings={
            "models": models,
            "seeds": sorted({cell["seed"] for cell in cells}),
            "compositions": sorted({cell["compositions"] for cell in cells}),
            "pairs": len({(row["source"], row["target"]) for row in rows}),
        },
        comparisons=[*bars, *skipped(missing), *outdated(cells)],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(8.0, 4.2),
    )


def pair_rows(cell: Cell) -> list[dict[str, Any]]:
    """Return one row per target of a cell: every method's ECE, and what the atlas said."""
    rows = []
    for target in dict.fromkeys(row["target"] for row in cell["rows"]):
        mine = {row["method"]: row for row in cell["rows"] if row["target"] == target}
        atlas = mine[ATLAS]
        rows.append(
            {key: cell[key] for key in ("group", "model", "seed", "source")}
            | {"target": target}
            | {f"ece {method}": mine[method]["ece"] for method in METHODS}
            | {key: atlas[key] for key in ("accuracy", "estimate", "low", "high", "verdict")}
            | {"error": abs(atlas["estimate"] - atlas["accuracy"])}
            | {"half_width": 0.5 * (atlas["high"] - atlas["low"])}
            | {key: atlas[key] for key in ("card_nodes", "nodes")}
        )
    return rows


def compare(model: str, rows: Sequence[Row]) -> list[Comparison]:
    """State the bars over the pairs of one model, and what else has to be known about them."""
    mine, source, oracle = (
        np.array([row[f"ece {method}"] for row in rows]) for method in (ATLAS, SOURCE, ORACLE)
    )
    verdict = np.array([row["verdict"] for row in rows])
    trusted, silent = verdict == "trust", verdict == "abstain"
    fine = source - oracle <= TOLERANCE
    better = float((mine < source)[trusted].mean()) if trusted.any() else float("nan")
    harmful = int((mine - source > TOLERANCE)[trusted].sum())
    covered = [row["low"] <= row["accuracy"] <= row["high"] for row in rows]
    order = rank_correlation([row["half_width"] for row in rows], [row["error"] for row in rows])
    bars = [
        Comparison(
            "mean ECE",
            float(mine.mean()),
            f"<= source-T's {source.mean():.4f}",
            bool(mine.mean() <= source.mean()),
            note=f"oracle-T {oracle.mean():.4f}",
        ),
        Comparison(
            "share of trusted pairs that are better than source-T",
            better,
            f">= {BETTER_SHARE}",
            bool(better >= BETTER_SHARE) if trusted.any() else None,
            note=f"{trusted.sum()} of {len(rows)} are trusted; {harmful} of these are worse than "
            f"source-T by more than {TOLERANCE}",
        ),
        Comparison(
            "rank correlation of interval width and error",
            order,
            f">= {RANK_CORRELATION}",
            None if np.isnan(order) else bool(order >= RANK_CORRELATION),
        ),
        Comparison("share of pairs with abstention", float(silent.mean()), REPORTED, None),
        Comparison(
            "share of pairs with abstention although source-T was fine",
            float((silent & fine).mean()),
            REPORTED,
            None,
            note=f"within {TOLERANCE} of oracle-T; {(silent & fine).sum()} of {silent.sum()} "
            f"abstentions, and source-T was fine in {fine.sum()} of {len(rows)} pairs",
        ),
        Comparison("coverage of the 90 % interval", float(np.mean(covered)), REPORTED, None),
    ]
    for name in VERDICTS:
        errors = [row["error"] for row in rows if row["verdict"] == name]
        if errors:
            what = f"error of the accuracy where the verdict is {name}"
            note = f"{len(errors)} of {len(rows)}"
            bars.append(Comparison(what, float(np.mean(errors)), REPORTED, None, note=note))
    return [_named(model, bar) for bar in bars]


def _named(model: str, bar: Comparison) -> Comparison:
    return Comparison(f"{model}: {bar.quantity}", bar.measured, bar.bar, bar.met, note=bar.note)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation; not a number where either is constant or too short.

    Examples
    --------
    >>> round(rank_correlation([0.1, 0.2, 0.4], [0.01, 0.05, 0.02]), 3)
    0.5
    >>> rank_correlation([0.1, 0.1, 0.1], [0.01, 0.05, 0.02])
    nan
    """
    from scipy.stats import spearmanr

    if len(one) < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return float("nan")
    return float(spearmanr(one, other).statistic)


def group_means(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the averages of every group of one model's pairs, and of all of them."""
    found = []
    for group in (*dict.fromkeys(row["group"] for row in rows), "all"):
        mine = [row for row in rows if group in (row["group"], "all")]
        counts = [sum(row["verdict"] == name for row in mine) for name in VERDICTS]
        keys = [*(f"ece {method}" for method in METHODS), "error", "half_width"]
        found.append(
            {"group": group, "pairs": len(mine)}
            | {key: mean([row[key] for row in mine]) for key in keys}
            | {"verdicts": "/".join(map(str, counts))}
        )
    return found


_ECE: Columns = {
    f"ece {SOURCE}": ("source", ".3f"),
    f"ece {ATLAS}": ("atlas", ".3f"),
    f"ece {ORACLE}": ("oracle", ".3f"),
}
# A terminal of 80 columns has no room for the uncalibrated model.
_PAIRS: Columns = {
    **_ECE,
    "accuracy": ("true", ".2f"),
    "estimate": ("said", ".2f"),
    "interval": ("interval", ""),
    "verdict": ("verdict", ""),
}
NARROW: Columns = {"pair": ("graph", ""), **_PAIRS}
COLUMNS: Columns = {
    "source": ("from", ""),
    "target": ("to", ""),
    "ece uncalibrated": ("plain", ".3f"),
    **_PAIRS,
}
AVERAGES: Columns = {
    "group": ("group", ""),
    "pairs": ("pairs", ""),
    "ece uncalibrated": ("plain", ".3f"),
    **_ECE,
    "error": ("error", ".3f"),
    "half_width": ("half", ".3f"),
    "verdicts": ("t/c/a", ""),
}
WORDS = (
    "ECE of the uncalibrated model (*plain*), of the source temperature, of the atlas and of the",
    "oracle; then the true accuracy, what the atlas *said*, its 90 % interval, and the verdict.",
    "In the averages *error* is that of the accuracy and *half* the interval's half-width.",
    "These are shifts of concept and of class shares as well: an unlabelled graph often does not",
    "show them, and abstention is the right answer to many.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: the pairs of every group, and the averages."""
    return _tables(found, NARROW)


def render(found: Outcome) -> str:
    """Return the Markdown page: the bars, every pair, and the averages."""
    return page(found, "bench natural", WORDS, _tables(found, COLUMNS))


def _tables(found: Outcome, columns: Columns) -> dict[str, list[dict[str, str]]]:
    tables = {}
    for model in found.settings["models"]:
        mine = [_named_pair(row) for row in found.rows if row["model"] == model]
        for group in dict.fromkeys(row["group"] for row in mine):
            chosen = [row for row in mine if row["group"] == group]
            tables[f"{model}: {group}"] = texts(chosen, columns)
        tables[f"{model}: averages"] = texts(group_means(mine), AVERAGES)
    return tables


def _named_pair(row: Row) -> dict[str, Any]:
    """Add the interval in words, and the pair's short name."""
    return {**interval(row), "pair": pair_name(row)}


def pair_name(row: Row) -> str:
    """Return a pair by what tells the graphs of its group apart."""
    names = []
    for name in (row["source"], row["target"]):
        short = "later" if name.endswith(", later") else name.removesuffix("_years")
        for prefix in ("twitch_", "airport_", "county_"):
            short = short.removeprefix(prefix)
        names.append(short)
    return "->".join(names)


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw the atlas against the source temperature, and the interval's width against the error."""
    left, right = figure.subplots(1, 2)
    for verdict, colour in COLOURS.items():
        mine = [row for row in rows if row["verdict"] == verdict]
        named = {"color": colour, "label": verdict, "alpha": 0.8}
        left.plot(
            [row[f"ece {SOURCE}"] for row in mine],
            [row[f"ece {ATLAS}"] for row in mine],
            "o",
            **named,
        )
        right.plot(
            [row["half_width"] for row in mine], [row["error"] for row in mine], "o", **named
        )
    largest = max(row[f"ece {method}"] for row in rows for method in (SOURCE, ATLAS))
    left.plot([0, largest], [0, largest], color=style.GREY, linewidth=0.8)
    left.set(xlabel="ECE of source-T", ylabel="ECE of the atlas", title="every pair")
    widest = max(row["half_width"] for row in rows)
    right.plot([0, widest], [0, widest], color=style.GREY, linewidth=0.8)
    right.set(
        xlabel="half-width of the interval",
        ylabel="error of the accuracy",
        title="below the line, the interval holds the truth",
    )
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
