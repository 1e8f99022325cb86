"""Run the examples of the gallery, and the blocks `show` of the pages, while the site is built.

An example is a script in ``docs/gallery``. Its page is written into ``docs/gallery/generated``,
with what every cell prints and draws. It is run again only if the script or the library has
changed. A script that fails stops the build.
"""

from pathlib import Path
from typing import ClassVar

import changes
import executed
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

# In the order of the index.
EXAMPLES = (
    "pyg_model",
    "logits_only",
    "few_labels",
    "labelled_months",
    "class_shares",
    "node_temperatures",
    "prediction_sets",
    "large_graph",
    "own_shift",
    "own_estimator",
)


def setup(app):
    """Run the examples before pages are read; register the block."""
    app.connect("builder-inited", _write)
    app.add_directive("show", Show)
    return {"parallel_read_safe": False}


def _write(app):
    source = Path(app.srcdir)
    pages, pictures = source / "gallery" / "generated", source / "_generated" / "gallery"
    for folder in (pages, pictures):
        folder.mkdir(parents=True, exist_ok=True)
    index = []
    for name in EXAMPLES:
        script, page = source / "gallery" / f"{name}.py", pages / f"{name}.md"
        if changes.older(page, [script, *changes.library(source)]):
            docstring, cells = executed.run_script(script, pictures)
            page.write_text(executed.page(script, docstring, cells, source), "utf-8")
        index.append(_entry(name, page.read_text("utf-8")))
    changes.put(source / "_generated" / "gallery.md", "\n".join(index))


def _entry(name, page):
    """Return the picture and the title of an example."""
    lines = page.splitlines()
    title, summary = lines[0].removeprefix("# "), lines[2]
    picture = next(line for line in lines if line.startswith("![")).partition("](")[2][:-1]
    return (
        f"```{{figure}} {picture}\n:target: generated/{name}.html\n:alt: {title}\n"
        f":figclass: example\n\n[{title}](generated/{name}.md). {summary}\n```\n"
    )


class Show(SphinxDirective):
    """A block of code that is run while the page is read, and shown with what it prints.

    It can use the objects of `site_objects`, the functions that pages begin with, and the names of
    earlier blocks of its page. With the option ``figure``, what it draws is shown as well; the
    option describes the picture for those who cannot see it. The option ``hide`` is code that runs
    first and is not shown: what the page has done in blocks of another kind.
    """

    has_content = True
    option_spec: ClassVar = {
        "figure": directives.unchanged_required,
        "hide": directives.unchanged_required,
    }

    def run(self):
        """Return the code and its output."""
        namespace = self.env.temp_data.setdefault("shown names", None)
        if namespace is None:
            import site_objects

            namespace = self.env.temp_data["shown names"] = site_objects.names()
        code = "\n".join(self.content)
        stem = f"{self.env.docname.replace('/', '_')}_{self.lineno}"
        folder = Path(self.env.srcdir) / "_generated" / "shown"
        folder.mkdir(exist_ok=True, parents=True)
        executed.run(self.options.get("hide", ""), namespace, stem, folder)
        output, figures = executed.run(code, namespace, stem, folder)
        blocks = [nodes.literal_block(code, code, language="python")] if code else []
        if output:
            blocks.append(nodes.literal_block(output, output, language="text", classes=["output"]))
        for figure in figures if "figure" in self.options else ():
            address = f"/{figure.relative_to(self.env.srcdir).as_posix()}"
            blocks.append(nodes.image("", uri=address, alt=self.options["figure"]))
        return blocks
