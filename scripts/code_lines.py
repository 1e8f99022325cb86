"""Count the lines of a Python tree that hold code, by package.

Docstrings, comments, blank lines and imports are not counted, so that a formula in a docstring
costs nothing.

    python scripts/code_lines.py                   src/graphtemper
    python scripts/code_lines.py research/src      another folder
    python scripts/code_lines.py --against main    and what changed since a commit
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
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


def of_commit(commit: str, folder: str) -> Counter[str]:
    """Return the code lines that a folder of this repository had at a commit."""
    command = ["git", "-C", str(ROOT), "archive", commit, folder]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with TemporaryDirectory() as place:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(place, filter="data")
        return by_package(Path(place) / folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="src/graphtemper")
    parser.add_argument("--against", metavar="COMMIT")
    given = parser.parse_args()
    now = by_package(ROOT / given.folder)
    before = of_commit(given.against, given.folder) if given.against else now
    for name in sorted(now | before, key=lambda name: -now[name]):
        change = now[name] - before[name]
        print(f"{now[name]:7,}  {name}" + (f"  {change:+,}" if change else ""))
    print(f"{now.total():7,}  code lines", end="")
    print(f", {now.total() - before.total():+,} against {given.against}" if given.against else "")
