"""The style of the pictures: colour-blind safe, readable in print."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which stays distinct under the common colour-vision deficiencies.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#666666"
# Background of text that is drawn over lines.
LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "figure.dpi": 130,
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "savefig.bbox": "tight",
}


def draw(path: Path, content: Callable[[Figure], None], *, width: float, height: float) -> None:
    """Let ``content`` draw a figure, and write it as PNG, without a display."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "figures need matplotlib; run pip install 'graphtemper[plots]'."
        ) from error
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        content(figure)
        image = io.BytesIO()
        # No date or version inside, so that the same numbers give the same bytes.
        figure.savefig(image, format="png", metadata={"Software": None})
    path.write_bytes(image.getvalue())
