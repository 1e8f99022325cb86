"""Figure `fig:sweep`: the gap between confidence and accuracy under growing feature noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper_research.harness import style
from graphtemper_research.harness.frame import select
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper.real_graphs import (
    MODES,
    NOISE_LEVELS,
    SPLITS,
    measured,
    present,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The printed range of the gap, first and last noise level.
PUBLISHED_GAP = {"minesweeper": (0.07, 0.29), "roman_empire": (-0.07, 0.57)}
TOLERANCE = 0.015


def run(names: Sequence[str] | None = None) -> Outcome:
    """Measure the gap and the oracle's ECE at every noise level on every graph that is present."""
    here, absent = present(names)
    rows = select(measured(here), shift="noise")
    plain = {mode: select(rows, mode=mode, method="uncalibrated") for mode in MODES}
    oracle = select(rows, mode="corrected", method="oracle")
    comparisons = [
        item
        for name in PUBLISHED_GAP
        if name in here
        for item in _published(name, plain["as-published"])
    ]
    comparisons += [item for mode in MODES for item in _claims(here, mode, plain[mode])]
    worst = max(oracle, key=lambda row: row["ece"] - row["noise_floor"])
    comparisons.append(
        reported(
            "oracle temperature: largest ECE above the noise floor, any graph and level",
            worst["ece"] - worst["noise_floor"],
            f"{worst['graph']} at noise {worst['level']}: ECE {worst['ece']:.3f}",
            published="stays low",
        )
    )
    return Outcome(
        name="sweep",
        title="The gap under growing feature noise",
        settings={
            "noise": list(NOISE_LEVELS),
            "splits": SPLITS,
            "graphs": len(here),
            "not here": ", ".join(name for name in PUBLISHED_GAP if name in absent) or "none",
        },
        comparisons=comparisons,
        rows=[*plain["as-published"], *plain["corrected"], *oracle],
        draw=lambda figure: _draw(figure, here, plain["corrected"], oracle),
        size=(7.0, 3.6),
    )


def gaps(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return one graph's rows in order of the noise level."""
    return sorted(select(rows, graph=name), key=lambda row: row["level"])


def _published(name: str, rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    ends = [gaps(rows, name)[i] for i in (0, -1)]
    return [
        Comparison(
            f"{name}: gap at noise {row['level']}, as published",
            row["gap"],
            f"within {TOLERANCE}",
            abs(row["gap"] - published) <= TOLERANCE,
            published=published,
            spread=row["gap_spread"],
        )
        for row, published in zip(ends, PUBLISHED_GAP[name], strict=True)
    ]


def _claims(here: Sequence[str], mode: str, rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    falling, negative, changes = [], [], []
    for name in here:
        line = gaps(rows, name)
        values = np.array([row["gap"] for row in line])
        # A step down counts when it is larger than the splits' own spread.
        spread = max(row["gap_spread"] for row in line)
        if (np.diff(values) < -2 * spread / np.sqrt(SPLITS)).any():
            falling.append(name)
        if values.min() < -2 * spread / np.sqrt(SPLITS):
            negative.append(name)
            if values.max() > 0:
                changes.append(name)
    total = len(here)
    return [
        reported(
            f"{mode}: graphs whose gap falls somewhere as noise grows, of {total}",
            len(falling),
            ", ".join(falling),
            published="grows monotonically",
        ),
        reported(
            f"{mode}: graphs that are under-confident at some level, of {total}",
            len(negative),
            ", ".join(negative),
            published="never under-confident",
        ),
        reported(
            f"{mode}: graphs whose gap changes sign, of {total}",
            len(changes),
            ", ".join(changes),
            published="never changes sign",
        ),
    ]


def _draw(
    figure: Figure,
    names: Sequence[str],
    plain: Sequence[dict[str, Any]],
    oracle: Sequence[dict[str, Any]],
) -> None:
    left, right = figure.subplots(1, 2)
    for name in names:
        line = gaps(plain, name)
        in_paper = name in PUBLISHED_GAP
        colour, weight = (style.RED, 2.0) if in_paper else (style.GREY, 0.8)
        level = [row["level"] for row in line]
        left.plot(level, [row["gap"] for row in line], color=colour, linewidth=weight)
        right.plot(
            level,
            [row["ece"] for row in gaps(oracle, name)],
            "--",
            color=style.GREEN if in_paper else style.GREY,
            linewidth=weight,
        )
        if in_paper:
            left.annotate(
                name, (level[-1], line[-1]["gap"]), color=colour, ha="right", bbox=style.LABEL
            )
    left.axhline(0, color="black", linewidth=0.8)
    left.set(xlabel="noise level", ylabel="confidence - accuracy", title="Gap (corrected logits)")
    right.set(xlabel="noise level", ylabel="ECE", title="After the oracle temperature")
