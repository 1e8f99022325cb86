"""The leaderboard as one HTML file: sorted and filtered in the browser, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from pathlib import Path
from typing import Any

from scipy.stats import t

from graphtemper import __version__
from graphtemper_research.harness.frame import Rows
from graphtemper_research.harness.html import embeddable, text_of
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.harness.provenance import commit
from graphtemper_research.leaderboard.board import PROTOCOL
from graphtemper_research.leaderboard.methods import KIND
from graphtemper_research.leaderboard.raw import encoded, hours
from graphtemper_research.leaderboard.standings import LEVEL
from graphtemper_research.leaderboard.tasks import KNOWN, UNSHIFTED
from graphtemper_research.trials.trial import SOURCE

_PACKAGE = "graphtemper_research.leaderboard"


def write_page(path: str | os.PathLike[str], rows: Rows) -> int:
    """Write the page of raw rows, and return its size in bytes."""
    page = render(rows)
    write_text(Path(path), page)
    return len(page.encode("utf-8"))


def render(rows: Rows) -> str:
    """Return the page; the same rows give the same bytes."""
    cells = {(row["setting"], row["graph"], row["model"], row["seed"]) for row in rows}
    facts = {
        "table": encoded(rows),
        "kinds": KIND,
        "source": SOURCE,
        "unshifted": UNSHIFTED,
        # Quantiles of Student's t for 1, 2, ... degrees of freedom.
        "quantiles": [float(t.ppf(0.5 + LEVEL / 2, n)) for n in range(1, max(len(cells), 2))],
    }
    script = text_of(_PACKAGE, "page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    replaced = {
        "@POLICY@": html.escape(policy),
        "@VERSION@": html.escape(__version__),
        "@MADE@": html.escape(_made(rows)),
        "@STYLE@": text_of("graphtemper.recalibration.report", "page.css"),
        "@FACTS@": embeddable(facts),
        "@SCRIPT@": script,
    }
    page = text_of(_PACKAGE, "page.html")
    for mark, text in replaced.items():
        page = page.replace(mark, text)
    return page


def _on_fewer_graphs(rows: list[dict[str, Any]]) -> str:
    """Name the methods that have fewer graphs under known shifts than others, and how many.

    Examples
    --------
    >>> _on_fewer_graphs([{"setting": KNOWN, "graph": g, "method": "Tent"} for g in "ab"])
    ''
    """
    graphs: dict[str, set[str]] = {}
    for row in rows:
        if row["setting"] == KNOWN:
            graphs.setdefault(row["method"], set()).add(row["graph"])
    whole = max(map(len, graphs.values()), default=0)
    few = [f"{name} {len(own)}" for name, own in sorted(graphs.items()) if len(own) < whole]
    return f" Of the {whole} graphs, some methods have fewer: {', '.join(few)}." if few else ""


def _made(rows: list[dict[str, Any]]) -> str:
    """Return the protocol, the time and the code of a table."""
    cpu, wall = hours(rows)
    return (
        f"{PROTOCOL}{_on_fewer_graphs(rows)} All cells together took {cpu:.1f} hours of one "
        f"processor ({wall:.1f} hours by the clock, on a machine with other work). Commit: "
        f"{commit()}."
    )
