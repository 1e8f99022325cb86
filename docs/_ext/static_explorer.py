"""Write the explorer's page next to the others, as explore.html; define a role that links to it."""

from pathlib import Path

from docutils import nodes

PAGE = "explore.html"


def setup(app):
    """Write the page after a build; register the role `explorer`."""
    app.add_role("explorer", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


def _link(name, rawtext, text, lineno, inliner, options=None, content=None):
    # Pages may be in folders, so the address is relative to the root.
    document = inliner.document.settings.env.docname
    address = "../" * document.count("/") + PAGE
    return [nodes.reference(rawtext, text, refuri=address, internal=True)], []


def _write(app, error):
    if error is None and app.builder.format == "html":
        from graphtemper_research.explorer.page import write_page

        write_page(Path(app.outdir) / PAGE)
