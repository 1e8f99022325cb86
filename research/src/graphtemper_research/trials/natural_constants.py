"""The constants of labelled environments: chosen on families, scored on the one left out.

A cell keeps what is known of every environment without and with labels, and the ECE at temperatures
that match a grid of accuracies. So any constants can be scored without running a model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from graphtemper._core.numerics import log_odds, to_share
from graphtemper.card.random_effects import Constants, Environments, distances, expect
from graphtemper.card.reading import Prior
from graphtemper.recalibration.answer import accuracy_to_match
from graphtemper.recalibration.few_labels import EVEN
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row
from graphtemper_research.trials.natural_places import GRID

# What the choice is made from.
MEANS, SPREADS, REACHES, OWN_SHARES = (-0.35, -0.1), (0.45, 0.75), (0.5, 1.0), (0.2, 0.5)
TRIED = tuple(
    Constants(mean=mean, spread=spread, reach=reach, own_share=own)
    for mean, spread, reach, own in product(MEANS, SPREADS, REACHES, OWN_SHARES)
)


def ece(target: Row, others: Sequence[Row], constants: Constants) -> float:
    """Return the ECE of one target with all other environments, at some constants."""
    reading = target["reading"]
    moved = reading["fraction"]
    here, *known = (item["reading"]["environment"] for item in (target, *others))
    views = []
    for name in ("place", "means"):
        numbers = [*(item[name] for item in known), here[name]]
        size = min(map(len, numbers))  # sketches of small environments are shorter
        if size:
            views.append(np.array([row[:size] for row in numbers]))
    environments = Environments(
        truth=np.array([item["truth"] for item in known]),
        variance=np.array([item["variance"] for item in known]),
        estimates=np.array([_opinions(item, moved) for item in known]),
        distances=distances(views),
    )
    there = replace(constants, weight=1.0 - (1.0 - constants.weight) * moved)
    found = expect(environments, np.array(_opinions(reading, moved)), target["nodes"], there)
    confidence = to_share(reading["confidence"])
    aim = accuracy_to_match(Prior(found.centre, found.deviation).quantiles(EVEN), confidence)
    return float(np.interp(log_odds(aim), GRID, reading["ece"]))


def _opinions(read: Row, moved: float) -> tuple[float, float]:
    """Return the estimates that gaps are corrections of, as `Reading.expected` makes them."""
    return read["confidence"], read["atlas"] + 0.5 * moved * (read["second"] - read["atlas"])


def left_out(cells: Sequence[Cell]) -> dict[tuple[Any, ...], float]:
    """Return the ECE of every pair with the constants that the other families choose.

    Keys are model, seed, source and target.
    """
    rows = [
        row
        for row in frame.flat(cells, "family", "model", "seed", "source")
        if "environment" in row.get("reading", {})
    ]
    scores: dict[tuple[Any, ...], list[float]] = {}
    families: dict[str, list[Row]] = {}
    for group in frame.grouped(rows, "model", "seed", "source").values():
        for target in group:
            others = [item for item in group if item is not target]
            if others:
                scores[_key(target)] = [ece(target, others, tried) for tried in TRIED]
                families.setdefault(target["family"], []).append(target)
    found: dict[tuple[Any, ...], float] = {}
    for family, own in families.items():
        rest = [
            np.mean([scores[_key(item)] for item in items], axis=0)
            for name, items in families.items()
            if name != family
        ]
        best = int(np.mean(rest, axis=0).argmin()) if rest else 0
        found |= {_key(item): scores[_key(item)][best] for item in own}
    return found


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "seed", "source", "target"))
