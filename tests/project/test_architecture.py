"""Rules about the shape of the source tree. `lint-imports` checks the layers."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scripts.code_lines import by_package, code_lines
from tests.helpers import needs

from graphtemper import SourceCard, csbm, recalibrate

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "graphtemper": ROOT / "src" / "graphtemper",
    "graphtemper_research": ROOT / "research" / "src" / "graphtemper_research",
}
LIBRARY = PACKAGES["graphtemper"]
MOST_ENTRIES = 20
# Lines that hold code; docstrings, comments, blank lines and imports do not.
CODE_LINES = 16_788
MOST_FILES = {"build": 41, "recalibrate": 31}

# Folders of tests that are about more than one package.
SPANNING = {"browser", "docs", "fuzz", "paper", "project"}
# The options and folders of `make test-core`.
CORE = ROOT / "tests" / "core.args"
# Test files without a module of the same name, and what they test.
UNMIRRORED = {
    "cli/test_hostile.py": "hostile names and outputs that are inputs, at any command",
    "scale/test_command.py": "`recalibrate` on tables, in cli and scale",
    "monitor/test_logits.py": "snapshots of logits, through every module",
    "monitor/test_stamps.py": "stamps are in _core; a watch is what they are tested with",
}
# File names that several packages use, and the role that they share. Modules of `cli` are named
# after their commands.
ROLES = {
    "__init__.py": "the public names of a package",
    "__main__.py": "a package that can be run",
    "base.py": "the class that all members of a family share",
    "checks.py": "checks of inputs",
    "digest.py": "a digest: of a graph's content, and of the code that measures",
    "evidence.py": "what is measured: of a graph, and for every committed result",
    "format.py": "a file format",
    "page.py": "an HTML page",
    "passes.py": "perturbed passes: what a model offers, and what is measured with it",
    "prediction_sets.py": "prediction sets: their metrics, and their trial",
}


def modules(package):
    """Return the path of every module of a package, by dotted name."""
    names = {}
    for path in PACKAGES[package].rglob("*.py"):
        parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports(path, known):
    """Return which of the known modules a file imports, anywhere in it."""
    targets = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                targets.add(submodule if submodule in known else node.module)
    return targets & known.keys()


def cycles(graph):
    """Return the groups of modules that import each other, directly or not."""
    names = sorted(graph)
    index = {name: number for number, name in enumerate(names)}
    pairs = [(index[a], index[b]) for a in names for b in graph[a] if a != b]
    rows, columns = np.array(pairs).T
    matrix = coo_array((np.ones(len(pairs)), (rows, columns)), (len(names), len(names)))
    _, component = connected_components(matrix, connection="strong")
    groups = [np.flatnonzero(component == label) for label in np.unique(component)]
    return [{names[number] for number in group} for group in groups if len(group) > 1]


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package):
    """Imports inside functions and imports for type checkers count."""
    known = modules(package)
    assert cycles({name: imports(path, known) for name, path in known.items()}) == []


def test_the_library_has_few_top_level_entries():
    entries = [path.name for path in LIBRARY.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_code_lines_are_lines_that_hold_code():
    module = '"""What\n\nit is."""\nimport os\n\n# Why.\nname = (\n    os.name  # here\n)\n'
    assert code_lines(module) == 3
    assert code_lines('class A:\n    size: int\n    """Of what."""\n') == 2


def test_the_library_stays_small():
    """Who deletes code lowers the number; `scripts/code_lines.py` shows where the lines are."""
    assert by_package(LIBRARY).total() <= CODE_LINES


def files_of(call):
    """Return what a call returns, and the files of the library that it runs code in."""
    files = set()

    def note(frame, event, _):
        files.add(Path(frame.f_code.co_filename))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(before)
    return result, {file for file in files if file.is_relative_to(LIBRARY)}


@pytest.mark.cpu(15)
def test_the_main_calls_touch_few_files():
    """A reader who follows the lines of the README, with a PyG module, opens few files."""
    needs("torch_geometric")
    import torch
    from torch_geometric.nn.models import GCN

    from graphtemper.pyg import predictor

    data = csbm.sample(400, degree=8, homophily=0.8, snr=1.0, num_features=12, seed=0).to_pyg()
    data.val_mask = torch.arange(400) >= 200
    model = predictor(GCN(12, 8, 2, 2))
    model.check(data)
    few = {name: (0.4,) for name in ("noise", "mask", "blend", "smooth", "rewire", "homophily")}
    options = {"shifts": few, "compositions": 1, "progress": False}
    card, files = files_of(lambda: SourceCard.build(model, data, data.val_mask, **options))
    assert LIBRARY / "card" / "build.py" in files
    assert len(files) <= MOST_FILES["build"], sorted(files)
    _, files = files_of(lambda: recalibrate(model, data, card))
    assert LIBRARY / "recalibration" / "job.py" in files
    assert len(files) <= MOST_FILES["recalibrate"], sorted(files)


def test_the_library_holds_no_experiment():
    experiments = {path.name for path in PACKAGES["graphtemper_research"].iterdir()}
    entries = {path.name for path in LIBRARY.iterdir()}
    assert entries & experiments <= {"__init__.py", "__pycache__"}


def mirrored(path):
    """Return whether a test file has the path of a module or package."""
    folders = path.relative_to(ROOT / "tests").parent.parts
    research = folders[:1] == ("research",)
    package = PACKAGES["graphtemper_research" if research else "graphtemper"]
    folder = package.joinpath(*folders[research:])
    name = path.stem.removeprefix("test_")
    if name == "command":
        return (LIBRARY / "cli" / f"{folder.name}.py").is_file()
    if name == folder.name:
        return folder.is_dir()
    # `test_operators_moments.py` has the tests of `operators.py` about moments.
    words = name.split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return (
        any((folder / f"{file}{end}").exists() for file in names for end in ("", ".py"))
        or (folder / f"_{name}.py").exists()
    )


def test_test_files_have_the_path_of_what_they_test():
    """As `graph/operators.py` has `tests/graph/test_operators.py`.

    A package `graph` may have `tests/graph/test_graph.py` or `tests/test_graph.py`, and its command
    `tests/graph/test_command.py`.
    """
    paths = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.relative_to(ROOT / "tests").parts[0] not in SPANNING
    ]
    lost = {path.relative_to(ROOT / "tests").as_posix() for path in paths if not mirrored(path)}
    assert lost == UNMIRRORED.keys()


def test_the_core_tier_has_the_tests_of_every_package():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    packages = folders - SPANNING - {"research", "__pycache__"}
    lines = CORE.read_text("utf-8").splitlines()
    assert {line.removeprefix("tests/") for line in lines if line.startswith("tests/")} == packages
    assert packages <= {path.name for path in LIBRARY.iterdir()}


def test_modules_that_share_a_name_share_a_role():
    paths = [path for package in PACKAGES for path in modules(package).values()]
    count = Counter(path.name for path in paths if path.parent != LIBRARY / "cli")
    assert {name for name, number in count.items() if number > 1} == ROLES.keys()


# Phrases of which plain English has a shorter or more exact form.
BANNED = re.compile(
    r"\b(one|two|a row|a number) a (node|class|file|row|line|graph|seed|shard|snapshot|column)\b"
    r"|so many|\bgoes on\b|\bgo on\b|\banew\b|count not|\btold\b|on trial|\brooms?\b|\bhall\b"
    r"|witness|asked for|whole number|nobody|\bof its own\b.*\bwhose\b",
    re.IGNORECASE,
)
PROSE = {
    "src": ("*.py", "*.html", "*.js", "*.json"),
    "research": ("*.py", "*.md", "*.html", "*.js"),
    "docs": ("*.md", "*.py"),
    "scripts": ("*.py", "*.sh"),
    "benchmarks": ("*.py",),
    ".github": ("*.md", "*.yml"),
    ".": (),
}
GENERATED = {"_build", "_generated", "generated"}


def prose(folder):
    """Return the files of a folder that people read; of the root, those directly in it."""
    paths = [path for glob in PROSE[folder] for path in (ROOT / folder).rglob(glob)]
    if folder == ".":
        paths = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "CITATION.cff"]
    return [path for path in sorted(paths) if not GENERATED & set(path.parts)]


@pytest.mark.parametrize("folder", PROSE)
def test_prose_is_plain_english(folder):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in prose(folder)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if BANNED.search(line)
    ]
    assert found == []


NAMED = re.compile(r"(?<![\w./-])(?:src|tests|scripts|research|docs|benchmarks)/[\w./-]*\w")
# Paths of what a command writes, or of what no checkout holds.
WRITTEN = ("docs/_build", "docs/_generated", "docs/api/generated", "docs/gallery/generated")


def test_paths_on_pages_exist():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile"]
    lost = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        if not GENERATED & set(page.parts)
        for name in NAMED.findall(page.read_text("utf-8"))
        if not name.startswith(WRITTEN) and not (ROOT / name).exists()
    }
    assert lost == set()


def test_paths_in_the_mutation_script_exist():
    script = (ROOT / "scripts" / "mutation.py").read_text("utf-8")
    parts = script.partition("PARTS = {")[2].partition("\n}\n")[0]
    names = re.findall(r'"([\w/]+\.py)"', parts)
    assert len(names) > 10
    lost = [n for n in names if not ((LIBRARY / n).is_file() or (ROOT / "tests" / n).is_file())]
    assert lost == []
