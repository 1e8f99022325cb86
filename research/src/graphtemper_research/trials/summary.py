"""Known shifts in a table: one row per graph and method, the averages, the bars, the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, mean, page, texts
from graphtemper_research.trials.graph_names import SUFFIX
from graphtemper_research.trials.trial import ORACLE, PEERS, SOURCE, TOLERANCE, VERDICTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN, UNKNOWN = "atlas, known family", "atlas, unknown family"
# What labels of the card's nodes *at the target* would give on the scored nodes. No method without
# labels can expect to do better: the oracle has seen the very nodes that it is scored on.
LABELLED = "labelled quarter"
METHODS = (*PEERS, KNOWN, UNKNOWN, LABELLED, ORACLE)
AVERAGE = "average"


def outcome(cells: Sequence[Cell]) -> Outcome:
    """Summarise cells: one row per graph and method, then the average over graphs.

    Models, and features as stored or embedded, are trials of their own: each has its own average
    and its own bars.
    """
    rows = []
    trials = list(dict.fromkeys(_trial(cell) for cell in cells))
    for trial in trials:
        mine = [cell for cell in cells if _trial(cell) == trial]
        names = list(dict.fromkeys(cell["graph"] for cell in mine))
        per_graph = [
            summarise(method, name, trial, [cell for cell in mine if cell["graph"] == name])
            for name in names
            for method in METHODS
        ]
        rows += per_graph + [_average(method, trial, per_graph) for method in METHODS]
    settings = {
        "trials": trials,
        "seeds": sorted({cell["seed"] for cell in cells}),
        "compositions": sorted({cell["compositions"] for cell in cells}),
        "shifts": len({row["shift"] for cell in cells for row in cell["rows"]}),
    }
    return Outcome(
        name="atlas_bench",
        title="The atlas against other label-free temperatures",
        settings=settings,
        comparisons=[*(bar for trial in trials for bar in _bars(trial, rows)), *outdated(cells)],
        rows=rows,
        draw=lambda figure: _draw(figure, cells, rows),
        size=(4.0 * (1 + len(trials)), 4.0),
    )


def _trial(cell: Cell) -> str:
    return str(cell["model"]) + (SUFFIX if cell["graph"].endswith(SUFFIX) else "")


def summarise(method: str, graph: str, trial: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Summarise one method on one graph, over shifts and seeds.

    ``harmful`` counts the targets where the verdict was `trust` (a method without verdicts is
    always trusted) and the ECE was worse than with the source temperature by more than
    `TOLERANCE`; ``worst_excess`` is the largest such difference whatever the verdict.
    """
    triples = [triple for cell in cells for triple in _aligned(cell, method)]
    mine = [own for own, _, _ in triples]
    judged = all(row["verdict"] is not None for row in mine)
    excess = [(own["verdict"], own["ece"] - source["ece"]) for own, source, _ in triples]
    estimated = [row for row in mine if row["estimate"] is not None]
    bounded = [row for row in estimated if row["low"] is not None]
    ece, oracle = (float(np.mean([triple[i]["ece"] for triple in triples])) for i in (0, 2))
    return {
        "trial": trial,
        "graph": graph,
        "method": method,
        "ece": ece,
        "ece_ratio": ece / max(oracle, 1e-12),
        "accuracy_error": mean([abs(row["estimate"] - row["accuracy"]) for row in estimated]),
        "sampling_floor": float(np.mean([sampling_floor(row) for row in mine])),
        "nll_regret": mean(
            [_finite(own["nll"]) - _finite(best["nll"]) for own, _, best in triples]
        ),
        "coverage": mean([row["low"] <= row["accuracy"] <= row["high"] for row in bounded]),
        **{
            verdict: sum(found == verdict for found, _ in excess) if judged else None
            for verdict in VERDICTS
        },
        "harmful": sum(v in ("trust", None) and gap > TOLERANCE for v, gap in excess),
        "worst_excess": max(gap for _, gap in excess),
    }


