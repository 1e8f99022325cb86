"""Check a change in about a minute: style, layers, types, and the tests that it touches.

    python scripts/check.py [--against COMMIT] [--seconds S]

The change is what differs from `main` (or COMMIT), committed or not. First come the tests and the
docstrings of the modules that changed and the tests that changed, then the tests of modules that
import one of them directly. Tests stop after S seconds, and a line says so; `make test` runs all.
Style and types run beside the tests, so that two cores are busy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {"graphtemper": ROOT / "src", "graphtemper_research": ROOT / "research" / "src"}
ALWAYS = ROOT / "tests" / "project" / "test_architecture.py"
STYLE = (
    ("ruff", "check", "--quiet", "."),
    ("ruff", "format", "--check", "--quiet", "."),
    ("codespell",),
    ("lint-imports",),
    ("mypy",),
)


def changed(against: str) -> list[Path]:
    """Return the files that differ from a commit or from where this branch left it."""

    def git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(
            "\n"
        )

    base = git("merge-base", against, "HEAD")[0]
    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def module_of(path: Path) -> str:
    """Return the dotted name of a source file, or an empty string."""
    for source in SOURCES.values():
        if path.is_relative_to(source) and path.suffix == ".py":
            parts = path.relative_to(source).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return ""


def tests_of(module: str) -> list[Path]:
    """Return the test files of a module, or those of its folder if it has none of its own."""
    package, *folders, name = module.split(".")
    place = ROOT / "tests" / ("research" if package == "graphtemper_research" else "")
    place = place.joinpath(*folders)
    inside = place / name if (place / name).is_dir() else place
    own = [*place.glob(f"test_{name}.py"), *inside.glob(f"test_{name}.py")]
    own += place.glob(f"test_{name}_*.py")
    return sorted(set(own or (place.glob("test_*.py") if folders else ())))


def chosen(files: Iterable[Path]) -> list[Path]:
    """Return what to hand to pytest: own tests and docstrings first, then those of importers."""
    files = list(files)
    modules = {module: path for path in files if (module := module_of(path))}
    near = [path for path in files if path.name.startswith("test_") and path.suffix == ".py"]
    near += [path for path in files if path.suffix == ".md" and "docs" in path.parts]
    near += [*modules.values(), *(test for module in modules for test in tests_of(module))]
    imports = grimp.build_graph(*SOURCES, cache_dir=None)
    importers = {
        user
        for module in modules.keys() & imports.modules
        for user in imports.find_modules_that_directly_import(module)
    }
    far = [test for user in sorted(importers - modules.keys()) for test in tests_of(user)]
    return list(dict.fromkeys([ALWAYS, *near, *far]))


class Budget:
    """Ends a run of pytest when its time is up."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.left = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how many tests there are."""
        self.left = len(session.items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Stop after this test if no time is left."""
        result = yield
        self.left -= 1
        if self.left and time.monotonic() > self.until:
            item.session.shouldstop = f"time is up; {self.left} tests are left to `make test`"
        return result


def style() -> list[str]:
    """Run what looks at the code; return the output of what failed."""
    failed = []
    for name, *options in STYLE:
        command = [str(Path(sys.executable).with_name(name)), *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{name}:\n{done.stdout}{done.stderr}")
    return failed


def main() -> int:
    """Return 0 if everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", default="main", metavar="COMMIT")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    started = time.monotonic()
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, SOURCES.values()))
    sys.path[:0] = [str(ROOT), *map(str, SOURCES.values())]
    options = ["-q", "-m", "not slow and not nightly", "--no-header", "-W", "ignore"]
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(style)
        tests = [str(path) for path in chosen(changed(given.against))]
        ended = pytest.main([*options, *tests], plugins=[Budget(given.seconds)])
        failed = looking.result()
    print(*failed, sep="\n", end="")
    stopped = ended == pytest.ExitCode.INTERRUPTED
    good = not failed and (ended == pytest.ExitCode.OK or stopped)
    print(f"check: {'passed' if good else 'FAILED'} in {time.monotonic() - started:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
