"""The explorer as one HTML file: theory in JavaScript, charts by Vega, nothing fetched.

The page makes no request; the served one may request simulations from its own server.
"""

from __future__ import annotations

import os
from dataclasses import asdict

from graphtemper import __version__
from graphtemper._core.files import atomic_write
from graphtemper.recalibration.report.html import embeddable, render_page, text_of
from graphtemper_research.explorer.presets import PRESETS
from graphtemper_research.explorer.readings import State
from graphtemper_research.explorer.script import MODULES, script
from graphtemper_research.explorer.simulate import FEWEST_NODES, LARGEST_SEED, MOST_NODES
from graphtemper_research.explorer.sliders import CONTROLS, Control
from graphtemper_research.explorer.specifications import LARGEST_LOGIT, charts


def write_page(path: str | os.PathLike[str]) -> int:
    """Write the page that works from disk, and return its size in bytes."""
    page = render().encode("utf-8")
    with atomic_write(path) as stream:
        stream.write(page)
    return len(page)


def render(*, simulate: bool = False) -> str:
    """Return the page; with ``simulate`` it can request measured points from its server.

    The same version gives the same bytes.
    """
    facts = {
        "charts": charts(),
        "controls": [_control(control) for control in CONTROLS],
        "presets": {preset.name: _preset(preset.note, preset.state) for preset in PRESETS},
        "start": asdict(State()),
        "largestLogit": LARGEST_LOGIT,
        "simulate": simulate,
    }
    return render_page(
        text_of("graphtemper_research.explorer", "page.html"),
        script(*MODULES, "drawing", "wording", "explorer"),
        {
            "facts": embeddable(facts),
            "own_style": text_of("graphtemper_research.explorer", "page.css"),
        },
        connect="'self'" if simulate else "'none'",
        version=__version__,
        controls=CONTROLS,
        presets=PRESETS,
        start=asdict(State()),
        simulate=simulate,
        nodes=(FEWEST_NODES, MOST_NODES),
        largest_seed=LARGEST_SEED,
    )


def _control(control: Control) -> dict[str, object]:
    return asdict(control) | {"least": control.least, "most": control.most}


def _preset(note: str, state: State) -> dict[str, object]:
    return {"note": note, "state": asdict(state)}
