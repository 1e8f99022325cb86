"""Count the lines of a Python tree that hold code, by package.

Docstrings, comments, blank lines and imports are not counted, so that a formula in a docstring
costs nothing.

    python scripts/code_lines.py                 src/graphtemper
    python scripts/code_lines.py research/src    another folder
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "src" / "graphtemper"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Return how many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a string stands alone, as docstrings of modules and attributes do."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def by_package(folder: Path) -> Counter[str]:
    """Return the code lines of each package in a folder, and of the modules beside them."""
    count: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        count[parts[0] if len(parts) > 1 else "."] += code_lines(path.read_text("utf-8"))
    return count


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else LIBRARY
    count = by_package(folder)
    for name, lines in count.most_common():
        print(f"{lines:7,}  {name}")
    print(f"{count.total():7,}  in all")
