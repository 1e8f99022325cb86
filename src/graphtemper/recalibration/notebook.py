"""HTML for notebooks: a small table, and a small picture where matplotlib is installed."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def table(title: str, rows: Mapping[str, str]) -> str:
    """Return a table with a title and one row per name.

    Examples
    --------
    >>> table("a < b", {"x": "1"})
    '<table><caption>a &lt; b</caption><tr><th>x</th><td>1</td></tr></table>'
    """
    cells = (
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items()
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(cells)}</table>"


def picture(draw: Callable[[Axes], object], description: str) -> str:
    """Return what ``draw`` draws as an inline image, or "" if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(4.8, 2.0), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=80)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">'
