"""Which code made a committed result: a digest of the modules that its experiment imports.

The digest covers the module of the experiment and everything that it imports, directly or not,
from the library and the research package. Lines of comment and docstrings do not count, because
they change no number; neither do the modules that only print, draw or dispatch (`NOT_MEASURING`).
Names are followed to the module that defines them, so that a package's ``__init__`` does not draw
in all its neighbours.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import graphtemper
import graphtemper_research

ROOTS = {
    package.__name__: Path(str(package.__file__)).parent
    for package in (graphtemper, graphtemper_research)
}
NOT_MEASURING = (
    "graphtemper.cli",
    "graphtemper.errors",
    "graphtemper.recalibration.report",
    "graphtemper_research.commands",
    "graphtemper_research.harness",
)


@cache
def digest(module: str) -> str:
    """Return 12 digits that change with the code which a module runs.

    Examples
    --------
    >>> len(digest("graphtemper_research.paper.slope"))
    12
    """
    total = hashlib.sha256()
    for name, path in sorted(closure(module).items()):
        total.update(f"{name}\n{_meaning(path)}\n".encode())
    return total.hexdigest()[:12]


def closure(module: str) -> dict[str, Path]:
    """Return the modules that a module imports, directly or not, and itself, with their files."""
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in found or path is None or _shown_only(name):
            continue
        found[name] = path
        waiting += _imports(path)
    return found


def _shown_only(name: str) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in NOT_MEASURING)


def _file(name: str) -> Path | None:
    head, _, rest = name.partition(".")
    if head not in ROOTS or not rest:
        return None
    place = ROOTS[head].joinpath(*rest.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Return the modules that define what a file imports; imports for types alone are left out."""
    names: list[str] = []
    for node in _running(_tree(path)):
        if isinstance(node, ast.Import):
            names += [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [_definer(node.module, item.name) for item in node.names]
    return tuple(names)


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _running(node)


def _definer(module: str, name: str) -> str:
    """Return the module that defines a name, through packages that pass it on."""
    if _file(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    path = _file(module)
    if path is not None and path.name == "__init__.py":
        for node in _tree(path).body:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for item in node.names:
                    if (item.asname or item.name) == name:
                        return _definer(node.module, item.name)
    return module


@cache
def _meaning(path: Path) -> str:
    """Return a module's lines without docstrings, blank lines and lines of comment.

    The lines are those of the file, so that every version of Python gives the same digest.
    """
    lines = path.read_text("utf-8").splitlines()
    for node in ast.walk(_tree(path)):
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


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))
