"""The numbers of the natural prior: chosen on natural families, scored on the one left out.

A cell is one source. For every other graph of its family it keeps what the prior reads (plain
confidence, the atlas's centre, whether feature means have moved, the novelty) and the ECE at
temperatures that match a grid of accuracies, so that any prior can be scored without running a
model again. Labels of the targets only score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper._core.estimate import DEVIATIONS
from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.reading import NATURAL, NaturalPrior
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, between, reported
from graphtemper_research.harness.runner import Bench, per
from graphtemper_research.trials import natural_environments
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import GRID, NONE
from graphtemper_research.trials.natural_shifts import rank_correlation
from graphtemper_research.trials.trial import SOURCE, TOLERANCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What the choice is made from. Intervals are chosen after the centre.
CENTRES = tuple(product((1.0, 2.0, 3.0), (0.0, 0.1, 0.2)))  # halfway and shift
DEVIATIONS_TRIED = tuple(np.linspace(0.1, 1.5, 29).round(3).tolist())
COVERAGE = 0.92  # mean of families that the interval is chosen for


def centre(prior: NaturalPrior, row: Row) -> float:
    """Return the log-odds of the accuracy that a prior gives to a row."""
    return prior.centre(row["confidence"], row["atlas"], row["fraction"], row["novelty"])


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
    tried = [NaturalPrior(*numbers) for numbers in CENTRES]
    best = min(tried, key=lambda prior: _mean(rows, lambda row: score(prior, row)["ece"]))
    for deviation in DEVIATIONS_TRIED:
        prior = NaturalPrior(best.halfway, best.shift, deviation)
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


def readings(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: what the prior reads, the truth, the ECE of source-T, the verdict.

    ``answered`` says whether the interval of that verdict holds the accuracy.
    """
    keys = ("family", "model", "seed", "source")
    rows = []
    for _, found in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        row, answer = found[SOURCE], found[NONE]
        rows.append(
            frame.pick(row, "family", "model", "source", "target", "accuracy")
            | {"source-T": row["ece"], "verdict": answer["verdict"], "answer": answer["ece"]}
            | {"answered": answer["low"] <= row["accuracy"] <= answer["high"]}
            | row["reading"]
        )
    return rows


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: its scores with the shipped numbers and with its family left out."""
    rows = readings(cells)
    chosen = {
        (model, name): choose([row for row in own if row["family"] != name] or own)
        for (model,), own in frame.grouped(rows, "model").items()
        for name in frame.distinct(own, "family")
    }
    found = []
    for row in rows:
        prior = chosen[row["model"], row["family"]]
        left_out, shipped = score(prior, row), score(NATURAL, row)
        best = float(np.interp(log_odds(row["accuracy"]), GRID, row["ece"]))
        found.append(
            frame.pick(row, "family", "model", "source", "target", "accuracy", "source-T")
            | frame.pick(row, "verdict", "answer", "answered")
            | {"atlas": float(np.interp(row["atlas"], GRID, row["ece"])), "true accuracy": best}
            | left_out
            | {"shipped": shipped["ece"], "shipped held": shipped["held"]}
            | {"halfway": prior.halfway, "shift": prior.shift, "deviation": prior.deviation}
        )
    return found


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State what the choice gives on families that had no part in it."""
    source = _mean(rows, lambda row: row["source-T"])
    widths, errors = ([row[name] for row in rows] for name in ("half_width", "error"))
    return [
        at_most("mean ECE over source-T's", _mean(rows, lambda row: row["ece"]) / source, 0.92),
        at_most("largest excess of a family over source-T", _worst(rows, "ece"), 0.005),
        between(
            "coverage of the 90 % interval", _mean(rows, lambda row: row["held"]), (0.85, 0.97)
        ),
        at_least("rank correlation of width and error", rank_correlation(widths, errors), 0.4),
        reported("the same ratio, atlas alone", _mean(rows, lambda row: row["atlas"]) / source),
        reported("the largest excess, shipped", _worst(rows, "shipped")),
        reported("the same ratio, shipped", _mean(rows, lambda row: row["shipped"]) / source),
        reported("coverage, shipped", _mean(rows, lambda row: row["shipped held"])),
        *_by_verdict(rows),
    ]


