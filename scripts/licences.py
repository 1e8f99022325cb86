"""Write docs/licences.md: the dependencies of graphtemper and its extras, and their licences.

    python scripts/licences.py [WHEEL ...]

A licence comes from the metadata of the installed package, or of a wheel named on the command line.
A package that is in neither place keeps the licence that the page has.
"""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import cast

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEAD = """# Licences of dependencies

Written by `scripts/licences.py` from the packages' own metadata; do not edit. graphtemper itself is
under the MIT licence. It contains no code of these packages: they are installed alongside it.

"""
NOT_STATED = "not stated"
NOT_INSTALLED = "not installed here"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Some packages have the whole text in the field that is meant for a name.
_LONGEST = 60


def canonical(name: str) -> str:
    """Return the normalised form of a package name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(project: Mapping[str, object]) -> dict[str, list[str]]:
    """Return every package that pyproject.toml names, with the extras that need it."""
    needed: dict[str, list[str]] = {}
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    for what, listed in {"core": project["dependencies"], **extras}.items():
        for requirement in listed:
            match = _NAME.match(requirement)
            assert match is not None
            name = canonical(match[0])
            if name != project["name"]:
                needed.setdefault(name, []).append(what)
    return needed


def licence(about: Message) -> str:
    """Return a package's licence in a few words.

    That is the SPDX expression, else the classifiers, else the free-form field.
    """
    expression = about.get("License-Expression")
    if expression:
        return str(expression)
    trove = [
        line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if "License" in line
    ]
    named = [line for line in trove if line != "OSI Approved"]
    if named:
        return ", ".join(named)
    lines = str(about.get("License") or "").strip().splitlines()
    words = lines[0].strip() if lines else ""
    return words if words and words != "UNKNOWN" and len(words) <= _LONGEST else NOT_STATED


def from_wheel(path: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def listed(page: str) -> dict[str, str]:
    r"""Return the licences on a page, by package.

    Examples
    --------
    >>> listed("| package | version | licence |\n| scipy | 1.17.1 | BSD License |")["scipy"]
    'BSD License'
    """
    return dict(re.findall(r"^\| ([\w.-]+) \| .* \| (.+) \|$", page, re.M))


def render(
    needed: Mapping[str, list[str]], pinned: list[tuple[str, str]], licences: Mapping[str, str]
) -> str:
    """Return the page."""
    lines = ["## Named in pyproject.toml", "", "| package | needed by | licence |"]
    lines.append("| --- | --- | --- |")
    lines += [
        f"| {name} | {', '.join(extras)} | {licences.get(name, NOT_INSTALLED)} |"
        for name, extras in sorted(needed.items())
    ]
    lines += ["", "## Pinned in constraints.txt", ""]
    lines += ["All packages that the tests, the demo and the benchmarks install.", ""]
    lines += ["| package | version | licence |", "| --- | --- | --- |"]
    rows = sorted((canonical(name), version) for name, version in pinned)
    lines += [
        f"| {name} | {version} | {licences.get(name, NOT_INSTALLED)} |" for name, version in rows
    ]
    return HEAD + "\n".join(lines) + "\n"


def main(wheels: list[Path]) -> None:
    """Write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    licences = listed(PAGE.read_text("utf-8")) if PAGE.is_file() else {}
    installed = [cast("Message", item.metadata) for item in metadata.distributions()]
    for about in [*installed, *map(from_wheel, wheels)]:
        if about["Name"]:
            licences[canonical(str(about["Name"]))] = licence(about).replace("|", "\\|")
    PAGE.write_text(render(direct(project), pins, licences), "utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
