"""Figure `fig:concept`: confidence sigma(t) against accuracy sigma(kappa t), with measured dots."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from graphtemper import theory
from graphtemper_research.harness import style
from graphtemper_research.harness.outcome import Comparison, Outcome
from graphtemper_research.paper.frozen_binary import Frozen, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOPE = 0.5
# A large degree, because the figure draws the theory's large-degree limit.
SETTING = Setting(num_nodes=20_000, degree=60, h_source=0.8, snr=0.2)
BINS = 10


def run() -> Outcome:
    """Draw the two curves at slope 0.5, and the accuracy of a simulated model on them."""
    h_target = float(
        brentq(lambda h: float(theory.slope(h, SETTING.h_source, SETTING.snr)) - SLOPE, 0.51, 0.8)
    )
    rows = _measured(h_target)
    worst = max(rows, key=lambda row: abs(row["accuracy"] - row["theory_accuracy"]))
    difference = abs(worst["accuracy"] - worst["theory_accuracy"])
    inside = sum(abs(row["accuracy"] - row["theory_accuracy"]) <= 3 * row["error"] for row in rows)
    return Outcome(
        name="concept",
        title="Confidence and accuracy at slope 0.5",
        settings={
            "N": SETTING.num_nodes,
            "degree": SETTING.degree,
            "h_s": SETTING.h_source,
            "snr": SETTING.snr,
            "h_t": round(h_target, 4),
        },
        comparisons=[
            Comparison(
                "bins whose accuracy lies on sigma(kappa t) within 3 standard errors",
                inside,
                f">= {BINS - 1} of {len(rows)}",
                inside >= len(rows) - 1,
                note=f"largest difference {difference:.3f} at t = {worst['t']:.2f}",
            )
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(5.0, 3.2),
    )


def _measured(h_target: float) -> list[dict[str, Any]]:
    target = SETTING.draw(h_target, 0)
    assert target.labels is not None
    logits = Frozen.train(SETTING, 0).logits(target)
    delta = logits[:, 1] - logits[:, 0]
    size, correct = np.abs(delta), (delta > 0) == (target.labels == 1)
    edges = np.quantile(size, np.linspace(0, 1, BINS + 1))
    rows = []
    for low, high in pairwise(edges):
        chosen = (size >= low) & ((size < high) | (high == edges[-1]))
        rows.append(
            {
                "t": float(size[chosen].mean()),
                "confidence": float(expit(size[chosen]).mean()),
                "theory_accuracy": float(expit(SLOPE * size[chosen]).mean()),
                "accuracy": float(correct[chosen].mean()),
                "error": float(correct[chosen].std() / np.sqrt(chosen.sum())),
            }
        )
    return rows


def _draw(figure: Figure, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    t = np.linspace(0, max(6.0, max(row["t"] for row in rows)), 200)
    confidence, accuracy = expit(t), expit(SLOPE * t)
    axes.fill_between(t, accuracy, confidence, color=style.SKY, alpha=0.25, linewidth=0)
    axes.plot(t, confidence, color=style.BLUE)
    axes.plot(t, accuracy, "--", color=style.RED)
    axes.plot(
        [row["t"] for row in rows],
        [row["accuracy"] for row in rows],
        "o",
        color=style.RED,
        label="simulated accuracy",
    )
    axes.text(t[70], confidence[70] + 0.015, "confidence", color=style.BLUE, ha="right")
    axes.text(t[100], accuracy[100] - 0.05, "accuracy, slope 0.5", color=style.RED)
    axes.set(xlabel="logit magnitude", ylabel="probability", title="The calibration slope")
    axes.legend(loc="lower right")
