"""Change the core in many small ways, one at a time, and list the changes that no test notices.

    python scripts/mutation.py PYTHON [--count N] [--seed SEED] [--only NAME ...]

Needs cosmic-ray, which makes the changes; PYTHON is the interpreter of an environment with
graphtemper and its tests. Everything happens in a temporary copy of the working tree.

A full run would take a day, so a sample is drawn for each part of the core. Annotations are not
changed, because they are never evaluated. Only the tests of a part are run, so that the whole suite
may still notice a survivor. Read every survivor: it is harmless, such as a change of a tolerance or
of a shortcut, or it needs a test.
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
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome

ROOT = Path(__file__).parents[1]
# Tests that take this many times as long as without a change count as hung, as in an endless loop.
# Hung tests have noticed the change, but are listed: the machine may have been busy.
PATIENCE = 3.0
HUNG = "timeout"  # the output that cosmic-ray reports for tests that hang
# A hypothesis profile that draws the same examples every time and stores none.
PYTEST = "-m pytest -x -q -p no:cacheprovider --hypothesis-profile=ci"


@dataclass(frozen=True)
class Part:
    """Modules of the core, and the tests that should notice when one of them is changed."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PARTS = {
    "theory": Part(("theory/closed_forms.py",), ("theory/test_closed_forms.py",)),
    "temperature": Part(
        ("temperature/scaling.py", "temperature/scaling.py", "temperature/inverse.py"),
        ("temperature",),
    ),
    "metrics": Part(
        (
            *("metrics/binned.py", "metrics/calibration_error.py"),
            *("metrics/proper.py", "metrics/top_label.py"),
        ),
        ("metrics",),
    ),
    "card": Part(
        ("card/card.py", "card/format.py"),
        ("card/test_build.py", "card/test_card.py"),
    ),
    "recalibration": Part(
        ("recalibration/job.py", "recalibration/answer.py", "recalibration/verdict.py"),
        (
            *("recalibration/test_verdict.py", "recalibration/test_answer.py"),
            *("recalibration/test_job.py", "recalibration/labels/test_given.py"),
            "recalibration/test_class_shares.py",
        ),
    ),
}


def types(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the start and the end of every annotation in a source.

    Examples
    --------
    >>> types("def f(x: int | None) -> str: ...")
    [((1, 9), (1, 19)), ((1, 24), (1, 27))]
    """
    annotations: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            annotations.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations.append(node.returns)
    return sorted(
        ((item.lineno, item.col_offset), (item.end_lineno or 0, item.end_col_offset or 0))
        for item in annotations
        if item is not None
    )


def mutants(modules: Iterable[Path], folder: Path) -> list[MutationSpec]:
    """Return every change of the modules that cosmic-ray can make, except in annotations."""
    with use_db(str(folder / "mutants.sqlite"), WorkDB.Mode.create) as table:
        init(modules, table, {})
        every = [change for item in table.work_items for change in item.mutations]
    spans = {module: types(module.read_text("utf-8")) for module in modules}
    evaluated = [
        change
        for change in every
        if not any(start <= change.start_pos < end for start, end in spans[change.module_path])
    ]
    order = attrgetter("module_path", "start_pos", "operator_name", "occurrence")
    return sorted(evaluated, key=order)


def changed_lines(diff: str | None) -> str:
    """Return the removed and the added lines of a diff."""
    lines = [line for line in (diff or "").splitlines() if not line.startswith(("---", "+++"))]
    return "\n".join(f"    {line}" for line in lines if line.startswith(("-", "+")))


def run(name: str, python: Path, count: int, seed: int, folder: Path) -> tuple[int, int, int]:
    """Try a sample of changes of a part; return the numbers tried, hung and survived."""
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
    sample = random.Random(f"{seed} {name}").sample(every, min(count, len(every)))
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
    parser.add_argument("--count", type=int, default=60, help="number of changes per part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    # Not resolved: the interpreter of a venv is a link to one outside it.
    python = options.python.absolute()
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        for item in ("src", "tests"):
            shutil.copytree(
                ROOT / item, folder / item, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(folder / "src")
        code = "import graphtemper; print(graphtemper.__file__)"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        if not Path(done.stdout.strip()).is_relative_to(folder):
            sys.exit(f"mutation: {done.stdout.strip()} is imported instead of the copy.")
        count, seed = options.count, options.seed
        rows = {part: run(part, python, count, seed, folder) for part in options.only}
    print(f"\n{'part':<12} {'changes':>8} {'killed':>8} {'hung':>8} {'survived':>8}")
    for part, (tried, hung, survived) in rows.items():
        killed = tried - hung - survived
        print(f"{part:<12} {tried:>8} {killed:>8} {hung:>8} {survived:>8}")


if __name__ == "__main__":
    main()
