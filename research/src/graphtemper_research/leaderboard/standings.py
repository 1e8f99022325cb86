"""Means over shifts, intervals over seeds, paired differences from source-T, and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata, t

from graphtemper._core.checks import FloatArray
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import mean
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
    rows = []
    for name in methods:
        cells = [cell for cell, names in zip(own, answered, strict=True) if name in names]
        values = [_shifted(cell, name, "ece") for cell in cells]
        base = [_shifted(cell, SOURCE, "ece") for cell in cells]
        best = [_shifted(cell, ORACLE, "ece") for cell in cells]
        gaps = [value - other for value, other in zip(values, base, strict=True)]
        gap, graphs = Interval.of(gaps), _over_graphs(cells, gaps)
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
                "graphs_low": graphs.low,
                "graphs_high": graphs.high,
                "better_cells": sum(v < b for v, b in zip(values, base, strict=True)),
                "cells": len(cells),
                "removed": _removed(values, base, best),
                "rank": ranks.get(name),
                "nll": float(np.mean([_shifted(cell, name, "nll") for cell in cells])),
                "brier": float(np.mean([_shifted(cell, name, "brier") for cell in cells])),
                "accuracy": float(np.mean([_shifted(cell, name, "accuracy") for cell in cells])),
                "estimate_error": _estimate_error(cells, name),
            }
        )
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


def _over_graphs(cells: Sequence[Cell], values: Sequence[float]) -> Interval:
    """Return the interval over graphs: cells of one graph are not independent."""
    graphs: dict[str, list[float]] = {}
    for cell, value in zip(cells, values, strict=True):
        graphs.setdefault(cell["graph"], []).append(value)
    return Interval.of([float(np.mean(own)) for own in graphs.values()])


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
