"""Write docs/licences.md: what graphtemper and its extras depend on, and under which licences.

    python scripts/licences.py [WHEEL ...]

Licences are read from the packages' own metadata as installed; metadata of packages that are not
installed are read from wheels named on the command line.
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

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
HEAD = """# Licences of dependencies

Written by `scripts/licences.py` from the packages' own metadata; do not edit. graphtemper itself is
under the MIT licence. It contains no code of these packages: they are installed beside it.

"""
NOT_STATED = "not stated"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Some packages have the whole text in the field that is meant for a name.
_LONGEST = 60


def canonical(name: str) -> str:
    """Return a name as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(project: Mapping[str, object]) -> dict[str, list[str]]:
    """Return every package that pyproject.toml names, with what needs it."""
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

    The SPDX expression if there is one, else the classifiers, else the field for free text.
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


def render(
    needed: Mapping[str, list[str]], pinned: list[tuple[str, str]], known: Mapping[str, Message]
) -> str:
    """Return the page."""
    lines = ["## Named in pyproject.toml", "", "| package | needed by | licence |"]
    lines.append("| --- | --- | --- |")
    lines += [f"| {n} | {', '.join(needed[n])} | {_cell(known, n)} |" for n in sorted(needed)]
    lines += ["", "## Pinned in constraints.txt", ""]
    lines += [
        "What the tests, the demo and the benchmarks install, with what those bring along.",
        "",
    ]
    lines += ["| package | version | licence |", "| --- | --- | --- |"]
    listed = sorted((canonical(name), version) for name, version in pinned)
    lines += [f"| {name} | {version} | {_cell(known, name)} |" for name, version in listed]
    return HEAD + "\n".join(lines) + "\n"


def _cell(known: Mapping[str, Message], name: str) -> str:
    return licence(known[name]).replace("|", "\\|") if name in known else "not installed here"


def main(wheels: list[Path]) -> None:
    """Write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    known: dict[str, Message] = {}
    for found in metadata.distributions():
        if found.metadata["Name"]:
            known[canonical(found.metadata["Name"])] = found.metadata  # type: ignore[assignment]
    known |= {canonical(str(about["Name"])): about for about in map(from_wheel, wheels)}
    PAGE.write_text(render(direct(project), pins, known), "utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
