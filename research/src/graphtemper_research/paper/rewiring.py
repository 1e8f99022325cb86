"""Figure `fig:struct`: rewired edges, and whether one oracle temperature repairs them.

Either end of an edge is replaced, on three splits; `homophily_study` rewires as the authors do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphtemper_research.graphs import datasets
from graphtemper_research.harness import style
from graphtemper_research.harness.frame import select
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper.real_graphs import REWIRE_LEVELS, SPLITS, measured, present
from graphtemper_research.paper.sweep import gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = 0.03
# As printed: uncalibrated ECE of minesweeper without rewiring and at 75 %.
PUBLISHED = {0.0: 0.07, 0.75: 0.14}
TOLERANCE = 0.01


def run(names: Sequence[str] | None = None) -> Outcome:
    """Rewire shares of the edges on every graph that is present."""
    here, absent = present(names)
    rows = select(measured(here), shift="rewire")
    plain = select(rows, mode="as-published", method="uncalibrated")
    oracle = select(rows, mode="corrected", method="oracle")
    comparisons = []
    if "minesweeper" in here:
        comparisons += [
            _minesweeper(level, published, plain) for level, published in PUBLISHED.items()
        ]
        comparisons.append(_claim("minesweeper", oracle))
    above = {row["graph"] for row in oracle if row["ece"] - _half_width(row) > CLAIM}
    above_floor = {
        row["graph"]
        for row in oracle
        if row["ece"] - _half_width(row) > max(CLAIM, row["noise_floor"] + 0.01)
    }
    comparisons += [
        reported(
            f"graphs with an oracle ECE above {CLAIM} at some share, of {len(here)}",
            len(above),
            ", ".join(sorted(above)),
            published="none (<= 0.03 on all five)",
        ),
        reported(
            "of these, graphs where the noise floor of ECE does not explain it",
            len(above_floor),
            ", ".join(sorted(above_floor)),
        ),
    ]
    missing = [name for name in datasets.HETEROPHILOUS if name in absent]
    return Outcome(
        name="rewiring",
        title="Rewired edges",
        settings={
            "share": list(REWIRE_LEVELS),
            "splits": SPLITS,
            "graphs": len(here),
            "not here": ", ".join(missing) or "none",
        },
        comparisons=comparisons,
        rows=[*plain, *select(rows, mode="corrected", method="uncalibrated"), *oracle],
        draw=lambda figure: _draw(figure, here, rows),
        size=(5.0, 3.4),
    )


def _half_width(row: dict[str, Any]) -> float:
    return float(2 * row["ece_spread"] / SPLITS**0.5)


def _minesweeper(level: float, published: float, plain: Sequence[dict[str, Any]]) -> Comparison:
    row = select(plain, graph="minesweeper", level=level)[0]
    return Comparison(
        f"minesweeper: uncalibrated ECE with {level:.0%} rewired, as published",
        row["ece"],
        f"within {TOLERANCE}",
        abs(row["ece"] - published) <= TOLERANCE,
        published=published,
        spread=row["ece_spread"],
    )


def _claim(name: str, oracle: Sequence[dict[str, Any]]) -> Comparison:
    row = select(oracle, graph=name, level=REWIRE_LEVELS[-1])[0]
    return reported(
        f"{name}: ECE after the oracle temperature with 75 % rewired",
        row["ece"],
        (
            f"the claim {'holds' if row['ece'] <= CLAIM else 'does not hold'}; a perfectly "
            f"calibrated model would show {row['noise_floor']:.3f}"
        ),
        published="<= 0.03",
        spread=row["ece_spread"],
    )


def _draw(figure: Figure, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    axes = figure.subplots()
    for name in names:
        in_paper = name in datasets.HETEROPHILOUS
        weight = 2.0 if in_paper else 0.7
        for method, line, colour in (
            ("uncalibrated", "-", style.RED if in_paper else style.GREY),
            ("oracle", "--", style.GREEN if in_paper else style.GREY),
        ):
            part = gaps(select(rows, mode="corrected", method=method), name)
            values = [row["ece"] for row in part]
            axes.plot(REWIRE_LEVELS, values, line, color=colour, linewidth=weight)
            if in_paper and method == "uncalibrated":
                place = (REWIRE_LEVELS[-1], values[-1])
                axes.annotate(name, place, color=colour, ha="right", bbox=style.LABEL)
    axes.axhline(CLAIM, color="black", linewidth=0.8)
    axes.annotate("claimed for the oracle", (0.3, CLAIM), va="bottom", fontsize=8, bbox=style.LABEL)
    axes.set(
        xlabel="share of edges rewired",
        ylabel="ECE",
        title="Uncalibrated (solid) and oracle temperature (dashed)",
    )
