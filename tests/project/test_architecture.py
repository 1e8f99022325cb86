"""Rules about the shape of the source tree. `lint-imports` checks the layers."""

import ast
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scripts.code_lines import by_package, code_lines

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "graphtemper": ROOT / "src" / "graphtemper",
    "graphtemper_research": ROOT / "research" / "src" / "graphtemper_research",
}
LIBRARY = PACKAGES["graphtemper"]
MOST_ENTRIES = 20

# Folders of tests that are about more than one package.
SPANNING = {"browser", "docs", "fuzz", "paper", "project"}


def modules(package):
    """Return the path of every module of a package, by dotted name."""
    names = {}
    for path in PACKAGES[package].rglob("*.py"):
        parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports(text, known):
    """Return which of the known modules a text imports, anywhere in it and by any means."""
    targets = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} is a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                targets.add(submodule if submodule in known else node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            targets |= {part.value for part in node.args if isinstance(part, ast.Constant)}
    return targets & known.keys()


def cycles(pairs):
    """Return the groups of modules that import each other, directly or not."""
    names = sorted({name for pair in pairs for name in pair})
    rows, columns = np.array([[names.index(a), names.index(b)] for a, b in pairs]).T
    matrix = coo_array((np.ones(len(rows)), (rows, columns)), (len(names), len(names)))
    _, component = connected_components(matrix, connection="strong")
    groups = [np.flatnonzero(component == label) for label in np.unique(component)]
    return [{names[number] for number in group} for group in groups if len(group) > 1]


def test_cycles_are_found():
    assert cycles({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}) == [{"a", "b", "c"}]
    text = "if TYPE_CHECKING:\n    import p.a\ndef f():\n    importlib.import_module('p.b')"
    assert imports(text, {"p.a": None, "p.b": None, "p.c": None}) == {"p.a", "p.b"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package):
    """Imports inside functions, for type checkers alone and by a string count."""
    known = modules(package)
    pairs = {
        (name, target)
        for name, path in known.items()
        for target in imports(path.read_text("utf-8"), known)
        if name != target
    }
    assert cycles(pairs) == []


def test_the_library_has_few_top_level_entries():
    entries = [path.name for path in LIBRARY.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_code_lines_are_lines_that_hold_code():
    module = '"""What\n\nit is."""\nimport os\n\n# Why.\nname = (\n    os.name  # here\n)\n'
    assert code_lines(module) == 3
    assert code_lines('class A:\n    size: int\n    """Of what."""\n') == 2


def test_the_library_stays_small():
    """The ceiling is set well above the size, and moves when a release is planned."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert by_package(LIBRARY).total() <= settings["tool"]["graphtemper"]["most-code-lines"]


def test_the_core_tier_has_the_tests_of_every_package():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    packages = folders - SPANNING - {"research", "__pycache__"}
    lines = (ROOT / "tests" / "core.args").read_text("utf-8").splitlines()
    assert {line.removeprefix("tests/") for line in lines if line.startswith("tests/")} == packages


NAMED = re.compile(r"(?<![\w./-])(?:src|tests|scripts|research|docs|benchmarks)/[\w./-]*\w")
# What a command writes, which no checkout holds.
WRITTEN = {"_build", "_generated", "generated"}


def test_paths_on_pages_exist():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile"]
    lost = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        if not WRITTEN & set(page.parts)
        for name in NAMED.findall(page.read_text("utf-8"))
        if not WRITTEN & set(name.split("/")) and not (ROOT / name).exists()
    }
    assert lost == set()
