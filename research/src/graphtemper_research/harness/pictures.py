"""What the pictures of several benches share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphtemper_research.harness import style
from graphtemper_research.harness.frame import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour and marker of every method.
Marks = Mapping[str, tuple[str, str]]


def dots(
    axes: Axes,
    marks: Marks,
    points: Mapping[str, Sequence[tuple[str, float]]],
    xlabel: str,
    title: str = "",
) -> None:
    """Draw one row of dots per name, one dot per method, the first name on top.

    ``points`` holds the names and values of every method.
    """
    for method, (colour, marker) in marks.items():
        axes.plot(
            [value for _, value in points[method]],
            [name for name, _ in points[method]],
            marker,
            color=colour,
            label=method,
            alpha=0.85,
        )
    axes.set(xlabel=xlabel, title=title)
    axes.yaxis.set_inverted(True)


def scatter(
    axes: Axes, groups: Mapping[str, Sequence[Row]], x: str, y: str, colours: Mapping[str, str] = {}
) -> None:
    """Draw the rows of every group as dots, and the diagonal."""
    values = [row[key] for rows in groups.values() for row in rows for key in (x, y)]
    most = max(values, default=1.0)
    axes.plot([0.0, most], [0.0, most], color=style.GREY, linewidth=0.8)
    for name, rows in groups.items():
        axes.plot(
            [row[x] for row in rows],
            [row[y] for row in rows],
            "o",
            markersize=4,
            color=colours.get(name),
            label=name,
            alpha=0.8,
        )


def legend_below(figure: Figure, axes: Axes, columns: int = 0) -> None:
    """Put the legend of one panel under the whole figure."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=columns or len(names))
