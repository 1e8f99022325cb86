"""Write every page as Markdown next to its HTML, and ``llms.txt``, a list of all of them.

A twin has what the page shows, with included parts and the output of examples. Programs that read
text, such as language models, start from ``llms.txt`` at the root of the site.
"""

import posixpath
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

PURPOSE = (
    "How good is a graph neural network on this month's graph, before the labels arrive? "
    "graphtemper estimates accuracy with an interval, says whether to trust it, and corrects "
    "the probabilities."
)
SILENT = (nodes.raw, nodes.comment, nodes.target, addnodes.toctree, addnodes.index, nodes.colspec)


def setup(app):
    """Keep the text of pages while they are written; write the files after the build."""
    app.connect("doctree-resolved", _keep)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


def _keep(app, doctree, docname):
    path = Path(app.outdir) / f"{docname}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(blocks(doctree).strip() + "\n", "utf-8")


def _write(app, error):
    if error is not None or app.builder.format != "html":
        return
    env = app.env
    lines = [f"# {app.config.project} {app.config.release}", "", f"> {PURPOSE}"]
    lines += ["", f"The start page is {_link(env, 'index')}."]
    index = env.get_doctree("index")
    seen = {"index"}
    for tree in index.findall(addnodes.toctree):
        lines += ["", f"## {tree['caption']}", ""]
        for name in tree["includefiles"]:
            lines += _entries(env, name, seen, "")
    rest = sorted(set(env.found_docs) - seen)
    lines += ["", "## Optional", "", *(f"- {_link(env, name)}" for name in rest)]
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _entries(env, name, seen, indent):
    if name in seen:
        return []
    seen.add(name)
    lines = [f"{indent}- {_link(env, name)}"]
    for child in env.toctree_includes.get(name, ()):
        lines += _entries(env, child, seen, indent + "  ")
    return lines


def _link(env, name):
    return f"[{env.titles[name].astext()}]({name}.md)"


def blocks(node, level=0) -> str:
    """Return the content of a node as blocks of Markdown."""
    parts = [block(child, level) for child in node.children]
    return "\n\n".join(part for part in parts if part.strip())


def block(node, level) -> str:
    """Return a node as Markdown."""
    if isinstance(node, SILENT):
        return ""
    if isinstance(node, nodes.section):
        return blocks(node, level + 1)
    if isinstance(node, nodes.title):
        return f"{'#' * max(level, 1)} {inline(node)}"
    if isinstance(node, nodes.literal_block):
        return f"```{node.get('language', '')}\n{node.astext()}\n```"
    if isinstance(node, nodes.math_block):
        return f"$$\n{node.astext()}\n$$"
    if isinstance(node, nodes.table):
        return table(node)
    if isinstance(node, (nodes.bullet_list, nodes.enumerated_list)):
        marks = "1." if isinstance(node, nodes.enumerated_list) else "-"
        return "\n".join(f"{marks} {indented(blocks(item, level))}" for item in node.children)
    if isinstance(node, addnodes.desc_signature):
        return f"**`{' '.join(node.astext().split())}`**"
    if isinstance(node, nodes.image):
        return f"![{node.get('alt', '')}]({posixpath.basename(node['uri'])})"
    if isinstance(
        node, (nodes.paragraph, nodes.term, nodes.rubric, nodes.field_name, nodes.caption)
    ):
        text = inline(node)
        return text if isinstance(node, (nodes.paragraph, nodes.caption)) else f"**{text}**"
    if node.children and not isinstance(node, nodes.TextElement):
        return blocks(node, level)
    return inline(node)


def indented(text: str) -> str:
    """Indent the lines of a list's entry below its first."""
    return text.replace("\n", "\n  ")


def table(node) -> str:
    """Return a table; its first row is the head."""
    rows = [
        [" ".join(blocks(cell).split()).replace("|", r"\|") for cell in row.children]
        for row in node.findall(nodes.row)
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])


def inline(node) -> str:
    """Return text with its emphasis, code and links."""
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, SILENT):
        return ""
    if isinstance(node, nodes.math):
        return f"${node.astext()}$"
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    text = "".join(inline(child) for child in node.children)
    if isinstance(node, nodes.reference) and node.get("refuri"):
        page, mark, place = node["refuri"].partition("#")
        if node.get("internal"):
            page = page.removesuffix(".html") + ".md" if page.endswith(".html") else page
        return f"[{text}]({page}{mark}{place})"
    if isinstance(node, nodes.emphasis):
        return f"*{text}*"
    return f"**{text}**" if isinstance(node, nodes.strong) else text
