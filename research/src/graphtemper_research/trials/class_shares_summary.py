"""The tables, the bars and the picture of the evaluation of changed class shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, mean, page, skipped, texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, CORRECTED = "report", "estimate"
ESTIMATORS = ("predicted", "BBSE", "RLLS", "EM", "reported", "known shares")
HALF = 0.5
"""The share error that was asked for, relative to the shares of the predictions."""
NO_WORSE = 0.95
"""Share of the cases in which a correction may not raise the ECE."""
NOTICEABLE = 0.005


def outcome(found: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Return one row per case, the bars over pure share shifts, and what the controls got."""
    rows = [row for cell in found for row in case_rows(cell)]
    bars = [
        bar
        for model in dict.fromkeys(row["model"] for row in rows)
        for bar in compare(model, [row for row in rows if row["model"] == model])
    ]
    return Outcome(
        name="class_shares",
        title="Changed class shares",
        settings={
            "models": list(dict.fromkeys(cell["model"] for cell in found)),
            "seeds": list(dict.fromkeys(cell["seed"] for cell in found)),
            "compositions": list(dict.fromkeys(cell["compositions"] for cell in found)),
        },
        comparisons=[*bars, *skipped(missing), *outdated(found)],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(8.0, 3.6),
    )


def case_rows(cell: Cell) -> list[dict[str, Any]]:
    """Return one row per case: share errors, and both answers side by side."""
    rows = []
    for plain, corrected in zip(cell["rows"][::2], cell["rows"][1::2], strict=True):
        facts = ("shift", "strength", "draw", "nodes", "moved", "applied")
        rows.append(
            {key: cell[key] for key in ("model", "graph", "seed")}
            | {key: plain[key] for key in (*facts, *(f"l1 {name}" for name in ESTIMATORS))}
            | {
                f"{key} {word}": row[key]
                for key in ("ece", "accuracy", "estimate", "verdict")
                for word, row in (("before", plain), ("after", corrected))
            }
        )
    return rows


def compare(model: str, rows: Sequence[Row]) -> list[Comparison]:
    """State both bars over one model's pure share shifts, and what has to be known beside them."""
    pure = [row for row in rows if row["shift"] == "none" and row["strength"] > 0.0]
    other = [row for row in rows if row["shift"] != "none"]
    same = [row for row in rows if row["shift"] == "none" and row["strength"] == 0.0]
    used = [row for row in pure if row["applied"]]
    told = [row for row in pure if row["l1 reported"] is not None]
    ratio = _ratio(told)
    fine = 1.0 - len(_worse(pure)) / len(pure)
    spread = ", ".join(f"{name} {_ratio(told, name):.2f}" for name in ESTIMATORS[1:])
    bars = [
        Comparison(
            "share error where shares are reported, over that of predicted shares",
            ratio,
            f"< {HALF}",
            bool(ratio < HALF),
            note=f"{len(told)} of {len(pure)} cases; {spread}",
        ),
        Comparison(
            "the same over all cases, with predicted shares where none are reported",
            _ratio([{**r, "l1 reported": _told(r)} for r in pure]),
            REPORTED,
            None,
        ),
        Comparison(
            "share error where logits are corrected, over that of predicted shares",
            _ratio(used),
            REPORTED,
            None,
            note=f"{len(used)} cases; {_ratio(used, 'known shares'):.2f} with known shares",
        ),
        Comparison(
            "cases in which the ECE is no worse with the correction",
            fine,
            f">= {NO_WORSE}",
            bool(fine >= NO_WORSE),
            note=f"{len(pure)} cases, corrected or not; "
            f"{1.0 - len(_worse(pure, NOTICEABLE)) / len(pure):.3f} but for {NOTICEABLE}",
        ),
        _part("corrected cases in which the ECE is worse", used, _worse(used)),
        _part(f"corrected cases in which it is worse by {NOTICEABLE}", used, _worse(used, 0.005)),
        Comparison(
            "mean ECE of corrected cases",
            _mean(used, "ece after"),
            REPORTED,
            None,
            note=f"{_mean(used, 'ece before'):.4f} without; accuracy "
            f"{_mean(used, 'accuracy before'):.3f} to {_mean(used, 'accuracy after'):.3f}",
        ),
        Comparison(
            "error of the accuracy in corrected cases",
            _error(used, "after"),
            REPORTED,
            None,
            note=f"{_error(used, 'before'):.4f} for the predictions as they were",
        ),
        _part("graphs as they are that were corrected", same, [r for r in same if r["applied"]]),
        _part("controls that were corrected", other, [r for r in other if r["applied"]]),
        _part("controls in which that made the ECE worse", other, _worse(other)),
    ]
    return [
        Comparison(f"{model}: {bar.quantity}", bar.measured, bar.bar, bar.met, note=bar.note)
        for bar in bars
    ]


def _part(what: str, rows: Sequence[Row], some: Sequence[Row]) -> Comparison:
    share = len(some) / len(rows) if rows else float("nan")
    return Comparison(what, share, REPORTED, None, note=f"{len(some)} of {len(rows)}")


def _worse(rows: Sequence[Row], by: float = 0.0) -> list[Row]:
    return [row for row in rows if row["applied"] and row["ece after"] - row["ece before"] > by]


