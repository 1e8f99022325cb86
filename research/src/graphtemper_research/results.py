"""The committed results, and whether the code that made them is still the same.

A result is a JSON object with the digest of the code that made it as ``code``, or a list of rows
that each have one. What was measured of graphs larger than memory has ``scale`` instead.
"""

from __future__ import annotations

from pathlib import Path

from graphtemper._core.safe_reading import parse_json, read_bytes
from graphtemper_research.harness.digest import SCALE, digest, scale_digest

_LARGEST = 256_000_000


def stale(folder: Path) -> dict[str, str]:
    """Return the digests behind each result that is not of the current code, by path.

    Examples
    --------
    >>> stale(Path("nowhere"))
    {}
    """
    found = {}
    for path in sorted(folder.rglob("*.json")):
        if others := foreign(path):
            found[path.relative_to(folder).as_posix()] = ", ".join(others)
    return found


def foreign(path: Path) -> list[str]:
    """Return the digests in a result that are not of the current code, each once."""
    content = parse_json(read_bytes(path, _LARGEST))
    current, found = {SCALE: scale_digest(), "code": digest()}, []
    for part in content if isinstance(content, list) else [content]:
        stamps = part if isinstance(part, dict) else {}
        name = SCALE if SCALE in stamps else "code"
        if stamps.get(name) != current[name]:
            found.append(str(stamps.get(name)))
    return list(dict.fromkeys(found))