def sampling_floor(row: Row) -> float:
    r"""Return the accuracy error that remains when nothing but sampling is wrong.

    .. math:: \sqrt{2/\pi}\,\sqrt{a(1-a)\,(1/n_{card} + 1/n_{scored})}

    The mean absolute error of an estimator that knows exactly how the population's accuracy
    answers to the shift: it starts from an accuracy measured on the card's nodes and is compared
    with one measured on the scored nodes, which are other nodes. Assumes independent nodes and the
    accuracy a at both. Reading the scored nodes one by one could gain a little on it, as nodes of
    known difficulty vary less; a mean error far below it is luck.

    Examples
    --------
    >>> round(sampling_floor({"accuracy": 0.8, "card_nodes": 1000, "nodes": 1000}), 4)
    0.0143
    """
    spread = row["accuracy"] * (1.0 - row["accuracy"])
    variance = spread * (1.0 / row["card_nodes"] + 1.0 / row["nodes"])
    return math.sqrt(2.0 / math.pi * variance)


def _aligned(cell: Cell, method: str) -> Iterator[tuple[Row, Row, Row]]:
    """Yield, shift by shift, a method's row with those of source-T and oracle-T."""
    wanted = (method, SOURCE, ORACLE)
    yield from zip(
        *([row for row in cell["rows"] if row["method"] == name] for name in wanted), strict=True
    )