def _ratio(rows: Sequence[Row], name: str = "reported") -> float:
    """Return the mean L1 error of an estimate over that of the predicted shares."""
    if not rows:
        return float("nan")
    return _mean(rows, f"l1 {name}") / max(_mean(rows, "l1 predicted"), 1e-12)


def _told(row: Row) -> float:
    return float(row["l1 predicted"] if row["l1 reported"] is None else row["l1 reported"])


def _mean(rows: Sequence[Row], key: str) -> float:
    found = mean([row[key] for row in rows if row[key] is not None])
    return float("nan") if found is None else found


def _error(rows: Sequence[Row], word: str) -> float:
    gaps = [abs(row[f"estimate {word}"] - row[f"accuracy {word}"]) for row in rows]
    return float(np.mean(gaps)) if gaps else float("nan")


def by(rows: Sequence[Row], name: str, key: Callable[[Row], Any]) -> list[dict[str, Any]]:
    """Return one row per group of cases: share errors, corrections, ECE and accuracy.

    ECE and accuracy are means over the corrected cases alone, before and after.
    """
    lines = []
    for value in dict.fromkeys(key(row) for row in rows):
        mine = [row for row in rows if key(row) == value]
        used = [row for row in mine if row["applied"]]
        told = [row for row in mine if row["l1 reported"] is not None]
        lines.append(
            {name: value, "cases": len(mine), "told": len(told), "applied": len(used)}
            | {key: _or_none(_mean(told, key)) for key in (f"l1 {e}" for e in ESTIMATORS)}
            | {"worse": len(_worse(used))}
            | {
                key: _or_none(_mean(used, key))
                for key in ("ece before", "ece after", "accuracy before", "accuracy after")
            }
        )
    return lines


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


_ERRORS: Columns = {f"l1 {name}": (name, ".3f") for name in ESTIMATORS}
_EFFECT: Columns = {
    "applied": ("corrected", ""),
    "worse": ("worse", ""),
    "ece before": ("ECE before", ".3f"),
    "ece after": ("after", ".3f"),
    "accuracy before": ("accuracy before", ".3f"),
    "accuracy after": ("then", ".3f"),
}
WORDS = (
    "Pure share shifts draw the scored nodes so that their class shares are new: every class's",
    "share is multiplied by exp(strength x a normal number). L1 errors of the shares are means",
    "over the cases in which shares are reported; *known shares* is what is left if the shares are",
    "known and the nodes' classes are not. ECE and accuracy are means over the corrected cases,",
    "*before* being what `recalibrate` answers by default. Controls shift the graph itself, alone",
    "and with new shares: there the assumption behind a correction is false.",
)


def _tables(rows: Sequence[Row]) -> dict[str, list[dict[str, str]]]:
    pure = [row for row in rows if row["shift"] == "none"]
    other = [row for row in rows if row["shift"] != "none"]
    counted: Columns = {"cases": ("cases", ""), "told": ("reported in", "")}
    parts = {
        "graph": by([row for row in pure if row["strength"] > 0.0], "graph", lambda r: r["graph"]),
        "strength": by(pure, "strength", lambda r: r["strength"]),
        "control": by(other, "control", lambda r: f"{r['shift']}, shares {r['strength']:g}"),
    }
    tables = {}
    for name, lines in parts.items():
        first: Columns = {name: (name, "")}
        tables[f"share errors by {name}"] = texts(lines, {**first, **counted, **_ERRORS})
        tables[f"corrections by {name}"] = texts(
            lines, {**first, "cases": ("cases", ""), **_EFFECT}
        )
    return tables


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal: what corrections did, by graph and by strength."""
    parts = _titled(found).items()
    wanted = ("corrections by graph", "corrections by strength")
    return {title: rows for title, rows in parts if title.endswith(wanted)}


def render(found: Outcome) -> str:
    """Return the Markdown page: the bars, then share errors and corrections."""
    return page(found, "bench class-shares", WORDS, _titled(found))


def _titled(found: Outcome) -> dict[str, list[dict[str, str]]]:
    return {
        f"{model}: {title}": lines
        for model in found.settings["models"]
        for title, lines in _tables([r for r in found.rows if r["model"] == model]).items()
    }


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw share errors against those of predicted shares, and ECE with against without."""
    left, right = figure.subplots(1, 2)
    pure = [row for row in rows if row["shift"] == "none" and row["strength"] > 0.0]
    told = [row for row in pure if row["l1 reported"] is not None]
    used = [row for row in pure if row["applied"]]
    pairs = (
        (left, told, "l1 predicted", "l1 reported", "L1 error of predicted shares", "of reported"),
        (right, used, "ece before", "ece after", "ECE without", "ECE with the correction"),
    )
    for axes, some, x, y, across, up in pairs:
        most = max([row[key] for row in some for key in (x, y)], default=1.0)
        axes.plot([0.0, most], [0.0, most], "k:", linewidth=0.8)
        for graph in dict.fromkeys(row["graph"] for row in some):
            mine = [row for row in some if row["graph"] == graph]
            axes.plot([r[x] for r in mine], [r[y] for r in mine], "o", markersize=3, label=graph)
        axes.set(xlabel=across, ylabel=up)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)
