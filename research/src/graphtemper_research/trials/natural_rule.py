"""Natural shift without labels: the rule for features that moved, beside its alternatives.

A cell is one source. For every other graph of its family it keeps what rules read (confidence, the
atlas, the second opinion) and the ECE at temperatures that match a grid of accuracies, so that any
rule can be scored without running a model again. Labels of the targets only score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphtemper._core.estimate import DEVIATIONS
from graphtemper._core.numerics import log_odds
from graphtemper.card.reading import USUAL_GAP
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, between, reported
from graphtemper_research.harness.runner import Bench, per
from graphtemper_research.trials import natural_environments
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import GRID, NONE, UNCALIBRATED
from graphtemper_research.trials.trial import SOURCE, TOLERANCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Log-odds of the accuracy by each rule, from what a row holds.
RULES: Mapping[str, Callable[[Row], float]] = {
    "atlas": lambda row: row["atlas"],
    "atlas or confidence": lambda row: min(row["atlas"], row["confidence"]),
    "constant": lambda row: row["confidence"] - USUAL_GAP,
    "second opinion": lambda row: min(row["second"], row["confidence"]),
    "mean of three": lambda row: min(
        (row["second"] + row["atlas"] + row["confidence"]) / 3.0, row["confidence"]
    ),
    "true accuracy": lambda row: log_odds(row["accuracy"]),
}
DEVIATIONS_TRIED = tuple(np.linspace(0.1, 1.5, 57).round(3).tolist())
COVERAGE = 0.90


def readings(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: what rules read, the truth, and the answer that was given."""
    keys = ("family", "model", "seed", "source")
    rows = []
    for _, found in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        row, answer = found[SOURCE], found[NONE]
        rows.append(
            frame.pick(row, *keys, "target", "accuracy")
            | {"source-T": row["ece"], UNCALIBRATED: found[UNCALIBRATED]["ece"]}
            | {"verdict": answer["verdict"], "answer": answer["ece"]}
            | {"error": abs(answer["estimate"] - row["accuracy"])}
            | {"held": float(answer["low"] <= row["accuracy"] <= answer["high"])}
            | {"width": answer["high"] - answer["low"]}
            | row["reading"]
        )
    return rows


def deviation_of(rows: Sequence[Row]) -> float:
    """Return the least deviation around the second opinion's rule that covers 90 % of families.

    Examples
    --------
    >>> near = {"family": "a", "confidence": 1.0, "second": 2.0, "accuracy": 0.731}
    >>> deviation_of([near]), deviation_of([near | {"accuracy": 0.5}])
    (0.1, 0.625)
    """
    rule = RULES["second opinion"]
    away = [
        {**row, "away": abs(log_odds(row["accuracy"]) - rule(row)) / DEVIATIONS} for row in rows
    ]
    covered = (
        tried
        for tried in DEVIATIONS_TRIED
        if mean(away, lambda row, tried=tried: row["away"] <= tried) >= COVERAGE  # type: ignore[misc]
    )
    return float(next(covered, DEVIATIONS_TRIED[-1]))


