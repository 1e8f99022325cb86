"""Render formulas as MathML, which browsers display without scripts, fonts or a network."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

# Size commands have no equivalent in MathML, where brackets grow automatically.
SIZES = re.compile(r"\\(?:[bB]igg?[lr]?|textstyle|displaystyle)(?![A-Za-z])")


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}


def _inline(writer, node):
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node, **options):
    text = SIZES.sub("", node.astext()).replace(r"\dots", r"\ldots")
    return tex2mathml(text, **options)
