"""The explorer as one HTML file: sliders, tables of the theory, two charts; nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from pathlib import Path
from typing import Any

from graphtemper import __version__
from graphtemper_research.explorer import grid
from graphtemper_research.harness.html import embeddable, text_of
from graphtemper_research.harness.outcome import write_text

_PACKAGE = "graphtemper_research.explorer"
# Name, label, least, most, step; the last three of the decimal logarithm where it is one.
SLIDERS = (
    ("h_source", "Source homophily", 0.0, 1.0, 0.005, False),
    ("h_target", "Target homophily", 0.0, 1.0, 0.005, False),
    ("snr_source", "Source snr", -2.0, 1.0, 0.01, True),
    ("snr_target", "Target snr", -2.0, 1.0, 0.01, True),
    ("degree", "Mean degree", 0.61, 2.0, 0.01, True),
)
TILES = {
    "finite": "Slope κ at this degree",
    "temperature": "Temperature at this degree",
    "accuracy": "Accuracy at this degree",
    "limit": "Slope κ, large degrees",
    "loop": "Slope κ with self-loops",
    "limit accuracy": "Accuracy, large degrees",
    "confidence": "Confidence, large degrees",
    "gap": "Confidence minus accuracy",
}
# The paper's figures: homophily and snr of the source, those of the target, and the degree. Noise
# of variance gamma that is added to features divides the snr by 1 + gamma.
PRESETS = {
    "Fig. 2: fewer neighbours of the own class": (0.8, 1.0, 0.65, 1.0, 20.0),
    "Fig. 1: slope one half": (0.8, 0.2, 0.657, 0.2, 60.0),
    "Fig. 5: the over-confident end": (0.8, 1.0, 0.55, 1.0, 25.0),
    "Fig. 5: the under-confident end": (0.8, 1.0, 0.9, 1.0, 25.0),
    "Fig. 6: self-loops": (0.8, 1.0, 0.55, 1.0, 20.0),
    "Fig. 7: near the source": (0.8, 1.0, 0.75, 1.0, 25.0),
    "Fig. 8: the hottest corner": (0.75, 2.0, 0.57, 2.0, 16.0),
    "Fig. 10: minesweeper, noise level 1": (0.68, 1.0, 0.68, 0.5, 7.9),
    "Fig. 11: minesweeper, noise level 3": (0.68, 1.0, 0.68, 0.1, 7.9),
    "Fig. 12: minesweeper, rewired": (0.68, 1.0, 0.545, 1.0, 7.9),
}
NAMES = ("h_source", "snr_source", "h_target", "snr_target", "degree")


def write_page(path: str | os.PathLike[str]) -> int:
    """Write the page, and return its size in bytes."""
    page = render()
    write_text(Path(path), page)
    return len(page.encode("utf-8"))


def render() -> str:
    """Return the page; the same version gives the same bytes."""
    facts = {
        "tables": {name: table.round(4).tolist() for name, table in grid.tables().items()},
        "axes": [_ends(axis) for axis in grid.AXES.values()],
        "logits": [_ends(axis) for axis in grid.LOGITS.values()],
        "sharp": grid.SHARP,
        "presets": {
            name: dict(zip(NAMES, values, strict=True)) for name, values in PRESETS.items()
        },
    }
    script = text_of(_PACKAGE, "explorer.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    replaced = {
        "@POLICY@": html.escape(policy),
        "@VERSION@": html.escape(__version__),
        "@STYLE@": text_of("graphtemper.recalibration.report", "page.css"),
        "@PRESETS@": "".join(f"<option>{html.escape(name)}</option>" for name in PRESETS),
        "@SLIDERS@": "\n".join(_slider(*slider) for slider in SLIDERS),
        "@TILES@": "\n".join(
            f'<div class="tile"><dt>{words}</dt><dd><output data-reading="{name}"></output></dd>'
            "</div>"
            for name, words in TILES.items()
        ),
        "@SLOPE@": f"{grid.TOLERANCE['slope']:g}",
        "@SHARE@": f"{grid.TOLERANCE['share']:g}",
        "@FACTS@": embeddable(facts),
        "@SCRIPT@": script,
    }
    page = text_of(_PACKAGE, "page.html")
    for mark, text in replaced.items():
        page = page.replace(mark, text)
    return page


def _ends(axis: Any) -> dict[str, float]:
    return {"first": float(axis[0]), "last": float(axis[-1]), "count": len(axis)}


def _slider(name: str, label: str, least: float, most: float, step: float, log: bool) -> str:
    mark = ' data-log="1"' if log else ""
    return (
        f'<div><label for="{name}">{label}: <output id="{name}-value"></output></label>'
        f'<input type="range" id="{name}" min="{least}" max="{most}" step="{step}"{mark}></div>'
    )
