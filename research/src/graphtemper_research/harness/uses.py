"""Which code a measurement uses: its own module and all that this imports, directly or not.

`key` changes with that code. Comments, docstrings and messages of errors do not count, because they
change no number; neither does what only prints, draws or dispatches (`NOT_MEASURING`). A name that
a package passes on counts as the module that defines it, so that a new module beside it does not.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import graphtemper
import graphtemper_research

_LIBRARY, _RESEARCH = (
    Path(str(package.__file__)).parents[1] for package in (graphtemper, graphtemper_research)
)
CHECKOUT = _RESEARCH.parents[1]
OWN = ("graphtemper", "graphtemper_research", "benchmarks", "readme")
FOLDERS = (_LIBRARY, _RESEARCH, CHECKOUT, CHECKOUT / "scripts")
"""Where modules are looked for, as Python does; only those of `OWN` packages count."""

NOT_MEASURING = (
    *(f"graphtemper.{name}" for name in ("cli", "errors", "_core.version")),
    *(f"graphtemper.monitor.{name}" for name in ("page", "prometheus")),
    *(f"graphtemper.recalibration.{name}" for name in ("notebook", "report")),
    *(f"graphtemper_research.{name}" for name in ("benches", "commands", "numbers", "pages")),
    *(f"graphtemper_research.harness.{name}" for name in ("cells", "layout", "outcome")),
    *(f"graphtemper_research.harness.{name}" for name in ("provenance", "runner", "style", "uses")),
)


@cache
def key(*modules: str, folders: tuple[Path, ...] = FOLDERS) -> str:
    """Return 12 digits that change with the code that some modules use.

    They are computed once per process: a file that is edited later is not the code that runs.

    Examples
    --------
    >>> key("graphtemper.card.response") == key("graphtemper.temperature")
    False
    """
    total = hashlib.sha256()
    for name, path in sorted(used(*modules, folders=folders).items()):
        total.update(f"{name}\n{meaning(path)}\n".encode())
    return total.hexdigest()[:12]


def modules_of(work: Callable[..., Any]) -> list[str]:
    """Return the modules of a function, and of what a `partial` already gives it.

    Examples
    --------
    >>> modules_of(partial(key, "graphtemper.temperature", folders=FOLDERS))
    ['builtins', 'graphtemper_research.harness.uses']
    """
    parts = [work]
    while isinstance(parts[0], partial):
        first = parts[0]
        parts[:1] = [first.func, *first.args, *first.keywords.values()]
    return sorted({getattr(part, "__module__", None) or type(part).__module__ for part in parts})


def used(*modules: str, folders: tuple[Path, ...] = FOLDERS) -> dict[str, Path]:
    """Return the files behind modules and behind all that they import, by name."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _file(name, folders)
        if name in found or path is None or _prints(name):
            continue
        found[name] = path
        waiting += _imports(path, folders)
    return found


def _prints(name: str) -> bool:
    return any(f"{name}.".startswith(f"{other}.") for other in NOT_MEASURING)


@cache
def _file(name: str, folders: tuple[Path, ...]) -> Path | None:
    if name.split(".")[0] not in OWN:
        return None
    stem = name.replace(".", "/")
    paths = (folder / f"{stem}{end}" for folder in folders for end in (".py", "/__init__.py"))
    return next((path for path in paths if path.is_file()), None)


@cache
def _imports(path: Path, folders: tuple[Path, ...]) -> list[str]:
    """Return the modules that a file imports, also inside functions and by their names."""
    found: list[str] = []
    for node in _running(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [_home(str(node.module), alias.name, folders) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if "." in node.value else []
    return found


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree except for what only a type checker reads."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from _running(node)


def _home(module: str, name: str, folders: tuple[Path, ...]) -> str:
    """Return the module that defines a name, which a package may only pass on."""
    path = _file(module, folders)
    if _file(f"{module}.{name}", folders) is not None:
        return f"{module}.{name}"
    if path is not None and path.stem == "__init__":
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _home(str(node.module), alias.name, folders)
    return module


class _Meaning(ast.NodeTransformer):
    """Drops docstrings and what errors say."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if text else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(error, None)


@cache
def meaning(path: Path) -> str:
    """Return what a file does, without comments, layout, docstrings and messages of errors."""
    return ast.unparse(_Meaning().visit(ast.parse(path.read_text("utf-8"))))
