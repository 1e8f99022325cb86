"""The experiments know the library as everybody does: by its public names."""

import ast
from importlib import import_module
from pathlib import Path

import graphtemper_research

# Documented modules besides the packages: networks of one's own, a solver, the look of commands.
MODULES = {
    "graphtemper.calibrators.training",
    "graphtemper.cli.options",
    "graphtemper.cli.output",
    "graphtemper.errors",
    "graphtemper.estimators.transport",
}


def test_only_public_names_are_imported():
    private = []
    for path in Path(graphtemper_research.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            package, _, inner = node.module.partition(".")
            if package != "graphtemper" or node.module in MODULES:
                continue
            known = [] if "." in inner else [*import_module(node.module).__all__, "__version__"]
            names = [alias.name for alias in node.names if alias.name not in known]
            private += [f"{path.name}: {node.module}.{name}" for name in names]
    assert private == []
