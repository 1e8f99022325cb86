"""Labelled environments under natural shifts: leave one out, learn from the others.

Half of a source's labelled nodes train a model and half make the card. Each other environment of
the family is the target once, without labels; the card then holds all other environments, or one
of them, or none. In families with an order in time it also holds those before the target only.
A family is the unit: results are means of families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import errors
from graphtemper.recalibration.report import style
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_most, between, reported
from graphtemper_research.harness.runner import Bench, Request, Selection, per
from graphtemper_research.trials import graph_names, natural_constants
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import (
    ALL,
    BASELINES,
    GAP,
    LATEST,
    NONE,
    ONE,
    PAST,
    PAST_LATEST,
    POISONED,
    POOLED,
    UNCALIBRATED,
    measure,
    methods,
)
from graphtemper_research.trials.trial import ORACLE, SOURCE, TOLERANCE, scored

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.natural_cell/5"
# Largest mean ECE, error of the accuracy and share of pairs that are harmed; coverage.
LIMITS = {ALL: 0.075, ONE: 0.090}
ERROR, HARMED, COVERAGE = 0.06, 0.08, (0.85, 0.97)
LEFT_OUT = "constants left out"
QUICK_FAMILIES = ("airports", "villages")
# Sources of a family, spread evenly over its list; every other graph of the family is a target.
MOST_SOURCES = 3


def cases(families: Sequence[Family], request: Request) -> Selection:
    """Return a case for every model, source and split of a request whose names are families."""
    known = [family.name for family in families]
    names = request.names
    if names is None and request.quick:
        names = [name for name in known if name in QUICK_FAMILIES] or known
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise errors.choice(f"unknown family {unknown[0]!r}; choose from {', '.join(known)}.")
    found, missing, size = [], [], request.compositions
    for family in families:
        if names is not None and family.name not in names:
            continue
        here, absent = graph_names.present(family.graphs)
        missing += absent
        if len(here) < 2:
            continue
        own = replace(family, graphs=tuple(here))
        for model, source, seed in product(models_of(request), sources(here), request.splits()):
            stem = short(source)
            head: dict[str, Any] = {"schema": SCHEMA, "family": family.name, "source": stem}
            head |= {"model": model, "seed": seed, "compositions": size, "graphs": len(here)}
            expected = [
                {"target": short(target), "method": method}
                for target in here
                if target != source
                for method in methods(len(here) > 2, bool(own.history(source, target)))
            ]
            work = partial(measure, own, source, model, seed, size)
            found.append(Case(f"{stem}-{model}-{seed}", head, work, expected, scored))
    return found, missing


def sources(graphs: Sequence[str]) -> list[str]:
    """Return at most three graphs of a family, spread evenly.

    Examples
    --------
    >>> sources("abcdefg"), sources("ab")
    (['a', 'd', 'g'], ['a', 'b'])
    """
    count = min(len(graphs), MOST_SOURCES)
    return [graphs[round(place)] for place in np.linspace(0, len(graphs) - 1, count)]


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: every method's ECE, errors and coverage."""
    keys = ("family", "model", "seed", "source")
    rows, chosen = [], natural_constants.left_out(cells)
    for facts, found in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        if ALL not in found:  # no third environment to learn from
            continue
        row = facts | frame.pick(found[ALL], "accuracy", "nodes", "verdict")
        pair = tuple(facts[name] for name in ("model", "seed", "source", "target"))
        row[f"ece {LEFT_OUT}"] = chosen[pair]
        for method in (*BASELINES, ONE, ALL, POISONED, PAST_LATEST, PAST, ORACLE):
            row[f"ece {method}"] = found[method]["ece"] if method in found else None
        for method in (NONE, ONE, ALL, POISONED):
            row |= _quality(found[method], method)
        rows.append(row)
    if not rows:
        raise errors.empty(
            "no page on environments: it needs a family of at least three graphs, a source, a "
            "target and one to learn from."
        )
    return rows


