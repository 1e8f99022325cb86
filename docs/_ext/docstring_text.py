"""Escape the bars of absolute values in docstrings, which would be references otherwise."""

import re

# Text between backquotes is not changed.
QUOTED = re.compile(r"(``.*?``|`[^`]*`)")
BAR = re.compile(r"(?<!\\)\|")


def setup(app):
    """Register the filter."""
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True}


def _escape(app, what, name, obj, options, lines):
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example and ".. math::" not in line:
            lines[number] = escaped(line)


def escaped(line):
    """Return a line with its bars escaped, except those between backquotes."""
    parts = QUOTED.split(line)
    return "".join(part if i % 2 else BAR.sub(r"\\|", part) for i, part in enumerate(parts))
