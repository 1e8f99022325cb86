"""The explorer's page beside the others, as explore.html, and a role that links to it."""

from pathlib import Path

from docutils import nodes

PAGE = "explore.html"


def setup(app):
    """Write the page after a build; register the role `explorer`."""
    app.add_role("explorer", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


def _link(name, rawtext, text, lineno, inliner, options=None, content=None):
    # Pages may lie in folders, so the address leads up to the root first.
    document = inliner.document.settings.env.docname
    address = "../" * document.count("/") + PAGE
    return [nodes.reference(rawtext, text, refuri=address, internal=True)], []


def _write(app, error):
    if error is None and app.builder.format == "html":
        from graphtemper_research.explorer.page import write_page

        write_page(Path(app.outdir) / PAGE)
