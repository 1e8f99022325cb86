"""The committed results, and whether the code that made them is still the same."""

from __future__ import annotations

from pathlib import Path

from graphtemper._core.safe_reading import parse_json, read_bytes
from graphtemper_research.harness.digest import digest

_LARGEST = 256_000_000


def stale(folder: Path) -> dict[str, str]:
    """Return the digest of the code behind each result that is not of the current code, by path.

    Examples
    --------
    >>> stale(Path("nowhere"))
    {}
    """
    found = {}
    for path in sorted(folder.rglob("*.json")):
        content = parse_json(read_bytes(path, _LARGEST))
        code = content.get("code") if isinstance(content, dict) else None
        if code != digest():
            found[path.relative_to(folder).as_posix()] = str(code)
    return found
