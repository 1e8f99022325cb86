"""Sixteen shifts of real graphs, with and without their family in the card.

Half of the labelled nodes train a model, a quarter makes the source card, a quarter is scored
under shifts whose seeds the atlas never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphtemper import Graph, temperature
from graphtemper.shifts import Shift
from graphtemper_research.harness import frame, style
from graphtemper_research.harness.cells import Cell, Show
from graphtemper_research.harness.frame import AVERAGE, Aggregate, Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import (
    Comparison,
    at_least,
    at_most,
    between,
    prefixed,
    reported,
)
from graphtemper_research.harness.runner import COMPOSITIONS, Bench, Request, Selection, per
from graphtemper_research.trials import graph_names, shifted_targets
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.graph_names import SUFFIX
from graphtemper_research.trials.shifted_targets import (
    FEWEST_NODES,
    HOMOPHILY,
    families,
    large_graphs,
    shifted,
    title,
)
from graphtemper_research.trials.trial import (
    ATLAS,
    ORACLE,
    PEERS,
    SOURCE,
    TOLERANCE,
    VERDICTS,
    Answer,
    Indices,
    Source,
    score,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.atlas_cell/4"
QUICK_GRAPHS = ("county_2012", "cora")
SEEDS = 2
GCN_GRAPHS = (
    "airport_usa",
    "citeseer",
    "cora",
    "county_2012",
    "county_2016",
    "imdb_years",
    "squirrel_filtered",
    "twitch_ptbr",
    "twitch_tw",
)
"""The smaller graphs, which are measured with a GCN too, on one split."""
FURTHER = (("GCN", GCN_GRAPHS, 1), ("SIGN", ("cora+svd64", "citeseer+svd64"), SEEDS))
"""What is measured beside SIGN on all graphs: model, graphs and number of splits."""
KNOWN, UNKNOWN = "atlas, known family", "atlas, unknown family"
# What labels of the card's nodes *at the target* would give on the scored nodes. No method without
# labels can expect to do better: the oracle has seen the very nodes that it is scored on.
LABELLED = "labelled quarter"
METHODS = (*PEERS, KNOWN, UNKNOWN, LABELLED, ORACLE)
# Shifts of the homophily are a trial of their own.
OF_HOMOPHILY = ", homophily"


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = COMPOSITIONS,
    *,
    progress: Show | None = None,
) -> Rows:
    """Return one row per shift and method for one split of one graph."""
    source, val, test = Source.of_split(
        graph, model, seed, compositions, progress, fewest_nodes=FEWEST_NODES
    )
    assert graph.labels is not None
    thinner = {family: source.card.without(family) for family in families(_shifts())}
    rows: Rows = []
    for shift, target, draw in shifted(graph, seed, _shifts()):
        answers = source.answers(target, test, draw)
        answers[KNOWN] = answers.pop(ATLAS)
        answers[UNKNOWN] = (
            answers[KNOWN]
            if shift is None
            else source.ask(target, test, draw, thinner[shift.family])
        )
        answers[LABELLED] = informed(source.logits(target, val), graph.labels[val])
        facts = {"shift": title(shift), "card_nodes": source.num_nodes}
        scores = score(source.logits(target, test), graph.labels[test], answers)
        rows += [facts | row for row in scores]
    return rows


def _shifts() -> tuple[Shift | None, ...]:
    return (*shifted_targets.SHIFTS, *HOMOPHILY)


def informed(logits: FloatArray, labels: Indices) -> Answer:
    """Return what labelled nodes of the target say about it: a reference, not a method.

    Examples
    --------
    >>> import numpy as np
    >>> informed(np.array([[0.0, 1.0]] * 4), np.array([1, 1, 1, 0])).accuracy
    0.75
    """
    right = float((logits.argmax(axis=1) == labels).mean())
    return Answer(temperature.solve(logits, labels).temperature, right)


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per trial, graph and method, and the averages over graphs.

    A trial is a model, with features as stored or embedded, under shifts of the homophily or under
    the other ones; each has its own averages and bars.
    """
    keys = ("trial", "graph", "method")
    rows: Rows = []
    for targets in frame.grouped(_compared(cells), "trial").values():
        for part in frame.with_averages(targets, keys, _SUMMARY, _AVERAGE):
            rows += _with_ratios(part)
    return rows


