"""Result files: who measured them, when and with what, and rows without repeated names.

A result is one JSON object. Its ``measured`` says which version and commit made it, on which day,
by which command, and in how many CPU seconds. Its ``rows`` are blocks of ``columns`` and
``values``, one line per row: half the size of objects, and a changed row is one changed line.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from graphtemper import __version__

_LARGEST = 256_000_000
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Measured:
    """Who measured a result; ``cpu_seconds`` is None where nobody wrote them down.

    Examples
    --------
    >>> str(Measured("0.2.0", "da4b5ac", "2026-11-19", "graphtemper paper slope"))
    'measured at 0.2.0 (da4b5ac)'
    """

    version: str
    commit: str
    date: str
    command: str
    cpu_seconds: float | None = None

    def __str__(self) -> str:
        return f"measured at {self.version} ({self.commit})"


def stamp(command: str, cpu_seconds: float | None = None) -> dict[str, Any]:
    """Return what a new result says about itself.

    Without ``cpu_seconds``, those of this process and of its finished children count. A checkout
    whose code differs from its commit has ``-changed`` after the commit.
    """
    spent = sum(os.times()[:4]) if cpu_seconds is None else cpu_seconds
    today = datetime.now(UTC).date().isoformat()
    return asdict(Measured(__version__, commit(), today, command, round(spent, 1)))


def commit() -> str:
    """Return the commit of the code that runs, or "unknown" outside a checkout."""
    head = _git("rev-parse", "--short", "HEAD")
    if head is None:
        return "unknown"
    changed = _git("diff", "--quiet", "HEAD", "--", ":/*.py") is None
    return head.strip() + ("-changed" if changed else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_HERE, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def read_json(path: Path) -> Any:
    """Return what a file of results holds; pipes, devices and endless files are refused."""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        raise OSError(f"{path} is not a file of at most {_LARGEST >> 20} MB")
    return json.loads(path.read_bytes())


def read(path: Path) -> Measured:
    """Return who measured a result."""
    return Measured(**load(path)["measured"])


def load(path: Path) -> dict[str, Any]:
    """Return a result with its rows as a list of objects."""
    content: dict[str, Any] = read_json(path)
    if "rows" in content:
        content["rows"] = [
            dict(zip(block["columns"], values, strict=True))
            for block in content["rows"]
            for values in block["values"]
        ]
    return content


def text(content: Mapping[str, Any]) -> str:
    """Return a result as the text of its file.

    Examples
    --------
    >>> rows = [{"graph": "cora", "ece": 0.5}, {"graph": "actor"}]
    >>> print(text({"name": "a", "rows": rows}), end="")
    {
    "name": "a",
    "rows": [
    {"columns": ["graph", "ece"], "values": [
    ["cora", 0.5]
    ]},
    {"columns": ["graph"], "values": [
    ["actor"]
    ]}
    ]
    }
    """
    fields = {name: json.dumps(value, allow_nan=False) for name, value in content.items()}
    if "rows" in content:
        blocks = [
            f'{{"columns": {json.dumps(columns)}, "values": [\n'
            + ",\n".join(json.dumps([*row.values()], allow_nan=False) for row in rows)
            + "\n]}"
            for columns, rows in groupby(content["rows"], key=list)
        ]
        fields["rows"] = "[\n" + ",\n".join(blocks) + "\n]"
    return "{\n" + ",\n".join(f'"{name}": {value}' for name, value in fields.items()) + "\n}\n"