def mean(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    """Return the mean of families of a value."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(float(value(row)))
    return float(np.mean([np.mean(values) for values in families.values()]))


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: the ECE by every rule, the answer, and how wide its interval is."""
    rows = readings(cells)
    chosen = {
        (model, name): deviation_of([row for row in own if row["family"] != name] or own)
        for (model,), own in frame.grouped(rows, "model").items()
        for name in frame.distinct(own, "family")
    }
    return [
        {key: row[key] for key in row if key not in ("ece", "environment")}
        | {"deviation": chosen[row["model"], row["family"]]}
        | {name: float(np.interp(rule(row), GRID, row["ece"])) for name, rule in RULES.items()}
        for row in rows
    ]


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State what the answer gives without labels, by family and by verdict."""
    return [
        at_most(
            "mean ECE against source-T's",
            mean(rows, lambda row: row["answer"]),
            mean(rows, lambda row: row["source-T"]),
        ),
        at_most(f"share of pairs worse than source-T by more than {TOLERANCE}", harm(rows), 0.10),
        between("coverage of the 90 % interval", mean(rows, lambda row: row["held"]), (0.85, 0.97)),
        at_most("mean width of the interval", mean(rows, lambda row: row["width"]), 0.45),
        reported("error of the accuracy", mean(rows, lambda row: row["error"])),
        reported("mean ECE of the uncalibrated model", mean(rows, lambda row: row[UNCALIBRATED])),
        *(
            reported(f"mean ECE by {name}", mean(rows, lambda row, name=name: row[name]))  # type: ignore[misc]
            for name in RULES
        ),
        *_by_verdict(rows),
    ]


def harm(rows: Sequence[Row]) -> float:
    """Return the share of pairs, a mean of families, whose answer is worse than source-T's."""
    return mean(rows, lambda row: row["answer"] > row["source-T"] + TOLERANCE)


def _by_verdict(rows: Sequence[Row]) -> list[Comparison]:
    bars = []
    for verdict in frame.distinct(rows, "verdict"):
        own = frame.select(rows, verdict=verdict)
        covered = float(np.mean([row["held"] for row in own]))
        quantity = f"coverage where the verdict is {verdict}"
        bars.append(at_least(quantity, covered, 0.85, f"{len(own)} of {len(rows)} pairs"))
    return bars


def family_means(rows: Sequence[Row]) -> Rows:
    """Return the averages of every family."""
    keys = ("source-T", *RULES, "answer", "error", "held", "width", "deviation")
    keys = (UNCALIBRATED, *keys) if UNCALIBRATED in rows[0] else keys
    return [
        {"family": name, "pairs": len(own), "harm": harm(own), "model": own[0]["model"]}
        | {key: frame.average(own, key) for key in keys}
        for name in frame.distinct(rows, "family")
        for own in [frame.select(rows, family=name)]
    ]


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the mean ECE of every family: source-T, the atlas, the answer, true accuracy known."""
    rows = natural_environments.most_measured(rows)
    axes, means = figure.subplots(), family_means(rows)
    for key, marker in (("source-T", "x"), ("atlas", "+"), ("answer", "o"), ("true accuracy", "|")):
        places = range(len(means))
        axes.plot([row[key] for row in means], places, marker, label=key, markersize=8)
    axes.set_yticks(range(len(means)), [row["family"] for row in means])
    axes.set(xlabel="mean ECE", title=rows[0]["model"])
    axes.legend(fontsize="small")


_COLUMNS = (
    Column("family"),
    Column("pairs"),
    Column(lambda row: row.get(UNCALIBRATED), "plain", ".3f", missing="-"),
    Column("source-T", "source", ".3f"),
    Column("atlas", spec=".3f"),
    Column("constant", spec=".3f"),
    Column("second opinion", "second", ".3f"),
    Column("mean of three", "three", ".3f"),
    Column("answer", spec=".3f"),
    Column("true accuracy", "true", ".3f"),
    Column("harm", spec=".2f"),
    Column("error", spec=".3f"),
    Column("held", "covers", ".2f"),
    Column("width", spec=".2f"),
    Column("deviation", "tau", ".2f"),
)


def bench(families: Sequence[Family] = (*FAMILIES, *PAIRS_ONLY)) -> Bench:
    """Return the bench of some families."""
    return Bench(
        name="natural_rule",
        title="Natural shift without labels",
        command="bench natural",
        introduction=f"""\
Mean ECE of the uncalibrated model (*plain*: T = 1) and of the source temperature; of temperatures
that match the accuracy by the atlas, by mean confidence minus {USUAL_GAP} in log-odds (*constant*),
by the *second* opinion or confidence if that is lower, and by the mean of these *three* opinions;
of the *answer*, which is the second opinion's rule where features have moved, less bold where it is
unsure; and of the *true* accuracy. *harm* is the share of pairs that the answer makes worse than
the source temperature by more than {TOLERANCE}; then the error of the accuracy, how often the 90 %
interval *covers* it, the interval's width, and the deviation *tau* around the second opinion's rule
with which intervals cover 90 % of the *other* families. At most three sources of a family are
trained on, and at most 3,000 nodes of a target are
scored.""",
        cases=natural_environments.bench(families).cases,
        rows=summarise,
        bars=per("model", compare),
        tables=(Table("{model}", _COLUMNS, family_means),),
        terminal=(Table("{model}", _COLUMNS, family_means),),
        draw=_draw,
        size=lambda rows: (7.0, 4.0),
    )


BENCH = bench()
