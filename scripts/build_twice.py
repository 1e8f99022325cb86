"""Build the pure wheels and the sdists of both distributions twice, and refuse other bytes.

    python scripts/build_twice.py dist

Needs the package `build`. The files are dated by the last commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def difference(first: Path, second: Path) -> str:
    """Return which files of two folders differ, or an empty string."""
    names = [{path.name for path in folder.iterdir()} for folder in (first, second)]
    if names[0] != names[1]:
        return f"other files: {', '.join(sorted(names[0] ^ names[1]))}"
    other = [n for n in names[0] if (first / n).read_bytes() != (second / n).read_bytes()]
    return f"other bytes: {', '.join(sorted(other))}" if other else ""


def build(out: Path) -> None:
    """Build without a compiler, so that the wheel serves every system."""
    dated = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    variables = os.environ | {"CC": "false", "SOURCE_DATE_EPOCH": dated.stdout.strip()}
    for folder in (ROOT, ROOT / "research"):
        command = [sys.executable, "-m", "build", "--outdir", str(out), str(folder)]
        subprocess.run(command, check=True, env=variables)


def main(out: str) -> None:
    """Build into a folder and into a temporary one, and compare."""
    with tempfile.TemporaryDirectory() as again:
        build(Path(out))
        build(Path(again))
        differs = difference(Path(out), Path(again))
    if differs:
        sys.exit(f"two builds differ, {differs}")
    print(f"built twice, with the same bytes: {', '.join(sorted(os.listdir(out)))}")


if __name__ == "__main__":
    main(sys.argv[1])
