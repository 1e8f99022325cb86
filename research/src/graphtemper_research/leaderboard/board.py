"""The leaderboard: every calibrator, estimator and the atlas on every cell, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import shifts
from graphtemper_research.baselines import NOT_RUN
from graphtemper_research.harness import frame, style
from graphtemper_research.harness.cells import Case, Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import REPORTED, Comparison, reported
from graphtemper_research.harness.runner import Bench, Request, Selection, usual_settings
from graphtemper_research.leaderboard.families import FAMILIES
from graphtemper_research.leaderboard.methods import (
    FOLDS,
    MOST_EPOCHS,
    PER_NODE,
    PER_TARGET,
    RETRAINED,
    RETRAINED_MODEL,
    SLOW,
    SOURCE_FITTED,
    UNSEEN,
    UNSEEN_PER_NODE,
    competitors,
)
from graphtemper_research.leaderboard.models import MODELS, USUAL
from graphtemper_research.leaderboard.standings import ALL, LEVEL, table
from graphtemper_research.leaderboard.tasks import (
    BUDGET,
    KNOWN,
    NATURAL,
    ONE_PER_FAMILY,
    UNSHIFTED,
    Task,
    balanced,
    in_cells_apart,
    known,
    measure,
    natural,
)
from graphtemper_research.trials import graph_names, shifted_targets, trial
from graphtemper_research.trials.cases import graphs_of
from graphtemper_research.trials.pairs import Pair, choose
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, TITLE = "leaderboard", "Every calibrator under shift"
FITTED = "source-fitted"
GRAPHS = (
    "county_2012",
    "airport_usa+svd64",
    "villages_1",
    "bugs_activemq_5.0.0",
    "cora+svd64",
    "citeseer+svd64",
)
"""The graphs under known shifts with every model and three seeds: 1,200 to 3,300 nodes."""
FURTHER = (
    "chameleon_filtered+svd64",
    "squirrel_filtered+svd64",
    "amazon_photo+svd64",
    "twitch_de+svd64",
    "pubmed+svd64",
)
"""Heterophilous graphs and graphs of up to 19,700 nodes, with `FEW_MODELS` and one seed."""
FEW_MODELS = ("SIGN", "GCN")
QUICK_GRAPHS, QUICK_MODELS = ("county_2012",), ("SIGN",)
QUICK_SHIFTS = tuple(
    shifted_targets.title(shift)
    for shift in (None, shifts.noise(1.0), shifts.rewire(0.5), shifts.scale(2.5))
)
# Trained in seconds; the others take a minute and more.
QUICK_CALIBRATORS = (
    "VectorScaling",
    "MatrixScaling",
    "Dirichlet",
    "EnsembleTemperature",
    "Isotonic",
    "IsotonicShared",
    "HistogramBinning",
    "RBS",
    "CaGCN",
    "WATS",
)


def cases(
    request: Request,
    *,
    groups: Sequence[str] | None,
    calibrators: Sequence[str] | None,
    retrain: Sequence[str],
    pairs: Sequence[Pair],
) -> Selection:
    """Return the cases of a request; see `bench`."""
    usual = QUICK_MODELS if request.quick else USUAL
    models = trial.check_models(usual if request.models is None else request.models, MODELS)
    chosen = calibrators or (QUICK_CALIBRATORS if request.quick else SOURCE_FITTED)
    # Refuses unknown names before anything is measured.
    competitors(models[0], (*chosen, *retrain))
    apart = tuple(name for name in SLOW if name in chosen or name in retrain)
    chosen = tuple(name for name in chosen if name not in SLOW)
    names, missing = graphs_of(request, GRAPHS, QUICK_GRAPHS)
    titles = QUICK_SHIFTS if request.quick else ONE_PER_FAMILY
    seeds, compositions = request.splits(3), request.compositions
    tasks = known(names, models, seeds, compositions, titles, chosen)
    few = [name for name in models if name in FEW_MODELS] or models
    if request.names is None and not request.quick:
        further, absent = graph_names.present(FURTHER)
        tasks += known(further, few, seeds[:1], compositions, titles, chosen)
        missing = [*missing, *absent]
    if groups is None:
        own = () if request.quick or request.names is not None else pairs
        groups = tuple(dict.fromkeys(pair.group for pair in own))
    if groups:
        here, absent = choose(pairs, groups)
        missing = [*missing, *absent]
        tasks += natural(here, few, seeds[:1], compositions, chosen)
    tasks = balanced(tasks)
    small = [task for task in tasks if task.setting == KNOWN and task.source in names]
    first = [task for task in small if task.seed == seeds[0]]
    linear = [task for task in tasks if task not in small and task.model == few[0]]
    two = [task for task in first if task.source in names[:2]]
    networks = tuple(name for name in apart if name not in RETRAINED and name not in FOLDS)
    folds = tuple(name for name in apart if name in FOLDS)
    # One cell for all networks, and one for each method that retrains: few ask for all of them.
    wanted: list[tuple[tuple[str, ...], list[Task]]] = [
        (networks, small + linear),
        *(((name,), two if name == PER_TARGET else tasks) for name in apart if name in RETRAINED),
        (folds, first),
    ]
    tasks += [task for names, own in wanted for task in in_cells_apart(own, names)]
    found = [Case(task.title, task.head, partial(measure, task)) for task in tasks]
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Rank the methods in every setting, over all models and model by model."""
    cells = joined(cells)
    models = frame.distinct(cells, "model")
    views = [ALL, *models] if len(models) > 1 else models
    settings = [name for name in (KNOWN, NATURAL) if frame.select(cells, setting=name)]
    return [row for setting in settings for view in views for row in table(cells, setting, view)]


