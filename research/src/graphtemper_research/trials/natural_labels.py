"""A few labels of a target under natural shift, without and with labelled environments.

The cells are those of `graphtemper_research.trials.natural_environments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_most, between
from graphtemper_research.harness.runner import Bench, per
from graphtemper_research.trials import natural_environments
from graphtemper_research.trials.natural_environments import (
    COVERAGE,
    family_means,
    most_measured,
    settings,
)
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family
from graphtemper_research.trials.natural_places import (
    ALL,
    COUNTS,
    DRAWS,
    NONE,
    UNCALIBRATED,
    WITH,
    alone_method,
    label_method,
)
from graphtemper_research.trials.trial import ORACLE, SOURCE, TOLERANCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMITS = {(20, NONE): 0.070, (50, NONE): 0.056, (20, ALL): 0.060, (50, ALL): 0.056}
# Labels may make this share of pairs worse than no label, by more than `TOLERANCE`.
HARMED = 0.05


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: the scores with labels, means over draws."""
    keys = ("family", "model", "seed", "source")
    rows = []
    for facts, found in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        row = dict(facts) | frame.pick(found[SOURCE], "accuracy", "nodes")
        row |= {f"ece {name}": found[name]["ece"] for name in (UNCALIBRATED, SOURCE, NONE, ORACLE)}
        for count in COUNTS:
            drawn = [found[alone_method(count, draw)] for draw in range(1, DRAWS + 1)]
            row[f"ece {count} labels, temperature alone"] = frame.average(drawn, "ece")
        for count, basis in product(COUNTS, WITH):
            names = [label_method(count, basis, draw) for draw in range(1, DRAWS + 1)]
            drawn = [found[name] for name in names if name in found]
            name = _name(count, basis)
            row[f"ece {name}"] = frame.average(drawn, "ece") if drawn else None
            row[f"nll {name}"] = frame.average(drawn, "nll") if drawn else None
            row[f"held {name}"] = frame.mean([_held(item) for item in drawn]) if drawn else None
        rows.append(row)
    return rows


def _held(found: Row) -> float:
    return float(found["low"] <= found["accuracy"] <= found["high"])


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars on means of families."""
    means = family_means(rows)[-1]
    shared = [row for row in rows if row[f"ece {_name(20, ALL)}"] is not None]
    bases = tuple(WITH) if shared else (NONE,)
    bars = []
    for (count, basis), limit in LIMITS.items():
        if basis not in bases:
            continue
        name = _name(count, basis)
        bars.append(at_most(f"mean ECE with {name}", means[f"ece {name}"], limit))
        bars.append(between(f"coverage with {name}", means[f"held {name}"], COVERAGE))
        same = means[f"ece {count} labels, temperature alone"]
        quantity = f"mean ECE with {name}, against a temperature fitted to the same labels"
        bars.append(at_most(quantity, means[f"ece {name}"], same))
    if shared:
        own = family_means(shared)[-1]
        quantity = "mean ECE with 20 labels and environments, against 50 labels"
        few, more = own[f"ece {_name(20, ALL)}"], own[f"ece {_name(50, NONE)}"]
        note = "families with a third environment"
        bars.append(at_most(quantity, few, more, note))
    for count in COUNTS:
        name = _name(count, NONE)
        worse = [row[f"ece {name}"] > row[f"ece {NONE}"] + TOLERANCE for row in rows]
        quantity = f"share of pairs that {name} make worse by more than {TOLERANCE}"
        bars.append(at_most(quantity, float(np.mean(worse)), HARMED))
    return bars


def _name(count: int, basis: str) -> str:
    return f"{count} {WITH[basis]}"


def _only_temperature(count: int) -> Column:
    key = f"ece {count} labels, temperature alone"
    return Column(lambda row: row.get(key), f"{count} T", ".3f", "-")


_MEANS = Table(
    "{model}: means of families",
    (
        Column("family"),
        Column("pairs"),
        Column(lambda row: row.get(f"ece {UNCALIBRATED}"), "plain", ".3f", "-"),
        Column(f"ece {SOURCE}", "source", ".3f"),
        Column(f"ece {NONE}", "no labels", ".3f"),
        *(
            Column(f"ece {_name(count, basis)}", f"{count} {short}", ".3f", "-")
            for count, (basis, short) in product(COUNTS, ((NONE, "alone"), (ALL, "all")))
        ),
        *(_only_temperature(count) for count in COUNTS),
        Column(f"ece {ORACLE}", "oracle", ".3f"),
    ),
    family_means,
)


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the mean ECE of every family by number of labels."""
    rows = most_measured(rows)
    axes, means = figure.subplots(), family_means(rows)
    names = [row["family"] for row in means]
    marks = {
        SOURCE: (style.GREY, "x"),
        _name(20, NONE): (style.ORANGE, "o"),
        _name(50, NONE): (style.BLUE, "o"),
        _name(50, ALL): (style.GREEN, "o"),
    }
    for method, (colour, marker) in marks.items():
        known = [(row[f"ece {method}"], name) for row, name in zip(means, names, strict=True)]
        known = [point for point in known if point[0] is not None]
        values, places = zip(*known, strict=True) if known else ((), ())
        axes.plot(values, places, marker, color=colour, label=method)
    axes.set(xlabel="ECE", title=f"{rows[0]['model']}: means of families")
    axes.yaxis.set_inverted(True)
    axes.legend(fontsize="x-small")


def bench(families: Sequence[Family] = (*FAMILIES, *PAIRS_ONLY)) -> Bench:
    """Return the bench of some families."""
    return Bench(
        name="natural_labels",
        title="A few labels under natural shifts",
        command="bench natural",
        introduction="""\
ECE of the uncalibrated model (*plain*: T = 1), of the source temperature, of the card without
labels, and with 20 or 50 random labels of the target, *alone* or with *all* other environments of
the family in the card; *20 T* and *50 T* are a temperature fitted to the same labels and nothing
else. Two draws of labels for each pair; the family is the unit.""",
        cases=natural_environments.bench(families).cases,
        rows=summarise,
        bars=per("model", compare),
        tables=(_MEANS,),
        terminal=(_MEANS,),
        draw=_draw,
        size=lambda rows: (7.0, 4.2),
        settings=settings,
    )


BENCH = bench()
