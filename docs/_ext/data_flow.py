"""The data-flow picture of the architecture page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphtemper.recalibration.report import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each step and the packages that implement it: once at the source, then at every target.
SOURCE = (
    ("labelled graph", "graph"),
    ("known shifts", "shifts"),
    ("logits", "models, pyg"),
    ("signals", "signals"),
    ("true accuracy", "card"),
    ("source card", "card"),
)
TARGET = (
    ("new graph", "graph"),
    ("logits", "models, pyg"),
    ("signals", "signals"),
    ("estimate", "recalibration"),
    ("temperature", "temperature"),
    ("probabilities", "recalibration"),
)
WIDTH, HEIGHT, GAP = 1.0, 0.62, 0.3


def draw(figure: Figure) -> None:
    """Draw one lane of steps per place; the card links the source to the target's estimate."""
    axes = figure.subplots()
    axes.set_axis_off()
    _lane(axes, SOURCE, 1.55, style.BLUE, "at the source, once, with labels")
    _lane(axes, TARGET, 0.0, style.GREEN, "at every new graph, without labels")
    card, estimate = 5, 3
    start = (_left(card) + WIDTH / 2, 1.55)
    bend, end = 1.1, (_left(estimate) + WIDTH / 2, HEIGHT + 0.02)
    axes.plot([start[0], start[0], end[0]], [start[1], bend, bend], color=style.ORANGE)
    _arrow(axes, (end[0], bend), end, style.ORANGE)
    axes.text(
        (start[0] + end[0]) / 2, bend - 0.06, "a small file that travels", color="#8a5f00",
        ha="center", va="top",
    )  # fmt: skip
    axes.set_xlim(-0.05, _left(5) + WIDTH + 0.05)
    axes.set_ylim(-0.05, 1.55 + HEIGHT + 0.3)


def _left(number: int) -> float:
    return number * (WIDTH + GAP)


def _lane(axes, boxes, bottom, colour, title) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.text(0.0, bottom + HEIGHT + 0.1, title, color=colour, weight="bold")
    for number, (name, packages) in enumerate(boxes):
        left = _left(number)
        axes.add_patch(
            FancyBboxPatch(
                (left, bottom), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.06",
                facecolor="white", edgecolor=colour, linewidth=1.4,
            )
        )  # fmt: skip
        axes.text(left + WIDTH / 2, bottom + 0.44, name, ha="center", va="center", weight="bold")
        axes.text(
            left + WIDTH / 2, bottom + 0.19, packages, ha="center", va="center",
            fontsize=7.5, family="monospace", color=style.GREY,
        )  # fmt: skip
        if number:
            middle = bottom + HEIGHT / 2
            _arrow(axes, (left - GAP, middle), (left - 0.02, middle), colour)


def _arrow(axes, start, end, colour) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0})