def _quality(found: Row, method: str) -> dict[str, float]:
    return {
        f"error {method}": abs(found["estimate"] - found["accuracy"]),
        f"held {method}": _held(found),
        f"half {method}": 0.5 * (found["high"] - found["low"]),
    }


def _held(found: Row) -> float:
    return float(found["low"] <= found["accuracy"] <= found["high"])


def family_means(rows: Sequence[Row]) -> Rows:
    """Return the means of every family's pairs, and the means of the families."""
    numbers = [
        key for key in rows[0] if key.split(" ")[0] in ("ece", "nll", "error", "held", "half")
    ]
    means = []
    for family in frame.distinct(rows, "family"):
        own = frame.select(rows, family=family)
        means.append(
            {"model": rows[0]["model"], "family": family, "pairs": len(own)}
            | {key: _average(own, key) for key in numbers}
        )
    total = {key: _average(means, key) for key in numbers}
    everything = {"model": rows[0]["model"], "family": "mean of families", "pairs": len(rows)}
    return [*means, everything | total]


def most_measured(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of the model with the most pairs, which a picture shows."""
    models = frame.distinct(rows, "model")
    return max(([row for row in rows if row["model"] == model] for model in models), key=len)


def _average(rows: Sequence[Row], key: str) -> float | None:
    return frame.mean([row[key] for row in rows if row[key] is not None])


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars on means of families."""
    *families, means = family_means(rows)
    best = min(means[f"ece {name}"] for name in BASELINES)
    bars = [
        at_most(f"mean ECE with {name}", means[f"ece {name}"], limit)
        for name, limit in LIMITS.items()
    ]
    bars += [
        at_most(
            "mean ECE with all environments, against the best baseline",
            means[f"ece {ALL}"],
            best,
            ", ".join(f"{name} {means[f'ece {name}']:.4f}" for name in (*BASELINES, ORACLE)),
            bar=f"<= {best:.4f}",
        ),
        *(_harm(rows, method) for method in (ALL, GAP)),
        at_most("error of the accuracy with all environments", means[f"error {ALL}"], ERROR),
        *(
            between(f"coverage of the 90 % interval with {name}", means[f"held {name}"], COVERAGE)
            for name in (ONE, ALL)
        ),
    ]
    bars += [
        reported("mean ECE with constants chosen on the other families", means[f"ece {LEFT_OUT}"]),
        reported("mean ECE if one environment has wrong labels", means[f"ece {POISONED}"]),
        reported("coverage if one environment has wrong labels", means[f"held {POISONED}"]),
    ]
    for row in families:
        if row[f"ece {PAST}"] is not None:
            own = [item for item in rows if item["family"] == row["family"]]
            own = [item for item in own if item[f"ece {PAST}"] is not None]
            bars += _in_time(row["family"], own)
    return bars


def _harm(rows: Sequence[Row], method: str) -> Comparison:
    worse = [row[f"ece {method}"] > row[f"ece {SOURCE}"] + TOLERANCE for row in rows]
    quantity = f"share of pairs that {method} makes worse by more than {TOLERANCE}"
    share = float(np.mean(worse))
    return at_most(quantity, share, HARMED) if method == ALL else reported(quantity, share)


def _in_time(family: str, rows: Sequence[Row]) -> list[Comparison]:
    ece = frame.average(rows, f"ece {PAST}")
    return [
        at_most(
            f"{family}: mean ECE with past environments, against {name}",
            ece,
            frame.average(rows, f"ece {name}"),
            f"{len(rows)} pairs",
        )
        for name in (SOURCE, PAST_LATEST)
    ]


_VALUES = (
    Column(lambda row: row.get(f"ece {UNCALIBRATED}"), "plain", ".3f", missing="-"),
    *(
        Column(f"ece {name}", heading, ".3f", missing="-")
        for name, heading in (
            (SOURCE, "source"),
            (LATEST, "latest"),
            (POOLED, "pooled"),
            (GAP, "gap"),
            (NONE, "none"),
            (ONE, "one"),
            (ALL, "all"),
            (LEFT_OUT, "left out"),
            (POISONED, "wrong"),
            (PAST, "past"),
            (ORACLE, "oracle"),
        )
    ),
)
_MEANS = Table(
    "{model}: means of families",
    (
        Column("family"),
        Column("pairs"),
        *_VALUES,
        Column(f"error {NONE}", "error none", ".3f"),
        Column(f"error {ALL}", "error all", ".3f"),
        Column(f"held {ONE}", "held one", ".0%"),
        Column(f"held {ALL}", "held all", ".0%"),
        Column(f"half {ALL}", "half all", ".3f"),
    ),
    family_means,
)
_PAIRS = Table("{model}: {family}", (Column("source", "from"), Column("target", "to"), *_VALUES))
_INTRODUCTION = """\
ECE of the uncalibrated model (*plain*: T = 1), the source temperature, the temperature of the
*latest* other environment (the last of its list), that of all others *pooled*, mean confidence
corrected by the mean *gap* of the others, the card with *none*, *one* (random) and *all* of the
other environments, with those before the target only (*past*; where the family has an order in
time), and the oracle. *pooled* and *gap* see the same environments as *all*. *error* is that of the
accuracy, *held* how often the 90 % interval contains it, *half* its half-width; *left out* has all
others, with the constants of the random effects chosen on the other families from a grid; *wrong*
has all others, one of them with every label that of the next class. The family is the unit: bars
are on means of families. At most three sources of a family, spread evenly over its list, are
trained on, and at most 3,000 nodes of an environment are measured."""


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw ECE by method and family, and the error of the accuracy without and with others."""
    rows = most_measured(rows)
    left, right = figure.subplots(1, 2)
    means = family_means(rows)
    names = [row["family"] for row in means]
    marks = {SOURCE: style.GREY, NONE: style.ORANGE, ONE: style.BLUE, ALL: style.GREEN}
    for method, colour in marks.items():
        left.plot([row[f"ece {method}"] for row in means], names, "o", color=colour, label=method)
    left.plot([row[f"ece {ORACLE}"] for row in means], names, "k|", label=ORACLE)
    left.set(xlabel="ECE", title=f"{rows[0]['model']}: means of families")
    left.yaxis.set_inverted(True)
    left.legend(fontsize="x-small")
    right.plot(
        [row[f"half {ALL}"] for row in rows],
        [row[f"error {ALL}"] for row in rows],
        "o",
        markersize=3,
        color=style.GREEN,
    )
    most = max(row[f"half {ALL}"] for row in rows)
    right.plot([0.0, most], [0.0, most], color=style.GREY, linewidth=0.8)
    right.set(
        xlabel="half-width with all environments",
        ylabel="error of the accuracy",
        title="below the line, the interval holds the truth",
    )


def settings(cells: Sequence[Cell], rows: Sequence[Row]) -> Mapping[str, Any]:
    """Return what the page states about the run."""
    return {
        "models": frame.distinct(cells, "model"),
        "seeds": frame.distinct(cells, "seed"),
        "compositions": frame.distinct(cells, "compositions"),
        "pairs": len(rows),
    }


def bench(families: Sequence[Family] = (*FAMILIES, *PAIRS_ONLY)) -> Bench:
    """Return the bench of some families."""
    chosen: Callable[[Request], Selection] = partial(cases, families)
    return Bench(
        name="natural_environments",
        title="Labelled environments under natural shifts",
        command="bench natural",
        introduction=_INTRODUCTION,
        cases=chosen,
        rows=summarise,
        bars=per("model", compare),
        tables=(_MEANS, _PAIRS),
        terminal=(_MEANS,),
        draw=_draw,
        size=lambda rows: (9.0, 4.2),
        settings=settings,
    )


BENCH = bench()
