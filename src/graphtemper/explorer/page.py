"""The explorer as one HTML file: theory in JavaScript, charts by Vega, nothing fetched.

The page forbids itself every request; the served one may ask its own server for simulations.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import asdict
from importlib import import_module, resources

from graphtemper import __version__
from graphtemper.explorer.charts import LARGEST_LOGIT, charts
from graphtemper.explorer.controls import CONTROLS, Control
from graphtemper.explorer.presets import PRESETS
from graphtemper.explorer.readings import State
from graphtemper.explorer.script import MODULES, script
from graphtemper.explorer.simulate import FEWEST_NODES, LARGEST_SEED, MOST_NODES
from graphtemper.files import atomic_write
from graphtemper.report.page import check_extra, embeddable, vega_bundle


def write_page(path: str | os.PathLike[str]) -> int:
    """Write the page that works from disk, and return its size in bytes."""
    page = render().encode("utf-8")
    with atomic_write(path) as stream:
        stream.write(page)
    return len(page)


def render(*, simulate: bool = False) -> str:
    """Return the page; with ``simulate`` it can ask the server that serves it for measured points.

    The same version gives the same bytes.
    """
    check_extra()
    jinja = import_module("jinja2")
    markup = jinja.utils.markupsafe.Markup
    library, code = vega_bundle(), script(*MODULES, "drawing", "wording", "explorer")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    facts = {
        "charts": charts(),
        "controls": [_control(control) for control in CONTROLS],
        "presets": {preset.name: _preset(preset.note, preset.state) for preset in PRESETS},
        "start": asdict(State()),
        "largestLogit": LARGEST_LOGIT,
        "simulate": simulate,
    }
    page: str = environment.from_string(_text("graphtemper.explorer", "page.html")).render(
        version=__version__,
        policy=_policy(library, code, connect="'self'" if simulate else "'none'"),
        style=markup(_text("graphtemper.report", "page.css")),
        own_style=markup(_text("graphtemper.explorer", "page.css")),
        library=markup(library),
        script=markup(code),
        facts=markup(embeddable(facts)),
        controls=CONTROLS,
        presets=PRESETS,
        start=asdict(State()),
        simulate=simulate,
        nodes=(FEWEST_NODES, MOST_NODES),
        largest_seed=LARGEST_SEED,
    )
    return page


def _control(control: Control) -> dict[str, object]:
    return asdict(control) | {"least": control.least, "most": control.most}


def _preset(note: str, state: State) -> dict[str, object]:
    return {"note": note, "state": asdict(state)}


def _policy(*scripts: str, connect: str) -> str:
    """Allow these scripts by their hashes, and no others."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()) for text in scripts)
    allowed = " ".join(f"'sha256-{value.decode('ascii')}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