def _average(method: str, trial: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average over graphs; the ratio is that of the averages, so no small oracle dominates it."""
    mine = [row for row in rows if row["method"] == method]
    oracle = mean([row["ece"] for row in rows if row["method"] == ORACLE])
    assert oracle is not None
    means = {
        key: mean([row[key] for row in mine if row[key] is not None])
        for key in ("ece", "accuracy_error", "sampling_floor", "nll_regret", "coverage")
    }
    assert means["ece"] is not None
    counts = {
        key: sum(row[key] for row in mine) if all(row[key] is not None for row in mine) else None
        for key in (*VERDICTS, "harmful")
    }
    found = {
        "ece_ratio": means["ece"] / max(oracle, 1e-12),
        "worst_excess": max(row["worst_excess"] for row in mine),
    }
    values = {"trial": trial, "graph": AVERAGE, "method": method} | means | counts | found
    return {key: values[key] for key in mine[0]}


def _finite(nll: float | None) -> float:
    return math.inf if nll is None else nll


def _bars(trial: str, rows: Sequence[Row]) -> list[Comparison]:
    """State what the atlas has to reach, and what labels of other nodes would reach."""
    (labelled,) = (
        row
        for row in rows
        if (row["trial"], row["method"], row["graph"]) == (trial, LABELLED, AVERAGE)
    )
    bars = [
        Comparison(
            f"{trial}, labels of the card's nodes at the target: {what}",
            labelled[key],
            REPORTED,
            None,
        )
        for what, key in (
            ("ECE over oracle's", "ece_ratio"),
            ("error of the accuracy", "accuracy_error"),
            ("NLL regret", "nll_regret"),
            ("harmful trust", "harmful"),
        )
    ]
    for method, ratio, error, regret in (
        (KNOWN, 1.05, 0.015, 0.004),
        (UNKNOWN, 1.20, 0.03, 0.01),
    ):
        *mine, average = (row for row in rows if (row["trial"], row["method"]) == (trial, method))
        name = f"{trial}, {method.removeprefix('atlas, ')}"
        floor = f"sampling floor {average['sampling_floor']:.4f}"
        pairs = [
            ("ECE over oracle's", average["ece_ratio"], ratio, ""),
            ("error of the accuracy", average["accuracy_error"], error, floor),
            ("NLL regret", average["nll_regret"], regret, ""),
            ("harmful trust", average["harmful"], 0, _verdicts(average)),
        ]
        if method == KNOWN:
            worst = max(mine, key=lambda row: float(row["ece_ratio"]))
            where = ("ECE over oracle's, worst graph", worst["ece_ratio"], 1.15, worst["graph"])
            pairs.insert(1, where)
        bars += [
            Comparison(f"{name}: {what}", value, f"<= {bar:g}", bool(value <= bar), note=note)
            for what, value, bar, note in pairs
        ]
        covered = average["coverage"]
        wide = None if method == KNOWN else bool(0.85 <= covered <= 0.97)
        what = f"{name}: coverage of the 90 % interval"
        bars.append(Comparison(what, covered, REPORTED if wide is None else "0.85 to 0.97", wide))
        what = f"{name}: most ECE lost to source-T, any verdict"
        bars.append(Comparison(what, average["worst_excess"], REPORTED, None))
    return bars


def _verdicts(row: Row) -> str:
    """Return the counts of the verdicts in a sentence."""
    return ", ".join(f"{row[verdict]} {verdict}" for verdict in VERDICTS)


COLUMNS: Columns = {
    "graph": ("graph", ""),
    "method": ("method", ""),
    "ece": ("ECE", ".4f"),
    "ece_ratio": ("ratio", ".2f"),
    "accuracy_error": ("acc err", ".4f"),
    "sampling_floor": ("floor", ".4f"),
    "nll_regret": ("NLL+", ".4f"),
    "coverage": ("cover", ".0%"),
    "trust": ("trust", ""),
    "caution": ("caution", ""),
    "abstain": ("abstain", ""),
    "harmful": ("bad", ""),
    "worst_excess": ("lost", ".4f"),
}
# A terminal of 80 columns has room for less.
NARROW: Columns = {
    "ece_ratio": ("ratio", ".2f"),
    "accuracy_error": ("error", ".3f"),
    "sampling_floor": ("floor", ".3f"),
    "nll_regret": ("NLL+", ".4f"),
    "coverage": ("cover", ".0%"),
}
WORDS = (
    "*ratio* is mean ECE over the oracle's, *acc err* the mean error of the estimated accuracy,",
    "*floor* what that error would be from sampling alone (card and scored nodes are other nodes),",
    "*NLL+* the regret against the oracle, *cover* how often the 90 % interval holds the truth;",
    "then the counts of the verdicts, *bad* how often a trusted answer cost more than",
    f"{TOLERANCE} ECE against the source temperature, and *lost* the most that any answer cost.",
    f"*{LABELLED}* knows the labels of the card's nodes at the target itself and fits temperature",
    "and accuracy on them: as good as knowing the shift exactly, for nodes other than the scored.",
)


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: the averages, and the atlas graph by graph."""
    tables = {}
    for trial in found.settings["trials"]:
        mine = [row for row in found.rows if row["trial"] == trial]
        columns: Columns = {"method": ("method", ""), "ece": ("ECE", ".4f"), **NARROW}
        averages = [row for row in mine if row["graph"] == AVERAGE]
        tables[f"{trial}: average over graphs"] = texts(averages, columns)
        for method in (KNOWN, UNKNOWN):
            chosen = [row for row in mine if row["method"] == method]
            tables[f"{trial}: {method}"] = _graph_by_graph(chosen)
    return tables


def _graph_by_graph(rows: Sequence[Row]) -> list[dict[str, str]]:
    chosen = [
        {**row, "verdicts": "/".join(str(row[verdict]) for verdict in VERDICTS)}
        | {"graph": row["graph"].removesuffix(SUFFIX)}
        for row in rows
    ]
    last: Columns = {"verdicts": ("t/c/a", ""), "harmful": ("bad", "")}
    return texts(chosen, {"graph": ("graph", ""), **NARROW, **last})


def render(found: Outcome) -> str:
    """Return the Markdown page: what was asked, the bars, and every row."""
    parts = {
        trial: texts([row for row in found.rows if row["trial"] == trial], COLUMNS)
        for trial in found.settings["trials"]
    }
    return page(found, "bench atlas", WORDS, parts)


def _draw(figure: Figure, cells: Sequence[Cell], rows: Sequence[Row]) -> None:
    """Draw every trial's ECE, graph by graph, and estimated against true accuracy."""
    shown = {
        SOURCE: (style.RED, "s"),
        "STAC": (style.ORANGE, "^"),
        UNKNOWN: (style.SKY, "D"),
        KNOWN: (style.BLUE, "o"),
        ORACLE: (style.GREY, "|"),
    }
    trials = list(dict.fromkeys(row["trial"] for row in rows))
    *panels, last = figure.subplots(1, len(trials) + 1)
    for axes, trial in zip(panels, trials, strict=True):
        for method, (colour, marker) in shown.items():
            mine = [row for row in rows if (row["trial"], row["method"]) == (trial, method)]
            names = [row["graph"] for row in mine]
            axes.plot([row["ece"] for row in mine], names, marker, color=colour, label=method)
        axes.set(xlabel="mean ECE", title=trial)
        axes.set_xlim(left=0.0)
        axes.invert_yaxis()
    last.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
    for method in (UNKNOWN, KNOWN):
        chosen = [row for cell in cells for row in cell["rows"] if row["method"] == method]
        last.plot(
            [row["accuracy"] for row in chosen],
            [row["estimate"] for row in chosen],
            ".",
            color=shown[method][0],
            markersize=3,
        )
    last.set(xlabel="true accuracy", ylabel="estimated accuracy", title="every target")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
