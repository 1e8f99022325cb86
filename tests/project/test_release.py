"""A version is written once, and the files that repeat it agree."""

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import graphtemper

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "version.py"


def check(version):
    command = [sys.executable, SCRIPT, "--check", version]
    return subprocess.run(command, capture_output=True, text=True)


def test_version_citation_and_changelog_agree():
    done = check(graphtemper.__version__)
    assert done.returncode == 0, done.stderr
    other = check("99.0.0")
    assert other.returncode == 1
    assert "not 99.0.0" in other.stderr


def test_both_distributions_read_the_version_of_the_library():
    for folder in (ROOT, ROOT / "research"):
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        assert "version" not in project["project"]
        path = folder / project["tool"]["hatch"]["version"]["path"]
        assert path.resolve() == ROOT / "src" / "graphtemper" / "_core" / "version.py"


def test_the_changelog_is_in_order():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    titles = re.findall(r"^## (.*)$", text, re.M)
    assert titles[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(.+)\] - (.+)", title).groups() for title in titles[1:]]
    dates = [date.fromisoformat(day) for _, day in released]
    assert dates == sorted(dates, reverse=True)
    for name in ("Unreleased", *(version for version, _ in released)):
        assert re.search(rf"^\[{re.escape(name)}\]: https://", text, re.M), name
