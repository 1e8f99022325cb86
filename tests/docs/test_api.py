"""The API page lists the public names, and type checkers know them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphtemper

ROOT = Path(__file__).parents[2]
EXPORTED = sorted(set(dir(graphtemper)) - {"__version__"})


def test_the_page_lists_exactly_the_public_names(docs):
    page = (docs / "api" / "index.md").read_text("utf-8")
    blocks = re.findall(r"\.\. autosummary::\n(.*?)```", page, flags=re.S)
    names = [name for block in blocks for name in re.findall(r"^   (\w+)$", block, flags=re.M)]
    assert sorted(names) == EXPORTED


@pytest.mark.parametrize("name", EXPORTED)
def test_every_name_is_reachable(name):
    assert getattr(graphtemper, name) is not None
    assert name in dir(graphtemper)


def errors_of(tmp_path, *lines):
    pytest.importorskip("mypy")
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(["import graphtemper as gt", *lines]) + "\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(snippet)]
    # From the project's root, so that its configuration and its cache are used.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "error:" in line and "snippet" in line]


@pytest.mark.nightly  # mypy, which `make types` has run on the library
def test_lazy_names_are_typed(tmp_path):
    errors = errors_of(
        tmp_path,
        "gt.metrics.ece",
        "gt.metrics.eece",
        "gt.recalibrat",
        *(f"gt.{name}" for name in EXPORTED),
    )
    assert len(errors) == 2, errors
    assert '"eece"' in errors[0]
    assert '"recalibrat"' in errors[1]
