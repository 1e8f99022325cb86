"""Change the core in many small ways, one at a time, and list the changes that no test notices.

    python scripts/mutation.py PYTHON [--count N] [--seed SEED] [--only NAME ...]

Runs where cosmic-ray is installed, which makes the changes; PYTHON is the interpreter that has
graphtemper and its tests. All happens in a copy of the working tree that is removed afterwards.

A full run would take a day, so each part of the core is sampled by a seed: first every place of the
source that can be changed once, in a random order, then second changes of a place. Types are left
alone: they are never evaluated. Only tests that belong to a part are run, so that a survivor here
may still die in the whole suite. Survivors are for people to read: each is either harmless, as
a change to a tolerance or to a shortcut, or asks for a test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome

ROOT = Path(__file__).parents[1]
# Tests that are slower than this many times the undisturbed ones are taken to hang, as a loop that
# lost its end makes them. They count as noticed, but are listed: a busy machine is slow too.
PATIENCE = 3.0
HUNG = "timeout"  # what cosmic-ray gives as the tests' output then
# The profile of hypothesis that draws the same examples every time and remembers none.
PYTEST = "-m pytest -x -q -p no:cacheprovider --hypothesis-profile=ci"


@dataclass(frozen=True)
class Part:
    """Modules of the core, and the tests that should notice when one of them is changed."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = {
    "theory": Part(("theory.py",), ("test_theory.py",)),
    "temperature": Part(
        ("temperature.py", "_inverse_temperature.py"),
        ("test_temperature.py", "test_temperature_scales.py", "test_inverse_temperature.py"),
    ),
    "metrics": Part(
        (
            *("metrics/binned.py", "metrics/calibration_error.py"),
            *("metrics/proper.py", "metrics/_inputs.py"),
        ),
        ("metrics",),
    ),
    "card": Part(
        ("card.py", "card_format.py", "card_fields.py"), ("test_card_building.py", "test_card.py")
    ),
    "recalibrate": Part(
        ("recalibration.py", "answer.py", "verdict.py"),
        (
            *("test_verdict.py", "test_answer.py", "test_recalibrate.py"),
            *("test_labelling.py", "test_class_share_correction.py"),
        ),
    ),
}


def types(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where a source's annotations start and end.

    Examples
    --------
    >>> types("def f(x: int | None) -> str: ...")
    [((1, 9), (1, 19)), ((1, 24), (1, 27))]
    """
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.returns)
    return sorted(
        ((item.lineno, item.col_offset), (item.end_lineno or 0, item.end_col_offset or 0))
        for item in found
        if item is not None
    )


def mutants(modules: Iterable[Path], folder: Path) -> list[MutationSpec]:
    """Return every change that cosmic-ray knows to the modules, but for those to types."""
    with use_db(str(folder / "mutants.sqlite"), WorkDB.Mode.create) as table:
        init(modules, table, {})
        every = [change for item in table.work_items for change in item.mutations]
    spans = {module: types(module.read_text("utf-8")) for module in modules}
    kept = [
        change
        for change in every
        if not any(start <= change.start_pos < end for start, end in spans[change.module_path])
    ]
    return sorted(kept, key=lambda c: (c.module_path, c.start_pos, c.operator_name, c.occurrence))


def drawn(changes: Sequence[MutationSpec], count: int, seed: str) -> list[MutationSpec]:
    """Return a random sample that comes back to a place only after all others."""
    shuffled = random.Random(seed).sample(changes, len(changes))
    visits: Counter[tuple[Path, tuple[int, int]]] = Counter()
    turns = []
    for change in shuffled:
        place = change.module_path, change.start_pos
        turns.append(visits[place])
        visits[place] += 1
    order = sorted(range(len(shuffled)), key=turns.__getitem__)
    return [shuffled[i] for i in order[:count]]


def changed_lines(diff: str | None) -> str:
    """Return what a change took away and what it put there, without the rest of the diff."""
    lines = [line for line in (diff or "").splitlines() if not line.startswith(("---", "+++"))]
    return "\n".join(f"    {line}" for line in lines if line.startswith(("-", "+")))


def run(name: str, python: Path, count: int, seed: int, folder: Path) -> tuple[int, int, int]:
    """Try a sample of the changes to a part; return how many, and how many hung and survived."""
    part = PARTS[name]
    modules = [Path("src/graphtemper", module) for module in part.modules]
    tests = [f"tests/{test}" for test in part.tests]
    command = f"{python} {PYTEST} {' '.join([*tests, *map(str, modules)])}"
    started = time.monotonic()
    clean = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if clean.returncode:
        sys.exit(f"mutation: the tests of {name} fail without a change:\n{clean.stdout[-3000:]}")
    timeout = PATIENCE * (time.monotonic() - started)
    every = mutants(modules, folder)
    sample = drawn(every, count, f"{seed} {name}")
    print(f"{name}: {len(sample)} of {len(every)} changes, tests in {timeout / PATIENCE:.0f} s")
    hung = survived = 0
    for change in sample:
        result = mutate_and_test([change], command, timeout)
        if result.test_outcome is TestOutcome.KILLED and result.output != HUNG:
            continue
        word = "hung" if result.output == HUNG else "survived"
        hung, survived = hung + (word == "hung"), survived + (word == "survived")
        where = f"{change.module_path}:{change.start_pos[0]} ({change.operator_name})"
        print(f"{word}: {where}\n{changed_lines(result.diff) or result.output}", flush=True)
    return len(sample), hung, survived


def main() -> None:
    """Copy the tree, try the changes, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", type=Path)
    parser.add_argument("--count", type=int, default=60, help="changes to each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    wanted = parser.parse_args()
    python = wanted.python.absolute()  # not resolved: a venv's interpreter is a link out of it
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        for item in ("src", "tests"):
            shutil.copytree(
                ROOT / item, folder / item, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(folder / "src")
        where = "import graphtemper; print(graphtemper.__file__)"
        used = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
        if not Path(used.stdout.strip()).is_relative_to(folder):
            sys.exit(f"mutation: {used.stdout.strip()} is imported in place of the copy.")
        rows = {part: run(part, python, wanted.count, wanted.seed, folder) for part in wanted.only}
    print(f"\n{'part':<12} {'changes':>8} {'killed':>8} {'hung':>8} {'survived':>8}")
    for part, (tried, hung, survived) in rows.items():
        killed = tried - hung - survived
        print(f"{part:<12} {tried:>8} {killed:>8} {hung:>8} {survived:>8}")


if __name__ == "__main__":
    main()
