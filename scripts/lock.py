"""Write requirements-test.lock: every pin of constraints.txt with the checksums of its files.

    python scripts/lock.py [WHEEL ...]

Checksums come from the package index; those of wheels named on the command line (a CPU build of
torch, for example) are added to the pin of the same name and version. `make locked` installs from
the lock and refuses files whose checksum is not in it.
"""

from __future__ import annotations

import hashlib
import re
import sys
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

INDEX = "https://pypi.org/simple"
HEAD = "# Written by scripts/lock.py from constraints.txt; do not edit.\n"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def pins(text: str) -> list[tuple[str, str]]:
    """Return (name, version) of every line that is a pin."""
    matches = (_PIN.fullmatch(line.split("#")[0].strip()) for line in text.splitlines())
    return [(match.group(1), match.group(2)) for match in matches if match]


def canonical(name: str) -> str:
    """Return the normalised form of a package name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(filename: str, name: str) -> str | None:
    """Return the version in the name of a wheel or source archive."""
    stem = re.sub(r"\.(whl|tar\.gz|zip|tar\.bz2|tgz)$", "", filename)
    parts = stem.split("-")
    if filename.endswith(".whl"):
        return parts[1] if canonical(parts[0]) == canonical(name) else None
    rest = re.sub(r"[-_.]+", "-", stem).lower().removeprefix(canonical(name) + "-")
    return stem[-len(rest) :] if rest else None


class _Links(HTMLParser):
    """Collects (file name, checksum) from a page of the index, without yanked files."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        path, _, fragment = (attributes.get("href") or "").partition("#")
        if tag == "a" and fragment.startswith("sha256=") and "data-yanked" not in attributes:
            name = urllib.parse.unquote(path.rsplit("/", 1)[-1])
            self.files.append((name, fragment.removeprefix("sha256=")))


def published(name: str, version: str) -> set[str]:
    """Return the checksums of a release's files on the index."""
    request = urllib.request.Request(f"{INDEX}/{canonical(name)}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        page = _Links()
        page.feed(answer.read().decode("utf-8"))
    return {checksum for file, checksum in page.files if version_of(file, name) == version}


def main(wheels: list[Path]) -> None:
    """Write the lock."""
    root = Path(__file__).parents[1]
    extra: dict[tuple[str, str], set[str]] = {}
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        key = canonical(name), version.split("+")[0]
        extra.setdefault(key, set()).add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    lines = [HEAD]
    for name, version in pins((root / "constraints.txt").read_text("utf-8")):
        checksums = published(name, version) | extra.get((canonical(name), version), set())
        if not checksums:
            sys.exit(f"the index has no file of {name} {version}; name its wheel.")
        hashes = " \\\n".join(f"    --hash=sha256:{value}" for value in sorted(checksums))
        lines.append(f"{name}=={version} \\\n{hashes}\n")
    (root / "requirements-test.lock").write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