def joined(cells: Sequence[Cell]) -> list[Cell]:
    """Return one cell per setting, graph, model and seed, with the rows of all its parts.

    Examples
    --------
    >>> part = {"setting": "known shifts", "graph": "cora", "model": "GCN", "seed": 1}
    >>> [len(cell["rows"]) for cell in joined([part | {"rows": [1]}, part | {"rows": [2, 3]}])]
    [3]
    """
    found: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        key = tuple(cell[name] for name in ("setting", "graph", "model", "seed"))
        rows = [*found[key]["rows"], *cell["rows"]] if key in found else list(cell["rows"])
        found[key] = found.get(key, cell) | {"rows": rows}
    return list(found.values())


def first_view(rows: Sequence[Row], setting: str) -> list[Row]:
    """Return the rows of the first table of a setting: over all models, if there are several."""
    model = frame.select(rows, setting=setting)[0]["model"]
    return frame.select(rows, setting=setting, model=model)


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State the paper's prediction in every setting."""
    return [
        bar
        for setting in frame.distinct(rows, "setting")
        for bar in prediction(first_view(rows, setting), setting)
    ]


def is_fitted(row: Row) -> bool:
    """Say whether a method was fitted at the source and left alone, and is not source-T itself."""
    return str(row["kind"]).startswith(FITTED) and row["method"] != SOURCE


def contradicts(row: Row) -> bool:
    """Say whether a method has less ECE than source-T beyond chance and the number of methods.

    Examples
    --------
    >>> contradicts({"holm": 0.04, "against_source": -0.02}), contradicts({"holm": None})
    (True, False)
    """
    return row["holm"] is not None and row["holm"] <= 1.0 - LEVEL and row["against_source"] < 0.0


