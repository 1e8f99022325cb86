"""The leaderboard as tables, bars and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness.cells import Cell, outdated
from graphtemper_research.harness.outcome import Comparison, Outcome, Row
from graphtemper_research.harness.tables import REPORTED, Columns, page, skipped, texts
from graphtemper_research.leaderboard.methods import PER_NODE, UNSEEN, UNSEEN_PER_NODE
from graphtemper_research.leaderboard.standings import ALL, table
from graphtemper_research.leaderboard.tasks import KNOWN, NATURAL, UNSHIFTED
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FITTED = "source-fitted"
NAME, TITLE = "leaderboard", "Every calibrator under shift"


def outcome(cells: Sequence[Cell], missing: Sequence[str] = ()) -> Outcome:
    """Rank the methods in every setting, over all models and model by model."""
    models = list(dict.fromkeys(cell["model"] for cell in cells))
    settings = [name for name in (KNOWN, NATURAL) if any(c["setting"] == name for c in cells)]
    views = [ALL, *models] if len(models) > 1 else models
    rows = [row for name in settings for view in views for row in table(cells, name, view)]
    told = {
        "models": models,
        "graphs": list(dict.fromkeys(c["graph"] for c in cells if c["setting"] == KNOWN)),
        "natural sources": list(
            dict.fromkeys(c["graph"] for c in cells if c["setting"] == NATURAL)
        ),
        "seeds": sorted({cell["seed"] for cell in cells}),
        "compositions": sorted({cell["compositions"] for cell in cells}),
        "shifts": len(
            {r["shift"] for c in cells if c["setting"] == KNOWN for r in c["rows"]} - {UNSHIFTED}
        ),
    }
    bars = [bar for name in settings for bar in prediction(rows_of(rows, name, views[0]), name)]
    return Outcome(
        name=NAME,
        title=TITLE,
        settings=told,
        comparisons=[*bars, *skipped(missing), *outdated(cells)],
        rows=rows,
        draw=lambda figure: _draw(figure, settings, views[0], rows),
        size=(4.2 * len(settings) + 2.0, 7.0),
    )


def rows_of(rows: Sequence[Row], setting: str, model: str) -> list[Row]:
    """Return the rows of one table, in its order."""
    return [row for row in rows if (row["setting"], row["model"]) == (setting, model)]


def is_fitted(row: Row) -> bool:
    """Say whether a method was fitted at the source and left alone, and is not source-T itself."""
    return str(row["kind"]).startswith(FITTED) and row["method"] != SOURCE


def prediction(rows: Sequence[Row], setting: str) -> list[Comparison]:
    """State the paper's prediction: what is fitted at the source fails as source-T does.

    A calibrator contradicts it where its paired difference from source-T, over (graph, model,
    seed), is below zero with its whole 90 % interval.

    Examples
    --------
    >>> row = {"against_low": -0.03, "against_high": -0.01, "against_source": -0.02}
    >>> row |= {"method": "X", "kind": "source-fitted, node", "removed": 0.4, "rank": 2.0}
    >>> found = prediction([row], "known shifts")
    >>> found[0].measured, found[0].met, found[0].note
    (1, False, 'X (-0.020)')
    """
    fitted = [row for row in rows if is_fitted(row)]
    told = [row for row in fitted if row["against_high"] is not None]
    against = [row for row in told if row["against_high"] < 0]
    found = [
        Comparison(
            f"{setting}: source-fitted calibrators with less ECE than source-T, beyond 90 %",
            len(against),
            f"0 of {len(fitted)}",
            not against if told else None,
            note=", ".join(f"{r['method']} ({r['against_source']:+.3f})" for r in against)
            or ("" if told else "one cell has no interval"),
        )
    ]
    most = max(fitted, key=lambda row: row["removed"], default=None)
    if most is not None:
        found.append(
            Comparison(
                f"{setting}: largest share of source-T's excess ECE that one of them removes",
                most["removed"],
                REPORTED,
                None,
                note=most["method"],
            )
        )
    for name in (ATLAS, PER_NODE, UNSEEN, UNSEEN_PER_NODE):
        for row in (row for row in rows if row["method"] == name):
            best = most is not None and row["removed"] > most["removed"]
            found.append(
                Comparison(
                    f"{setting}: share of source-T's excess ECE that the {name} removes",
                    row["removed"],
                    "more than any of them" if most is not None else REPORTED,
                    best if most is not None else None,
                    note=f"mean rank {row['rank']:.1f}",
                )
            )
    return found


COLUMNS: Columns = {
    "method": ("method", ""),
    "kind": ("kind", ""),
    "ece": ("ECE", ".4f"),
    "interval": ("90 % over seeds", ""),
    "ece_source": ("ECE unshifted", ".4f"),
    "against_source": ("against source-T", "+.4f"),
    "paired": ("90 % over cells", ""),
    "better": ("better in", ""),
    "removed": ("excess removed", "+.0%"),
    "rank": ("mean rank", ".1f"),
    "nll": ("NLL", ".4f"),
    "brier": ("Brier", ".4f"),
    "accuracy": ("accuracy", ".3f"),
    "estimate_error": ("error of accuracy", ".3f"),
}
NARROW = ("method", "ece", "against_source", "removed", "rank", "nll")
WORDS = (
    "Every method learns from the same labelled nodes of the source (a quarter of them under known",
    "shifts, half under natural ones) and answers on targets without labels; labels of a target",
    "only score. *ECE*, NLL, Brier and accuracy are means over shifted targets, then over cells (a",
    "cell is a graph, a model and a seed). *Against source-T* is the paired difference of ECE,",
    "*excess removed* the share of source-T's ECE above the oracle's that is gone (1 is the",
    "oracle's single temperature, negative is worse than source-T). Estimators give the",
    "temperature whose mean confidence is the accuracy they estimate; `AverageConfidence` is",
    "source-T by construction. Methods that retrain are left out unless named with `--retrain`. A",
    "method that changes predictions is scored by its own. The NLL of a method that was certain",
    "and wrong is infinite. The card of the *atlas* has seen every family of shifts at other",
    "strengths and draws; *family unseen* is the card without the family of the shift at hand.",
)


def _told(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "interval": _span(row["ece_low"], row["ece_high"], ".4f"),
            "paired": _span(row["against_low"], row["against_high"], "+.4f"),
            "better": f"{row['better_cells']} of {row['cells']}",
        }
        for row in rows
    ]


def _span(low: float | None, high: float | None, spec: str) -> str:
    return "" if low is None or high is None else f"{low:{spec}} to {high:{spec}}"


def _tables(found: Outcome, columns: Columns) -> dict[str, list[dict[str, str]]]:
    titles = dict.fromkeys((row["setting"], row["model"]) for row in found.rows)
    return {
        f"{setting}, {'all models' if model == ALL else model}": texts(
            _told(rows_of(found.rows, setting, model)), columns
        )
        for setting, model in titles
    }


def shown(found: Outcome) -> dict[str, list[dict[str, str]]]:
    """Return titled tables for a terminal."""
    return _tables(found, {key: COLUMNS[key] for key in NARROW})


def render(found: Outcome) -> str:
    """Return the Markdown page: what was asked, the bars, and every table."""
    return page(found, "bench all", WORDS, _tables(found, COLUMNS))


_COLOURS: Mapping[str, str] = {
    "atlas": style.BLUE,
    "STAC": style.SKY,
    "estimated": style.ORANGE,
    "source-fitted": style.RED,
    "retrained": style.RED,
    "reference": style.GREY,
}


def _draw(figure: Figure, settings: Sequence[str], model: str, rows: Sequence[Row]) -> None:
    """Draw every method's ECE, under shift and at home, best on top."""
    panels = np.atleast_1d(figure.subplots(1, len(settings)))
    for axes, setting in zip(panels, settings, strict=True):
        mine = rows_of(rows, setting, model)
        places = range(len(mine))
        colours = [_COLOURS[row["kind"].replace(",", " ").split()[0]] for row in mine]
        axes.scatter([row["ece"] for row in mine], places, color=colours, label="shifted", zorder=3)
        if all(row["ece_source"] is not None for row in mine):
            axes.scatter(
                [row["ece_source"] for row in mine],
                places,
                facecolors="none",
                edgecolors=colours,
                label="unshifted",
            )
        for name, line in ((SOURCE, "--"), (ORACLE, ":")):
            for row in (row for row in mine if row["method"] == name):
                axes.axvline(row["ece"], color=style.GREY, linestyle=line, linewidth=0.8)
        axes.set(xlabel="ECE (dashed: source-T, dotted: oracle)", title=setting)
        axes.set_yticks(list(places), [row["method"] for row in mine])
        axes.set_xlim(left=0.0)
        axes.invert_yaxis()
        axes.legend(loc="lower right")
