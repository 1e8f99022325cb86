"""Make generated pages of results readable: an overview, long tables folded, words for readers."""

import re

from docutils import nodes

PAGES = ("results", "benchmarks")
# What the files say to those who keep them, and what the site says.
WORDS = {
    "; do not edit.": ".",
    "| bar | met |": "| goal | reached |",
    "A bar that is not met is shown as not met.": "Goals that are not reached are shown as such.",
}
LONGEST = 14
"""Tables of results with more rows than this are folded; a click opens them."""


def setup(app):
    """Connect both."""
    app.connect("source-read", _summarise)
    app.connect("doctree-resolved", _fold)
    return {"parallel_read_safe": True}


def _summarise(app, docname, source):
    if docname.startswith(PAGES):
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
    if not docname.startswith(PAGES):
        return
    for table in list(doctree.findall(nodes.table)):
        count = len(list(table.findall(nodes.row))) - 1
        if count > LONGEST:
            opening = f"<details><summary>Table of {count} rows</summary>"
            place = table.parent.index(table)
            table.parent.insert(place + 1, nodes.raw("", "</details>", format="html"))
            table.parent.insert(place, nodes.raw("", opening, format="html"))