def _by_verdict(rows: Sequence[Row]) -> list[Comparison]:
    """State coverage at each verdict of the shipped prior, and the harm where it is trusted."""
    bars = []
    for verdict in frame.distinct(rows, "verdict"):
        own = frame.select(rows, verdict=verdict)
        covered = float(np.mean([row["answered"] for row in own]))
        quantity = f"coverage where the verdict is {verdict}, shipped"
        bars.append(at_least(quantity, covered, 0.85, f"{len(own)} of {len(rows)} pairs"))
    trusted = frame.select(rows, verdict="trust")
    if trusted:
        harmed = [row["answer"] > row["source-T"] + TOLERANCE for row in trusted]
        quantity = f"share of trusted answers worse than source-T by more than {TOLERANCE}"
        bars.append(at_most(quantity, float(np.mean(harmed)), 0.02, f"{len(trusted)} pairs"))
    return bars


def _worst(rows: Sequence[Row], key: str) -> float:
    families = (frame.select(rows, family=name) for name in frame.distinct(rows, "family"))
    return max(_mean(own, lambda row: row[key] - row["source-T"]) for own in families)


def family_means(rows: Sequence[Row]) -> Rows:
    """Return the averages of every family."""
    keys = ("source-T", "atlas", "ece", "shipped", "true accuracy", "error", "held", "half_width")
    return [
        {"family": name, "pairs": len(own), **frame.pick(own[0], "model", "halfway", "shift")}
        | {"deviation": own[0]["deviation"]}
        | {key: frame.average(own, key) for key in keys}
        for name in frame.distinct(rows, "family")
        for own in [frame.select(rows, family=name)]
    ]


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the mean ECE of every family: source-T, atlas alone, left out, true accuracy known."""
    rows = natural_environments.most_measured(rows)
    axes, means = figure.subplots(), family_means(rows)
    for key, marker in (("source-T", "x"), ("atlas", "+"), ("ece", "o"), ("true accuracy", "|")):
        label = "natural prior, family left out" if key == "ece" else key
        places = range(len(means))
        axes.plot([row[key] for row in means], places, marker, label=label, markersize=8)
    axes.set_yticks(range(len(means)), [row["family"] for row in means])
    axes.set(xlabel="mean ECE", title=rows[0]["model"])
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
    Column("halfway", spec=".0f"),
    Column("shift", spec=".1f"),
    Column("deviation", "tau", ".2f"),
)


def bench(families: Sequence[Family] = (*FAMILIES, *PAIRS_ONLY)) -> Bench:
    """Return the bench of some families."""
    return Bench(
        name="natural_prior",
        title="The natural prior, families left out",
        command="bench natural",
        introduction="""\
Mean ECE of the source temperature, of the atlas alone, of the prior chosen on the other families
(*left out*), of the shipped numbers and of the true accuracy; the error of the accuracy, the share
of pairs whose 90 % interval covers it and its half-width, with the family left out; and the
novelty *halfway* to the atlas, the shift and the deviation that the other families choose. The
shipped numbers were chosen with these families in view, so their column is not held out. Neither is
the form of the prior, which was found on them. At most three sources of a family are trained on,
and at most 3,000 nodes of a target are scored.""",
        cases=natural_environments.bench(families).cases,
        rows=summarise,
        bars=per("model", compare),
        tables=(Table("{model}", _COLUMNS, family_means),),
        terminal=(Table("{model}", _COLUMNS, family_means),),
        draw=_draw,
        size=lambda rows: (7.0, 4.0),
    )


BENCH = bench()
