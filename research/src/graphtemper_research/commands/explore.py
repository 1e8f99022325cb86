"""`graphtemper explore`: the theory with sliders, as one page."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from graphtemper.cli.options import Json
from graphtemper.cli.output import print_json, print_line, working


def explore(*, out: Path = Path("explorer.html"), show: bool = True, as_json: Json = False) -> None:
    """Write the explorer, a page that needs no server, and open it in a browser.

    Parameters
    ----------
    out
        Write the page to this file.
    show
        Open it; not with ``--json``.
    as_json
        Print JSON for machines.
    """
    from graphtemper_research.explorer.page import write_page

    with working("the page", as_json):
        size = write_page(out)
    if as_json:
        print_json({"page": str(out), "bytes": size})
        return
    print_line(f"Page: {out}")
    if show:
        webbrowser.open(out.absolute().as_uri())
