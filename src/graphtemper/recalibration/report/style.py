"""One style for every static figure: colour-blind safe, direct labels, readable in print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from graphtemper._core.files import atomic_write
from graphtemper.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which stays distinct under the common colour-vision deficiencies.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#666666"

SETTINGS = Path(__file__).with_name("figures.mplstyle")

# Background of text that is drawn over lines.
LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


def check_extra() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed."""
    require("plots", "a figure", "matplotlib.figure")


def draw(
    path: Path, content: Callable[[Figure], None], *, width: float = 7.0, height: float = 3.2
) -> Path:
    """Let ``content`` draw a figure, and write it as PNG, atomically and without a display."""
    check_extra()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        content(figure)
        with atomic_write(path) as stream:
            # No date or version inside, so that the same numbers give the same bytes.
            figure.savefig(stream, format="png", metadata={"Software": None})
    return path
