"""`graphtemper explore`: the theory with sliders, in a browser."""

from __future__ import annotations

from pathlib import Path

from graphtemper.cli.options import Json
from graphtemper.cli.output import print_json, print_line, working


def explore(*, port: int = 8417, out: Path | None = None, as_json: Json = False) -> None:
    """Serve the explorer on this machine, or write it as one page that needs no server.

    Only the served page can simulate. Ctrl-C ends the server.

    Parameters
    ----------
    port
        Port on 127.0.0.1; 0 takes a free one.
    out
        Write the page to this file and serve nothing.
    as_json
        Print JSON for machines.
    """
    from graphtemper_research.explorer.page import render, write_page

    with working("the page", as_json):
        if out is None:
            page = render(simulate=True)
        else:
            size = write_page(out)
    if out is not None:
        if as_json:
            print_json({"page": str(out), "bytes": size})
        else:
            print_line(f"Page: {out}")
        return
    _serve(page, port, as_json)


def _serve(page: str, port: int, as_json: bool) -> None:
    from graphtemper_research.explorer.server import ExplorerServer

    with ExplorerServer(page, port) as server:
        if as_json:
            # One line, at once: a program that started this waits for the address.
            print(f'{{"url": "{server.url}"}}', flush=True)
        else:
            print_line(f"Open {server.url} (Ctrl-C ends the server)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            # The usual end of a server, not a job that was cut short.
            if not as_json:
                print_line("Stopped.")
