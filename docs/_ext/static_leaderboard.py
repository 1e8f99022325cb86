"""Write the leaderboard's page next to the others, as leaderboard.html; a role links to it."""

from pathlib import Path

from docutils import nodes

PAGE = "leaderboard.html"
TABLE = Path(__file__).parents[1] / "results" / "leaderboard_raw.csv"


def setup(app):
    """Write the page after a build; register the role `board`."""
    app.add_role("board", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


def _link(name, rawtext, text, lineno, inliner, options=None, content=None):
    # Pages may be in folders, so the address is relative to the root.
    document = inliner.document.settings.env.docname
    address = "../" * document.count("/") + PAGE
    return [nodes.reference(rawtext, text, refuri=address, internal=True)], []


def _write(app, error):
    if error is None and app.builder.format == "html" and TABLE.is_file():
        from graphtemper_research.leaderboard.page import write_page

        write_page(Path(app.outdir) / PAGE, TABLE)
