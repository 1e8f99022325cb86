"""Set the version of both distributions, or check that everything agrees on it.

    python scripts/version.py 0.2.0            # before a release
    python scripts/version.py --check 0.2.0    # for a tag

The version is kept in src/graphtemper/_core/version.py, where the two pyproject.toml files read it.
Setting it there also dates the release in CITATION.cff and closes the "Unreleased" section of
CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = ROOT / "src" / "graphtemper" / "_core" / "version.py"
CITATION = ROOT / "CITATION.cff"
CHANGELOG = ROOT / "CHANGELOG.md"
REPOSITORY = "https://github.com/graphtemper/graphtemper"
_NUMBER = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"


def current() -> str:
    """Return the version of the library."""
    return _match(rf'^__version__ = "({_NUMBER})"$', VERSION)


def cited() -> str:
    """Return the version in CITATION.cff."""
    return _match(rf"^version: ({_NUMBER})$", CITATION)


def released() -> str:
    """Return the newest version in CHANGELOG.md."""
    return _match(rf"^## \[({_NUMBER})\] - \d{{4}}-\d\d-\d\d$", CHANGELOG)


def close_section(changelog: str, version: str, date: str) -> str:
    r"""Return a changelog whose unreleased section has become that of a version.

    Examples
    --------
    >>> print(close_section("## [Unreleased]\n\n### Fixed\n- A.\n", "1.2.0", "2030-01-31"))
    ## [Unreleased]
    <BLANKLINE>
    ## [1.2.0] - 2030-01-31
    <BLANKLINE>
    ### Fixed
    - A.
    <BLANKLINE>
    """
    title = "## [Unreleased]"
    return changelog.replace(title, f"{title}\n\n## [{version}] - {date}", 1)


def main() -> None:
    """Set or check the version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("--check", action="store_true", help="change nothing")
    arguments = parser.parse_args()
    version = arguments.version
    if not re.fullmatch(_NUMBER, version):
        sys.exit(f"version: {version} is not a version such as 1.2.0 or 1.2.0rc1.")
    if arguments.check:
        for path, found in (VERSION, current()), (CITATION, cited()), (CHANGELOG, released()):
            if found != version:
                sys.exit(f"version: {path.relative_to(ROOT)} says {found}, not {version}.")
        return
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    _write(VERSION, VERSION.read_text("utf-8").replace(current(), version))
    citation = re.sub(r"(?m)^version: .*$", f"version: {version}", CITATION.read_text("utf-8"))
    _write(CITATION, re.sub(r"(?m)^date-released: .*$", f"date-released: {date}", citation))
    changelog = close_section(CHANGELOG.read_text("utf-8"), version, date)
    previous = released()
    changelog = re.sub(
        r"(?m)^\[Unreleased\]: .*$",
        f"[Unreleased]: {REPOSITORY}/compare/v{version}...HEAD\n"
        f"[{version}]: {REPOSITORY}/compare/v{previous}...v{version}",
        changelog,
    )
    _write(CHANGELOG, changelog)


def _match(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text("utf-8"), re.M)
    if match is None:
        sys.exit(f"version: {path.relative_to(ROOT)} has no line like {pattern}.")
    return match[1]


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", newline="\n")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
