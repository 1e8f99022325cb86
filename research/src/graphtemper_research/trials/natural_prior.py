"""The numbers of the natural prior: chosen on natural families, scored on the one left out.

A cell is one source. For every other graph of its family it keeps what the prior reads (plain
confidence, the atlas's two centres, whether feature means have moved, the novelty) and
the ECE at temperatures that match a grid of accuracies, so that any prior can be scored without
running a model again. Labels of the targets only score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import temperature
from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import DEVIATIONS
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.reading import NATURAL, NaturalPrior
from graphtemper.cli.arguments import load_graph
from graphtemper.errors import InputError
from graphtemper.metrics import ece
from graphtemper.signals.observation import Observation
from graphtemper.temperature.scaling import nearest_temperature
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, between, reported
from graphtemper_research.harness.runner import Bench, Request, Selection
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import MOST_NODES
from graphtemper_research.trials.natural_shifts import rank_correlation
from graphtemper_research.trials.trial import MODELS, TARGET_SEED, Indices, Source, halves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.natural_prior_cell/1"
# Accuracies at which the ECE of a target is kept, as log-odds.
GRID = np.linspace(-4.0, 5.0, 37)
# What the choice is made from. Intervals are chosen after the centre.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEVIATIONS_TRIED = tuple(np.linspace(0.1, 1.5, 29).round(3).tolist())
COVERAGE = 0.92  # mean of families that the interval is chosen for
QUICK_FAMILIES = ("airports", "villages")


def measure(
    family: Family,
    source: str,
    model: str,
    seed: int,
    compositions: int,
    progress: Show | None = None,
) -> Rows:
    """Return one row per target of a source."""
    graph = load_graph(source)
    train, val = halves(graph, seed)
    frozen = Source.prepare(
        MODELS[model](seed), graph, train, val, seed, compositions, progress=progress
    )
    card, rows = frozen.card, []
    for name in family.graphs:
        if name == source:
            continue
        target = load_graph(name)
        nodes = np.setdiff1d(target.labelled, train if family.same_nodes else train[:0])
        if nodes.size > MOST_NODES:
            nodes = np.sort(np.random.default_rng(seed).choice(nodes, MOST_NODES, replace=False))
        hidden = target.replace(labels=None)
        observation = Observation(frozen.predictor, hidden, nodes, seed=TARGET_SEED + seed)
        observation = observation.at(card.temperature)
        reading = card.read(observation)
        assert target.labels is not None
        labels = target.labels[nodes]
        rows.append(
            {"target": Path(name).stem}
            | reading.two_centres()
            | {
                "confidence": log_odds(reading.evidence.confidence),
                "fraction": reading.moved_fraction,
                "novelty": reading.novelty,
                "variance": reading.atlas_variance,
                "accuracy": float((observation.predictions == labels).mean()),
                "source-T": ece(observation.probabilities, labels),
                "ece": _ece_by_accuracy(observation.logits, labels),
            }
        )
    return rows


def _ece_by_accuracy(logits: FloatArray, labels: Indices) -> list[float]:
    """Return the ECE at the temperatures that match mean confidence to the accuracies of `GRID`."""
    found = []
    for point in GRID:
        divisor, _ = nearest_temperature(logits, to_share(float(point)))
        found.append(round(ece(temperature.apply(logits, divisor), labels), 6))
    return found


def centre(prior: NaturalPrior, row: Row) -> float:
    """Return the log-odds of the accuracy that a prior gives to a row."""
    return prior.centre(row["confidence"], row["atlas"], row["moved"], row["fraction"])


def score(prior: NaturalPrior, row: Row) -> dict[str, Any]:
    """Return the ECE, the error, the interval and whether it holds the truth."""
    middle = centre(prior, row)
    variance = row["variance"] + prior.variance(row["novelty"], row["fraction"])
    tail = 1.0 + (prior.lower_tail - 1.0) * float(np.sqrt(row["fraction"]))
    reach = DEVIATIONS * float(np.sqrt(variance))
    low, high = to_share(middle - tail * reach), to_share(middle + reach)
    return {
        "ece": float(np.interp(middle, GRID, row["ece"])),
        "error": abs(to_share(middle) - row["accuracy"]),
        "half_width": 0.5 * (high - low),
        "held": low <= row["accuracy"] <= high,
    }


def choose(rows: Sequence[Row]) -> NaturalPrior:
    """Return the centre with the least mean ECE, with the narrowest interval that covers enough."""
    tried = [NaturalPrior(weight) for weight in WEIGHTS]
    best = min(tried, key=lambda prior: _mean(rows, lambda row: score(prior, row)["ece"]))
    for deviation in DEVIATIONS_TRIED:
        prior = NaturalPrior(best.weight, deviation)
        if _covered(rows, prior) >= COVERAGE:
            break
    return prior


def _covered(rows: Sequence[Row], prior: NaturalPrior) -> float:
    return _mean(rows, lambda row: score(prior, row)["held"])


def _mean(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    """Return the mean of families of a value."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(float(value(row)))
    return float(np.mean([np.mean(values) for values in families.values()]))


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: its scores with the shipped numbers and with its family left out."""
    rows = frame.flat(cells, "family", "model", "seed", "source")
    chosen = {
        name: choose([row for row in rows if row["family"] != name] or rows)
        for name in frame.distinct(rows, "family")
    }
    found = []
    for row in rows:
        left_out, shipped = score(chosen[row["family"]], row), score(NATURAL, row)
        best = float(np.interp(log_odds(row["accuracy"]), GRID, row["ece"]))
        found.append(
            frame.pick(row, "family", "model", "source", "target", "accuracy", "source-T")
            | {"atlas": float(np.interp(row["atlas"], GRID, row["ece"])), "true accuracy": best}
            | left_out
            | {"shipped": shipped["ece"], "shipped held": shipped["held"]}
            | {"weight": chosen[row["family"]].weight}
            | {"deviation": chosen[row["family"]].deviation}
        )
    return found


def compare(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State what the choice gives on families that had no part in it."""
    source = _mean(rows, lambda row: row["source-T"])
    worst = max(
        _mean(own, lambda row: row["ece"] - row["source-T"])
        for own in (frame.select(rows, family=name) for name in frame.distinct(rows, "family"))
    )
    widths, errors = ([row[name] for row in rows] for name in ("half_width", "error"))
    return [
        at_most("mean ECE over source-T's", _mean(rows, lambda row: row["ece"]) / source, 0.92),
        at_most("largest excess of a family over source-T", worst, 0.005),
        between(
            "coverage of the 90 % interval", _mean(rows, lambda row: row["held"]), (0.85, 0.97)
        ),
        at_least("rank correlation of width and error", rank_correlation(widths, errors), 0.4),
        reported("the same ratio, atlas alone", _mean(rows, lambda row: row["atlas"]) / source),
        reported("the same ratio, shipped", _mean(rows, lambda row: row["shipped"]) / source),
        reported("coverage, shipped", _mean(rows, lambda row: row["shipped held"])),
    ]