def prediction(rows: Sequence[Row], setting: str) -> list[Comparison]:
    """State the paper's prediction: what is fitted at the source fails as source-T does.

    A calibrator contradicts it where it has less ECE than source-T and the difference over graphs,
    corrected for the number of methods, is significant at 10 %.

    Examples
    --------
    >>> row = {"holm": 0.04, "against_source": -0.02, "removed": 0.4, "rank": 2.0}
    >>> row |= {"method": "X", "kind": "source-fitted, node"}
    >>> bars = prediction([row], "known shifts")
    >>> bars[0].measured, bars[0].met, bars[0].note
    (1, False, 'X (-0.020)')
    """
    fitted = [row for row in rows if is_fitted(row)]
    tested = [row for row in fitted if row["holm"] is not None]
    against = [row for row in tested if contradicts(row)]
    found = [
        Comparison(
            f"{setting}: source-fitted calibrators with less ECE than source-T over graphs",
            len(against),
            f"0 of {len(fitted)}",
            not against if tested else None,
            note=", ".join(f"{r['method']} ({r['against_source']:+.3f})" for r in against)
            or ("" if tested else "one graph has no interval"),
        )
    ]
    most = max(fitted, key=lambda row: row["removed"], default=None)
    if most is not None:
        found.append(
            reported(
                f"{setting}: largest share of source-T's excess ECE that one of them removes",
                most["removed"],
                most["method"],
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


def _span(low: str, high: str, spec: str, row: Row) -> str:
    if row[low] is None or row[high] is None:
        return ""
    return f"{row[low]:{spec}} to {row[high]:{spec}}"


_NARROW = (
    Column("method"),
    Column("ece", "ECE", ".4f"),
    Column("against_source", "against source-T", "+.4f"),
    Column("removed", "excess removed", "+.0%"),
    Column("rank", "mean rank", ".1f"),
    Column("nll", "NLL", ".4f", missing="inf"),
)
_METHOD, _ECE, _AGAINST, _REMOVED, _RANK, _NLL = _NARROW
_WIDE = (
    _METHOD,
    Column("kind"),
    _ECE,
    Column(partial(_span, "ece_low", "ece_high", ".4f"), "90 % over seeds"),
    Column("ece_source", "ECE unshifted", ".4f"),
    _AGAINST,
    Column(partial(_span, "against_low", "against_high", "+.4f"), "90 % over graphs"),
    Column("holm", "p (Holm)", ".3f"),
    Column("graphs"),
    Column(lambda row: f"{row['better_cells']} of {row['cells']}", "better in"),
    _REMOVED,
    _RANK,
    _NLL,
    Column("noise_floor", "noise floor", ".4f"),
    Column("classwise_ece", "class-wise ECE", ".4f"),
    Column("brier", "Brier", ".4f"),
    Column("accuracy", spec=".3f"),
    Column("estimate_error", "error of accuracy", ".3f"),
)


def _family(name: str) -> Column:
    return Column(lambda row: row.get(f"ece {name}"), name, ".4f", missing="-")


def _by_family(setting: str, names: Sequence[str]) -> Table:
    """Return the table of a setting's families, over all models."""
    return Table(
        f"{setting}: ECE by family",
        (_METHOD, *(_family(name) for name in names)),
        lambda rows: [row for row in rows if row["setting"] == setting and row["model"] == ALL],
    )


def _title(row: Row) -> str:
    return f"{row['setting']}, {'all models' if row['model'] == ALL else row['model']}"


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    usual = usual_settings(cells, rows)
    drawn, away = (frame.select(joined(cells), setting=name) for name in (KNOWN, NATURAL))
    return {
        "models": usual.pop("models"),
        "graphs": frame.distinct(drawn, "graph"),
        "cells under known shifts": len(drawn),
        "natural sources": frame.distinct(away, "graph"),
        "models under natural shifts": frame.distinct(away, "model"),
        "cells under natural shifts": len(away),
        **usual,
        "shifts": len({*frame.distinct(frame.flat(drawn), "shift")} - {UNSHIFTED}),
        **{
            f"{clock} hours": round(
                sum(cell.get(f"{clock}_seconds", 0) for cell in cells) / 3600, 2
            )
            for clock in ("cpu", "wall")
        },
    }


_COLOURS: Mapping[str, str] = {
    "atlas": style.BLUE,
    "STAC": style.SKY,
    "estimated": style.ORANGE,
    "source-fitted": style.RED,
    "retrained": style.RED,
    "reference": style.GREY,
}


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw every method's ECE, under shift and at home, best on top."""
    settings = frame.distinct(rows, "setting")
    panels = np.atleast_1d(figure.subplots(1, len(settings)))
    for axes, setting in zip(panels, settings, strict=True):
        own = first_view(rows, setting)
        places = range(len(own))
        colours = [_COLOURS[row["kind"].replace(",", " ").split()[0]] for row in own]
        axes.scatter([row["ece"] for row in own], places, color=colours, label="shifted", zorder=3)
        if all(row["ece_source"] is not None for row in own):
            axes.scatter(
                [row["ece_source"] for row in own],
                places,
                facecolors="none",
                edgecolors=colours,
                label="unshifted",
            )
        for name, line in ((SOURCE, "--"), (ORACLE, ":")):
            for row in (row for row in own if row["method"] == name):
                axes.axvline(row["ece"], color=style.GREY, linestyle=line, linewidth=0.8)
        axes.set(xlabel="ECE (dashed: source-T, dotted: oracle)", title=setting)
        axes.set_yticks(list(places), [row["method"] for row in own])
        axes.set_xlim(left=0.0)
        axes.invert_yaxis()
        axes.legend(loc="lower right")


def bench(
    groups: Sequence[str] | None = None,
    calibrators: Sequence[str] | None = None,
    retrain: Sequence[str] = (),
    pairs: Sequence[Pair] = FAMILIES,
) -> Bench:
    """Return the leaderboard.

    Parameters
    ----------
    groups
        Natural families; default all of `families.FAMILIES`, or none where graphs are named.
    calibrators, retrain
        Names of those that are fitted at the source (default all that do not retrain), and of
        those that retrain.
    pairs
        Sources and targets of the groups.
    """
    options: dict[str, Any] = {"groups": groups, "calibrators": calibrators, "retrain": retrain}
    return Bench(
        name=NAME,
        title=TITLE,
        command="bench all",
        introduction=_INTRODUCTION,
        cases=partial(cases, **options, pairs=pairs),
        rows=summarise,
        bars=bars,
        sections=("setting", "model"),
        tables=(
            Table(_title, _WIDE),
            _by_family(KNOWN, ONE_PER_FAMILY),
            _by_family(NATURAL, tuple(dict.fromkeys(pair.group for pair in pairs))),
        ),
        terminal=(Table(_title, _NARROW),),
        draw=_draw,
        size=lambda rows: (4.2 * len(frame.distinct(rows, "setting")) + 2.0, 7.0),
        settings=_settings,
    )


PROTOCOL = (
    "Reductions that make a cell cheap: 64 components instead of sparse features (+svd64); one "
    "strength of each of nine families of known shifts, homophily both ways; cards of "
    f"{BUDGET} forward passes for every model; networks of calibrators train for at most "
    f"{MOST_EPOCHS} epochs, "
    "GETS with its authors' settings where they released some for the graph; "
    "the heterophilous and the larger graphs and natural shifts with "
    f"{' and '.join(FEW_MODELS)} and one seed, and networks there with {FEW_MODELS[0]} alone, "
    "because a cell of theirs takes minutes; networks stopped by folds with one seed of the other "
    "graphs, because folds train four times; methods that retrain the model with the "
    f"{RETRAINED_MODEL}, and {PER_TARGET}, which trains for every target, on two graphs and one "
    "seed; GAT is not among the default backbones, "
    "because of its cost. Not run, "
    "because they train on the target or change the model: " + ", ".join(NOT_RUN) + "."
)
_INTRODUCTION = f"""\
Every method learns from the same labelled nodes of the source (a quarter of them under known
shifts, half under natural ones) and answers on targets without labels; labels of a target only
score. *Uncalibrated* is doing nothing. *ECE*, NLL, Brier and accuracy are means over shifted
targets, then over cells (a cell is a graph, a model and a seed). The *noise floor* is the ECE that
a calibrated model with the same confidences would have by chance on as many nodes: no difference
far below it says much. *Against source-T* is the paired difference of ECE, its mean over graphs,
*excess removed* the fraction of source-T's ECE above the oracle's that is gone (1 is the oracle's
single temperature, negative is worse than source-T). Estimators give the temperature whose mean
confidence is the accuracy they estimate; `AverageConfidence` is source-T by construction.

**What counts as a difference.** The graph is the unit: the cells of a graph are averaged first,
since they are not independent. Intervals are Student's t over graphs, of one method alone; *p
(Holm)* is the two-sided p-value over graphs, corrected by Holm's steps for all methods of the
table, and a conclusion needs one of at most {1 - LEVEL:.1f}. With as few graphs as here, small
differences cannot be significant.

*folds* is a network stopped by folds of the calibration nodes, next to the rule of its authors.
A method that was measured in fewer cells is compared with source-T and the oracle in those alone;
its ECE is not comparable with that of methods in all cells, and it has no rank. A method that
changes predictions is scored by its own. The NLL of a method that was certain and wrong is
infinite. The card of the *atlas* has seen every family of shifts at other strengths and draws;
*family unseen* is the card without the family of the shift at hand.

{PROTOCOL}"""
BENCH = bench()
