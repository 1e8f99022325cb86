"""Files beside the pages: the demo's report, the explorer, and ``llms.txt``.

The role ``whole`` links to one of them: ``{whole}`the report <report.html>` ``.
"""

import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import ReferenceRole

PURPOSE = (
    "How good is a graph neural network on this month's graph, before the labels arrive? "
    "graphtemper estimates accuracy with an interval, says whether to trust it, and corrects "
    "the probabilities."
)


def setup(app):
    """Write the files after a build."""
    app.add_role("whole", Whole())
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


class Whole(ReferenceRole):
    """A link to a file at the root of the site."""

    def run(self):
        """Return the link, relative to the page."""
        address = "../" * self.env.docname.count("/") + self.target
        return [nodes.reference(self.rawtext, self.title, refuri=address, internal=True)], []


def _write(app, error):
    if error is not None or app.builder.format != "html":
        return
    from graphtemper_research.explorer.page import write_page as write_explorer

    source, out = Path(app.srcdir), Path(app.outdir)
    shutil.copy(source / "_generated" / "report.html", out)
    write_explorer(out / "explore.html")
    lines = [f"# {app.config.project} {app.config.release}", "", f"> {PURPOSE}", ""]
    lines += [
        f"- [{title.astext()}]({name}.html)" for name, title in sorted(app.env.titles.items())
    ]
    (out / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
