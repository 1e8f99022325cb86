"""Keep pages short enough to be read: an overview, and the longest parts folded.

A page that would be longer than `PAGE` pixels shows its longest tables, functions and sections
folded; a click opens them, and so does a link into them. The first section stays open, or as many
as ``open: 2`` at the top of a page says. A page with ``open: true`` folds by itself what a reader
can do without.
"""

import re
from pathlib import Path

import imagesize
from docutils import nodes
from sphinx import addnodes

SOURCE = Path(__file__).parents[1]
RESULTS = ("results", "benchmarks")
# What the files say to those who keep them, and what the site says.
WORDS = {
    "; do not edit.": ".",
    "| bar | met |": "| goal | reached |",
    "A bar that is not met is shown as not met.": "Goals that are not reached are shown as such.",
}
PAGE = 3600
"""The height that a page may have by the estimate below, in pixels at a width of 1200."""
LONGEST = 14
"""Tables of results with more rows than this are always folded."""


def setup(app):
    """Connect both."""
    app.connect("source-read", _summarise)
    app.connect("doctree-resolved", _fold, priority=900)
    return {"parallel_read_safe": True}


def _summarise(app, docname, source):
    if docname.startswith(RESULTS):
        for word, other in WORDS.items():
            source[0] = source[0].replace(word, other)
    if docname == "results":
        head, line, rest = source[0].partition("\n## ")
        source[0] = head + "\n" + overview(line + rest) + line + rest


def overview(page: str) -> str:
    r"""Return a table of the sections of a page: how many of their goals are reached.

    Examples
    --------
    >>> page = "\n## A figure\n\n| quantity | bar | met |\n| a | <= 1 | yes |\n| b | 0 | **no** |"
    >>> print(overview(page).splitlines()[4])
    | [A figure](#a-figure) | 1 | 1 | 0 |
    """
    rows = [
        "| figure or table | goals reached | not reached | reported without a goal |",
        "| --- | ---: | ---: | ---: |",
    ]
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        ends = re.findall(r"\| (yes|\*\*no\*\*|no|-) \|$", text, flags=re.M)
        yes, reported = ends.count("yes"), ends.count("-")
        if ends:
            missed = len(ends) - yes - reported
            rows.append(f"| [{title}](#{_anchor(title)}) | {yes} | {missed} | {reported} |")
    return "\n".join(["## Overview", "", *rows, ""])


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as MyST and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _fold(app, doctree, docname):
    shown = str(app.env.metadata[docname].get("open", 1))
    if app.builder.format != "html" or not shown.isdecimal():
        return
    always = docname.startswith(RESULTS)
    left = height(doctree)
    folded = set()
    tables = sorted(doctree.findall(nodes.table), key=height, reverse=True)
    for table in tables:
        rows = len(list(table.findall(nodes.row))) - 1
        if rows > LONGEST and (always or left > PAGE):
            left -= height(table) - 40
            folded.add(table)
            _wrap(table.parent, table.parent.index(table), 1, f"Table of {rows} rows")
    parts = [part for part in doctree.findall(addnodes.desc_content) if _is_outer(part)]
    # A page says at once what it is about.
    parts += [part for part in doctree.findall(nodes.section) if _depth(part) == 2][int(shown) :]
    sizes = {part: height(part, folded) for part in parts}
    for part in sorted(parts, key=sizes.get, reverse=True):
        if left <= PAGE or sizes[part] < 150:
            break
        is_section = isinstance(part, nodes.section)
        first = 1 if is_section else _introduction(part)
        left -= sizes[part] - 160
        words = f"Show: {part[0].astext()}" if is_section else "Details"
        _wrap(part, first, len(part.children) - first, words)


def _wrap(parent, first, count, words):
    """Put children into a block that a click opens."""
    opening = f"<details><summary>{words}</summary>"
    parent.insert(first + count, nodes.raw("", "</details>", format="html"))
    parent.insert(first, nodes.raw("", opening, format="html"))


def _is_outer(part):
    """Return whether a description is not inside another one, such as a method of a class."""
    return not _inside(part.parent.parent, addnodes.desc_content)


def _introduction(part):
    """Return how many children of a description stay visible: its first paragraph."""
    return 1 if part.children and isinstance(part.children[0], nodes.paragraph) else 0


def _inside(node, kind):
    while node is not None and not isinstance(node, kind):
        node = node.parent
    return node is not None


def _depth(node):
    depth = 0
    while node is not None:
        depth += isinstance(node, nodes.section)
        node = node.parent
    return depth


def _picture(path) -> float:
    """Return the height of a picture, which is at most as wide as the text."""
    wide, high = imagesize.get(path) if path.is_file() else (730, 400)
    return 40.0 + high * min(1.0, 730 / wide)


def height(node, folded=frozenset()) -> float:
    """Estimate the height of a node in pixels where the text is about 95 characters wide."""
    if node in folded:
        return 40.0
    if isinstance(node, nodes.row):
        cells = node.children
        each = max(95 // max(len(cells), 1), 12)
        return 12.0 + 21 * max((len(cell.astext()) // each + 1 for cell in cells), default=1)
    if isinstance(node, nodes.literal_block):
        return 40.0 + 19 * (node.astext().count("\n") + 1)
    if isinstance(node, nodes.image):
        return _picture(SOURCE / node["uri"].lstrip("/"))
    if isinstance(node, nodes.math_block):
        return 70.0
    if isinstance(node, (nodes.title, addnodes.desc_signature)):
        return 100.0
    if isinstance(node, nodes.TextElement):
        return 14.0 + 26 * (len(node.astext()) // 95 + 1)
    total, closed = 0.0, 0
    for child in node.children:
        if isinstance(child, nodes.raw):  # a part that the page folds itself
            closed += child.astext().count("<details") - child.astext().count("</details>")
            total += 40.0 * ("<details" in child.astext())
        elif closed == 0:
            total += height(child, folded)
    return total
