"""Means over shifts, and paired differences from source-T with intervals over graphs; ranks.

Graphs are the unit of every conclusion: cells of one graph, of several models and seeds, are not
independent. P-values are corrected for the number of methods by Holm's steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata, t, ttest_1samp

from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import mean
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.leaderboard.methods import KIND
from graphtemper_research.leaderboard.tasks import KNOWN, UNSHIFTED
from graphtemper_research.trials.trial import ORACLE, SOURCE

ALL = "all"
LEVEL = 0.9


@dataclass(frozen=True)
class Interval:
    """A mean, and the 90 % interval of Student's t around it where there is more than one value.

    Examples
    --------
    >>> Interval.of([0.25, 0.75]).mean, Interval.of([0.5]).low is None
    (0.5, True)
    """

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the interval of some numbers that are drawn alike."""
        centre = float(np.mean(values))
        if len(values) < 2:
            return cls(centre, None, None)
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        radius = float(t.ppf(0.5 + LEVEL / 2, len(values) - 1)) * error
        return cls(centre, centre - radius, centre + radius)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, step by step (Holm, 1979).

    Rejecting those up to alpha errs once or more with probability alpha at most, no matter how the
    tests depend on each other.

    Examples
    --------
    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(values, kind="stable")
    steps = np.asarray(values)[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def table(cells: Sequence[Cell], setting: str, model: str) -> list[dict[str, Any]]:
    """Return one row per method, the smallest mean ECE under shift first; those of all cells first.

    Parameters
    ----------
    cells
        Finished cells; those of another setting, or of another model unless it is `ALL`, are
        left out. A method that answers in some of the cells only is compared with source-T and
        the oracle there, and has no rank.
    setting, model
        Which ones.
    """
    own = [
        cell
        for cell in cells
        if cell["setting"] == setting and (model == ALL or cell["model"] == model)
    ]
    if not own:
        return []
    answered = [{row["method"] for row in cell["rows"]} for cell in own]
    methods = [name for name in KIND if any(name in names for names in answered)]
    ranks = _ranks(own, [name for name in methods if all(name in names for names in answered)])
    rows: list[dict[str, Any]] = []
    for name in methods:
        cells = [cell for cell, names in zip(own, answered, strict=True) if name in names]
        values = [_shifted(cell, name, "ece") for cell in cells]
        base = [_shifted(cell, SOURCE, "ece") for cell in cells]
        best = [_shifted(cell, ORACLE, "ece") for cell in cells]
        gaps = [value - other for value, other in zip(values, base, strict=True)]
        graphs, in_graphs = _of_graphs(cells, gaps), len({cell["graph"] for cell in cells})
        gap = Interval.of(graphs)
        seeds = _over_seeds(cells, values)
        rows.append(
            {
                "setting": setting,
                "model": model,
                "method": name,
                "kind": KIND[name],
                "ece": seeds.mean,
                "ece_low": seeds.low,
                "ece_high": seeds.high,
                "ece_source": mean(_at_home(cells, name)),
                "against_source": gap.mean,
                "against_low": gap.low,
                "against_high": gap.high,
                "graphs": in_graphs,
                "p": _p_value(graphs),
                "holm": None,
                "better_cells": sum(v < b for v, b in zip(values, base, strict=True)),
                "cells": len(cells),
                "removed": _removed(values, base, best),
                "rank": ranks.get(name),
                **{
                    key: float(np.mean([_shifted(cell, name, key) for cell in cells]))
                    for key in ("noise_floor", "classwise_ece", "nll", "brier", "accuracy")
                },
                "estimate_error": _estimate_error(cells, name),
                **_by_family(cells, name),
            }
        )
    # The reference has no difference, and the oracle sees labels: neither is a hypothesis.
    tested = [row for row in rows if row["p"] is not None and row["method"] not in (SOURCE, ORACLE)]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["holm"] = adjusted
    return sorted(rows, key=lambda row: (row["cells"] < len(own), row["ece"]))


def _of(cell: Cell, method: str) -> list[dict[str, Any]]:
    return [row for row in cell["rows"] if row["method"] == method]


def _targets(cell: Cell, method: str) -> list[dict[str, Any]]:
    """Return a method's rows under shift; every natural target is one."""
    return [row for row in _of(cell, method) if row["shift"] != UNSHIFTED]


def _shifted(cell: Cell, method: str, key: str) -> float:
    """Return a method's mean over the shifted targets of a cell; no finite NLL is infinite."""
    values = [row[key] for row in _targets(cell, method)]
    return float(np.mean([math.inf if value is None else value for value in values]))


def _at_home(cells: Sequence[Cell], method: str) -> list[float]:
    return [
        row["ece"]
        for cell in cells
        if cell["setting"] == KNOWN
        for row in _of(cell, method)
        if row["shift"] == UNSHIFTED
    ]


def _over_seeds(cells: Sequence[Cell], values: Sequence[float]) -> Interval:
    """Return the mean over cells, and its interval over seeds if every seed has the same cells."""
    seeds: dict[int, dict[tuple[str, str], float]] = {}
    for cell, value in zip(cells, values, strict=True):
        seeds.setdefault(cell["seed"], {})[cell["graph"], cell["model"]] = value
    if len({frozenset(own) for own in seeds.values()}) > 1:
        return Interval(float(np.mean(values)), None, None)
    return Interval.of([float(np.mean(list(own.values()))) for own in seeds.values()])


def _of_graphs(cells: Sequence[Cell], values: Sequence[float]) -> list[float]:
    """Return the mean of every graph: cells of one graph are not independent."""
    graphs: dict[str, list[float]] = {}
    for cell, value in zip(cells, values, strict=True):
        graphs.setdefault(cell["graph"], []).append(value)
    return [float(np.mean(own)) for own in graphs.values()]


def _p_value(values: Sequence[float]) -> float | None:
    """Return the two-sided p-value of Student's t against a mean of zero, from two values on."""
    if len(values) < 2 or np.ptp(values) == 0.0:
        return None
    return float(ttest_1samp(values, 0.0).pvalue)


def _by_family(cells: Sequence[Cell], method: str) -> dict[str, float]:
    """Return the mean ECE under every known shift, or in every natural family, by "ece NAME"."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        for row in _of(cell, method):
            key = row["shift"] if cell["setting"] == KNOWN else row["family"]
            found.setdefault(key, []).append(row["ece"])
    return {f"ece {key}": float(np.mean(values)) for key, values in found.items()}


def _removed(values: Sequence[float], base: Sequence[float], best: Sequence[float]) -> float:
    """Return which share of source-T's excess over the oracle is gone: 1 is the oracle."""
    excess = float(np.mean(base)) - float(np.mean(best))
    return (float(np.mean(base)) - float(np.mean(values))) / excess if excess > 0 else math.nan


def _ranks(cells: Sequence[Cell], methods: Sequence[str]) -> dict[str, float]:
    """Return the mean rank by ECE over all shifted targets; the oracle does not take part."""
    ranked = [name for name in methods if name != ORACLE]
    columns: list[FloatArray] = []
    for cell in cells:
        scores = np.array([[row["ece"] for row in _targets(cell, name)] for name in ranked])
        columns.append(rankdata(scores, axis=0))
    means = np.concatenate(columns, axis=1).mean(axis=1)
    return dict(zip(ranked, means.tolist(), strict=True))


def _estimate_error(cells: Sequence[Cell], method: str) -> float | None:
    """Return the mean distance between stated and true accuracy, for those that state one."""
    return mean(
        [
            abs(row["estimate"] - row["accuracy"])
            for cell in cells
            for row in _targets(cell, method)
            if row["estimate"] is not None
        ]
    )
