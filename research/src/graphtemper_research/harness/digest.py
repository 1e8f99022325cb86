"""Which code made a number: one digest of everything that measures, in both distributions.

Lines of comment and docstrings do not count, because they change no number; neither do the parts
that only print, draw or dispatch (`NOT_MEASURING`). Streams of graphs
larger than memory make no number of a method; they have a digest of their own.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import graphtemper
import graphtemper_research

ROOTS = {
    package.__name__: Path(str(package.__file__)).parent
    for package in (graphtemper, graphtemper_research)
}
NOT_MEASURING = (
    "graphtemper/_core/version.py",
    "graphtemper/cli/",
    "graphtemper/errors.py",
    "graphtemper/monitor/page.py",
    "graphtemper/monitor/prometheus.py",
    "graphtemper/recalibration/notebook.py",
    "graphtemper/recalibration/report/",
    "graphtemper/scale/",
    "graphtemper_research/commands/",
    "graphtemper_research/evidence.py",
    "graphtemper_research/gats/protocol_page.py",
    "graphtemper_research/gats/systems.py",
    "graphtemper_research/explorer/",
    "graphtemper_research/graphs/deposit.py",
    "graphtemper_research/graphs/download.py",
    "graphtemper_research/harness/",
    "graphtemper_research/leaderboard/calibrator_table.py",
    "graphtemper_research/leaderboard/page.py",
    "graphtemper_research/leaderboard/section.py",
    "graphtemper_research/natural_benchmark/",
    "graphtemper_research/paper/audit_claim.py",
    "graphtemper_research/paper/audit_claims.py",
    "graphtemper_research/paper/audit_page.py",
    "graphtemper_research/paper/audit_theory_claims.py",
    "graphtemper_research/paper/results_page.py",
    "graphtemper_research/results.py",
)
SCALE = "scale"
"""The part of the library for graphs larger than memory, which has a digest of its own."""


@cache
def digest() -> str:
    """Return 12 digits that change with the code that measures.

    It is computed once per process: a file that is edited later is not the code that runs.

    Examples
    --------
    >>> len(digest()), digest() == digest()
    (12, True)
    """
    return of(ROOTS)


@cache
def scale_digest() -> str:
    """Return 12 digits that change with the code for graphs larger than memory.

    No number of a method comes from that code. What was measured of it carries this digest.

    Examples
    --------
    >>> scale_digest() == digest()
    False
    """
    return of({SCALE: ROOTS["graphtemper"] / SCALE})


def of(roots: Mapping[str, Path]) -> str:
    """Return the digest of packages, given as folders by name."""
    total = hashlib.sha256()
    for package, root in sorted(roots.items()):
        for path in sorted(root.rglob("*.py")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            if not name.startswith(NOT_MEASURING):
                total.update(f"{name}\n{meaning(path)}\n".encode())
    return total.hexdigest()[:12]


def meaning(path: Path) -> str:
    """Return a module's lines without docstrings, blank lines and lines of comment.

    The lines are those of the file, so that every version of Python gives the same digest.
    """
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return text
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                last = first.end_lineno or first.lineno
                lines[first.lineno - 1 : last] = [""] * (last - first.lineno + 1)
    kept = (line.rstrip() for line in lines)
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("#"))
