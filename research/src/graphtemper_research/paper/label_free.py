"""How well unlabelled logits alone reveal the temperature, on the grids of the theory figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.errors import NotIdentifiableError
from graphtemper.recalibration.report import style
from graphtemper_research.harness.outcome import Comparison, Outcome
from graphtemper_research.paper import slope_grid, temperature_grid
from graphtemper_research.paper.frozen_binary import Frozen, Setting, oracle, summary
from graphtemper_research.theory_extensions.label_free import binary as mixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inside this range of true accuracies an answer is expected, outside it none.
EXPECTED = (0.75, 0.99)
TOLERANCE = 0.10
LARGE_NODES, LARGE_SEEDS = 20_000, 1


def run() -> Outcome:
    """Fit the mixture on the slope grid, the temperature grid, and the latter on large graphs."""
    slope = measured(slope_grid.SETTING, slope_grid.TARGETS, slope_grid.SEEDS)
    small, large = (
        [row for snr in temperature_grid.SNRS for row in _temperature_rows(nodes, snr, seeds)]
        for nodes, seeds in (
            (temperature_grid.NUM_NODES, temperature_grid.SEEDS),
            (LARGE_NODES, LARGE_SEEDS),
        )
    )
    grids = {"slope grid": slope, "temperature grid": small, "temperature grid, large": large}
    return Outcome(
        name="label-free",
        title="The temperature from unlabelled logits",
        settings={
            "N": [slope_grid.SETTING.num_nodes, temperature_grid.NUM_NODES, LARGE_NODES],
            "seeds": [slope_grid.SEEDS, temperature_grid.SEEDS, LARGE_SEEDS],
            "snr": "estimated on the labelled source",
        },
        comparisons=[item for name, rows in grids.items() for item in _compare(name, rows)],
        rows=[{"grid": name, **row} for name, rows in grids.items() for row in rows],
        draw=lambda figure: _draw(figure, grids),
    )


def _temperature_rows(num_nodes: int, snr: float, seeds: int) -> list[dict[str, Any]]:
    setting = Setting(num_nodes, temperature_grid.DEGREE, temperature_grid.H_SOURCE, snr)
    return measured(setting, temperature_grid.TARGETS, seeds)


def measured(setting: Setting, targets: Sequence[float], seeds: int) -> list[dict[str, Any]]:
    """Return one row per target homophily: the mixture's answers next to the oracle's.

    Averages are over the seeds that gave an answer, for both.
    """
    frozen = [Frozen.train(setting, seed) for seed in range(seeds)]
    rows = []
    for h_target in targets:
        pairs, accuracies = [], []
        for seed, classifier in enumerate(frozen):
            target = setting.draw(h_target, seed)
            assert target.labels is not None
            logits = classifier.logits(target)
            accuracies.append(float((logits.argmax(axis=1) == target.labels).mean()))
            truth = oracle(logits, target.labels)
            try:
                fitted = mixture.fit_binary(
                    logits[:, 1] - logits[:, 0],
                    target.degrees,
                    snr=classifier.source_snr,
                    snr_factor=1.0,
                )
            except NotIdentifiableError:
                continue
            pairs.append((fitted.temperature, truth))
        both = [(answer, truth) for answer, truth in pairs if truth is not None]
        mean, spread, _ = summary([answer for answer, _ in both]) if both else (None, None, None)
        rows.append(
            {
                "num_nodes": setting.num_nodes,
                "snr": setting.snr,
                "h_target": h_target,
                "accuracy": float(np.mean(accuracies)),
                "seeds": seeds,
                "answers": len(pairs),
                "temperature": mean,
                "spread": spread,
                "oracle": float(np.mean([truth for _, truth in both])) if both else None,
            }
        )
    return rows


def _compare(grid: str, rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    inside = [row for row in rows if EXPECTED[0] <= row["accuracy"] <= EXPECTED[1]]
    outside = [row for row in rows if row not in inside]
    answered = [row for row in inside if row["temperature"] is not None]
    good = [row for row in answered if abs(row["temperature"] / row["oracle"] - 1) <= TOLERANCE]
    wrong = [row for row in answered if row not in good]
    silent = [row for row in inside if row not in answered]
    spoken = [row for row in outside if row["answers"]]
    return [
        Comparison(
            f"{grid}: T within 10 % of the oracle (accuracy in {EXPECTED[0]}-{EXPECTED[1]})",
            len(good),
            f"all {len(inside)} points",
            len(good) == len(inside),
            note="; ".join(_describe(row) for row in [*wrong, *silent]),
        ),
        Comparison(
            f"{grid}: answers that are more than 10 % off",
            len(wrong),
            "0",
            not wrong,
            note="; ".join(_describe(row) for row in wrong),
        ),
        Comparison(
            f"{grid}: points outside that range where any seed answers",
            len(spoken),
            f"0 of {len(outside)}",
            not spoken,
            note="; ".join(_describe(row) for row in spoken),
        ),
    ]


def _describe(row: dict[str, Any]) -> str:
    place = f"h_t = {row['h_target']}, snr = {row['snr']}"
    if row["temperature"] is None:
        return f"{place}: not identifiable (accuracy {row['accuracy']:.2f})"
    return (
        f"{place}: {row['temperature']:.2f} against {row['oracle']:.2f} "
        f"({row['answers']} of {row['seeds']} seeds, accuracy {row['accuracy']:.2f})"
    )


def _draw(figure: Figure, grids: dict[str, list[dict[str, Any]]]) -> None:
    panels = figure.subplots(1, len(grids), sharey=True)
    for axes, (name, rows) in zip(panels, grids.items(), strict=True):
        answered = [row for row in rows if row["temperature"] is not None]
        values = [row["oracle"] for row in answered] or [1.0]
        limit = [0.85 * min(values), 1.15 * max(values)]
        axes.fill_between(
            limit, np.multiply(limit, 0.9), np.multiply(limit, 1.1), color=style.SKY, alpha=0.25
        )
        axes.plot(limit, limit, color=style.GREY, linewidth=0.8)
        axes.plot(
            [row["oracle"] for row in answered],
            [row["temperature"] for row in answered],
            "x",
            color=style.PURPLE,
        )
        axes.set(xlabel="oracle temperature", title=f"{name}\n({len(answered)} of {len(rows)})")
    panels[0].set_ylabel("label-free temperature (10 % band)")