def family_means(rows: Sequence[Row]) -> Rows:
    """Return the averages of every family."""
    keys = ("source-T", "atlas", "ece", "shipped", "true accuracy", "error", "held", "half_width")
    return [
        {"family": name, "pairs": len(own), **frame.pick(own[0], "model", "weight")}
        | {"deviation": own[0]["deviation"]}
        | {key: frame.average(own, key) for key in keys}
        for name in frame.distinct(rows, "family")
        for own in [frame.select(rows, family=name)]
    ]


def cases(families: Sequence[Family], request: Request) -> Selection:
    """Return a case for every model, source and split of a request whose names are families."""
    found, missing = [], []
    names = request.names
    if names is None and request.quick:
        names = [item.name for item in families if item.name in QUICK_FAMILIES] or None
    for family in families:
        if names is not None and family.name not in names:
            continue
        here, absent = graph_names.present(family.graphs)
        missing += absent
        own = replace(family, graphs=tuple(here))
        for model, source, seed in product(models_of(request), here, request.splits()):
            stem, size = Path(source).stem, request.compositions
            head = {"schema": SCHEMA, "family": family.name, "source": stem, "model": model}
            rows = [{"target": Path(name).stem} for name in here if name != source]
            work = partial(measure, own, source, model, seed, size)
            settings = head | {"seed": seed, "compositions": size}
            found.append(Case(f"{stem}-{model}-{seed}", settings, work, rows))
    if not found:
        raise InputError("no family of graphs is here; `graphtemper data list` shows what is.")
    return found, missing


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the mean ECE of every family: source-T, atlas alone, left out, true accuracy known."""
    axes, means = figure.subplots(), family_means(rows)
    for key, marker in (("source-T", "x"), ("atlas", "+"), ("ece", "o"), ("true accuracy", "|")):
        label = "natural prior, family left out" if key == "ece" else key
        places = range(len(means))
        axes.plot([row[key] for row in means], places, marker, label=label, markersize=8)
    axes.set_yticks(range(len(means)), [row["family"] for row in means])
    axes.set(xlabel="mean ECE")
    axes.legend(fontsize="small")


_COLUMNS = (
    Column("family"),
    Column("pairs"),
    Column("source-T", "source", ".3f"),
    Column("atlas", spec=".3f"),
    Column("ece", "left out", ".3f"),
    Column("shipped", spec=".3f"),
    Column("true accuracy", "true", ".3f"),
    Column("error", spec=".3f"),
    Column("held", "covers", ".2f"),
    Column("half_width", "half", ".2f"),
    Column("weight", spec=".2f"),
    Column("deviation", "tau", ".2f"),
)


def bench(families: Sequence[Family] = (*FAMILIES, *PAIRS_ONLY)) -> Bench:
    """Return the bench of some families."""
    return Bench(
        name="natural_prior",
        title="The natural prior, families left out",
        command="bench natural-prior",
        introduction="""\
Mean ECE of the source temperature, of the atlas alone, of the prior chosen on the other families
(*left out*), of the shipped numbers and of the true accuracy; the error of the accuracy, the share
of pairs whose 90 % interval covers it and its half-width, with the family left out; and the weight
and the deviation that the other families choose. The shipped numbers were chosen on all of these
families, so their column is not held out. Neither is the form of the prior, which was found on
them.""",
        cases=partial(cases, families),
        rows=summarise,
        bars=compare,
        tables=(Table("{model}", _COLUMNS, family_means),),
        terminal=(Table("{model}", _COLUMNS, family_means),),
        draw=_draw,
        size=lambda rows: (7.0, 4.0),
    )


BENCH = bench()