def _compared(cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """Yield every row of every cell with its differences from source-T and oracle-T."""
    keys = ("model", "graph", "seed")
    for facts, methods in frame.by_method(frame.flat(cells, *keys), *keys, "shift"):
        name = facts["model"] + (SUFFIX if facts["graph"].endswith(SUFFIX) else "")
        name += OF_HOMOPHILY if facts["shift"].startswith("homophily") else ""
        for row in methods.values():
            estimate, accuracy = row["estimate"], row["accuracy"]
            excess = row["ece"] - methods[SOURCE]["ece"]
            covered = None if row["low"] is None else row["low"] <= accuracy <= row["high"]
            yield {
                **row,
                "trial": name,
                "error": None if estimate is None else abs(estimate - accuracy),
                "floor": sampling_floor(row),
                "regret": _finite(row["nll"]) - _finite(methods[ORACLE]["nll"]),
                "covered": covered,
                "trusted": covered if row["verdict"] == "trust" else None,
                "excess": excess,
                # A method without verdicts is always trusted.
                "harm": row["verdict"] in ("trust", None) and excess > TOLERANCE,
            }


def _finite(nll: float | None) -> float:
    return math.inf if nll is None else nll


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


def _verdicts(verdict: str) -> Aggregate:
    """Return the frame.aggregate that counts a verdict; None for a method without verdicts."""

    def count(rows: Sequence[Row]) -> int | None:
        verdicts = [row["verdict"] for row in rows]
        return None if None in verdicts else verdicts.count(verdict)

    return count


_SUMMARY: dict[str, Aggregate] = {
    "ece": frame.mean_of("ece"),
    "ece_ratio": lambda rows: None,  # see `_with_ratios`
    "accuracy_error": frame.mean_of("error"),
    "sampling_floor": frame.mean_of("floor"),
    "nll_regret": frame.mean_of("regret"),
    "coverage": frame.mean_of("covered"),
    "trusted_coverage": frame.mean_of("trusted"),
    **{verdict: _verdicts(verdict) for verdict in VERDICTS},
    "harmful": frame.total_of("harm"),
    "worst_excess": frame.extreme_of("excess", max),
}
_AVERAGE: dict[str, Aggregate] = {
    **{key: frame.total_of(key) for key in (*VERDICTS, "harmful")},
    "worst_excess": frame.extreme_of("worst_excess", max),
}


def _with_ratios(rows: Rows) -> Rows:
    """Add the ratio of the mean ECE to the oracle's, so that no small oracle dominates a mean."""
    oracle = {row["graph"]: row["ece"] for row in rows if row["method"] == ORACLE}
    return [row | {"ece_ratio": row["ece"] / max(oracle[row["graph"]], 1e-12)} for row in rows]


_LABELLED = {
    "ECE over oracle's": "ece_ratio",
    "error of the accuracy": "accuracy_error",
    "NLL regret": "nll_regret",
    "harmful trust": "harmful",
}


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State what the atlas of one trial has to reach, and what labels of other nodes reach."""
    (labelled,) = frame.select(rows, method=LABELLED, graph=AVERAGE)
    stated = [reported(what, labelled[key]) for what, key in _LABELLED.items()]
    comparisons = prefixed("labels of the card's nodes at the target: ", stated)
    of_homophily = labelled["trial"].endswith(OF_HOMOPHILY)
    known, unknown = (1.15, 1.25) if of_homophily else (1.05, 1.20)
    for method, limits in ((KNOWN, (known, 0.015, 0.004)), (UNKNOWN, (unknown, 0.03, 0.01))):
        stated = _atlas_bars(frame.select(rows, method=method), method, limits)
        comparisons += prefixed(f"{method.removeprefix('atlas, ')}: ", stated)
    return comparisons


def _atlas_bars(
    rows: Sequence[Row], method: str, limits: tuple[float, float, float]
) -> list[Comparison]:
    *graphs, average = rows
    ratio, error, regret = limits
    floor = f"sampling floor {average['sampling_floor']:.4f}"
    counts = ", ".join(f"{average[verdict]} {verdict}" for verdict in VERDICTS)
    worst = max(graphs, key=lambda row: float(row["ece_ratio"]))
    what = "coverage of the 90 % interval"
    known = method == KNOWN
    return [
        at_most("ECE over oracle's", average["ece_ratio"], ratio),
        *(
            [at_most("ECE over oracle's, worst graph", worst["ece_ratio"], 1.15, worst["graph"])]
            if known
            else []
        ),
        at_most("error of the accuracy", average["accuracy_error"], error, floor),
        at_most("NLL regret", average["nll_regret"], regret),
        at_most("harmful trust", average["harmful"], 0, counts),
        reported(what, average["coverage"])
        if known
        else between(what, average["coverage"], (0.85, 0.97)),
        *_trust_bars(graphs, average),
        reported("most ECE lost to source-T, any verdict", average["worst_excess"]),
    ]


def _trust_bars(graphs: Sequence[Row], average: Row) -> list[Comparison]:
    """State the coverage at `trust`, and that of the graph whose intervals miss most."""
    least = min(graphs, key=lambda row: float(row["coverage"]))
    bars = [reported("coverage, worst graph", least["coverage"], least["graph"])]
    if average["trusted_coverage"] is not None:
        bars.append(at_least("coverage of trusted intervals", average["trusted_coverage"], 0.85))
    return bars


_RATIO = Column("ece_ratio", "ratio", ".2f")
_NARROW = (
    _RATIO,
    Column("accuracy_error", "error", ".3f"),
    Column("sampling_floor", "floor", ".3f"),
    Column("nll_regret", "NLL+", ".4f", missing="inf"),
    Column("coverage", "cover", ".0%"),
    Column(lambda row: row.get("trusted_coverage"), "at trust", ".0%"),
)
_PAGE = Table(
    "{trial}",
    (
        Column("graph"),
        Column("method"),
        Column("ece", "ECE", ".4f"),
        _RATIO,
        Column("accuracy_error", "accuracy error", ".4f"),
        Column("sampling_floor", "floor", ".4f"),
        Column("nll_regret", "NLL regret", ".4f", missing="inf"),
        Column("coverage", spec=".0%"),
        Column(lambda row: row.get("trusted_coverage"), "at trust", ".0%"),
        *(Column(verdict) for verdict in VERDICTS),
        Column("harmful"),
        Column("worst_excess", "worst loss", ".4f"),
    ),
)
_AVERAGES = Table(
    "{trial}: average over graphs",
    (Column("method"), Column("ece", "ECE", ".4f"), *_NARROW),
    lambda rows: frame.select(rows, graph=AVERAGE),
)
_BY_GRAPH = Table(
    "{trial}: {method}",
    (
        Column(lambda row: row["graph"].removesuffix(SUFFIX), "graph"),
        *_NARROW,
        Column(lambda row: "/".join(str(row[verdict]) for verdict in VERDICTS), "t/c/a"),
        Column("harmful", "bad"),
    ),
    lambda rows: [*frame.select(rows, method=KNOWN), *frame.select(rows, method=UNKNOWN)],
)
_INTRODUCTION = f"""\
*ratio* is the mean ECE over the oracle's, *accuracy error* the mean error of the estimated
accuracy, *floor* the error that sampling alone would cause (the card and the scores use
different nodes), *NLL regret* the NLL above the oracle's, *coverage* how often the 90 %
interval contains the true accuracy, overall and *at trust*; then the counts of the verdicts,
*harmful* how often a trusted answer raised the ECE by more than {TOLERANCE} against the source
temperature, and *worst loss* the largest increase by any answer. *{LABELLED}* fits temperature and
accuracy to labels of the card's nodes at the target itself: as good as knowing the shift exactly,
for nodes other than the scored ones."""
_MARKS = {
    SOURCE: (style.RED, "s"),
    "STAC": (style.ORANGE, "^"),
    UNKNOWN: (style.SKY, "D"),
    KNOWN: (style.BLUE, "o"),
    ORACLE: (style.GREY, "|"),
}


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "trials": frame.distinct(rows, "trial"),
        "seeds": frame.distinct(cells, "seed"),
        "compositions": frame.distinct(cells, "compositions"),
        "shifts": len(frame.distinct(frame.flat(cells), "shift")),
    }


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the trials' ECE, graph by graph, and estimated against true accuracy."""
    trials = _drawn(rows)
    *panels, last = figure.subplots(1, len(trials) + 1)
    for axes, name in zip(panels, trials, strict=True):
        own = frame.select(rows, trial=name)
        for method, (colour, marker) in _MARKS.items():
            of_method = frame.select(own, method=method)
            eces, graphs = ([row[key] for row in of_method] for key in ("ece", "graph"))
            axes.plot(eces, graphs, marker, color=colour, label=method, alpha=0.85)
        axes.set(xlabel="mean ECE", title=name)
        axes.yaxis.set_inverted(True)
        axes.set_xlim(left=0.0)
    last.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
    for method in (UNKNOWN, KNOWN):
        targets = frame.select(frame.flat(cells), method=method)
        last.plot(
            [row["accuracy"] for row in targets],
            [row["estimate"] for row in targets],
            ".",
            color=_MARKS[method][0],
            markersize=3,
        )
    last.set(xlabel="true accuracy", ylabel="estimated accuracy", title="every target")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))


def _drawn(rows: Sequence[Row]) -> list[str]:
    return [name for name in frame.distinct(rows, "trial") if not name.endswith(OF_HOMOPHILY)]


def cases(request: Request) -> Selection:
    """Return the cases of a request; where it names nothing, those of the further trials too."""
    own = graph_cases(measure, SCHEMA, large_graphs(), QUICK_GRAPHS, seeds=SEEDS)
    found, missing = own(request)
    if request.names is None and request.models is None and not request.quick:
        for model, names, seeds in FURTHER:
            here, _ = graph_names.present(names)
            further = replace(request, names=here, models=[model], seeds=request.seeds or seeds)
            found += own(further)[0] if here else []
    return list({case.title: case for case in found}.values()), missing


BENCH = Bench(
    name="atlas_bench",
    title="The atlas against other label-free temperatures",
    command="bench atlas",
    introduction=_INTRODUCTION,
    cases=cases,
    rows=summarise,
    bars=per("trial", compare, ", "),
    sections=("trial",),
    tables=(_PAGE,),
    terminal=(_AVERAGES, _BY_GRAPH),
    draw=_draw,
    size=lambda rows: (4.0 * (1 + len(_drawn(rows))), 4.0),
    settings=_settings,
)
