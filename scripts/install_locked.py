"""Install what the tests need into a venv, by checksum.

    python scripts/install_locked.py VENV/bin/python

Every package of requirements-test.lock is installed without dependencies, and pip refuses a file
whose checksum is not in the lock. torch comes last, because it has builds outside of the package
index (for CPUs only, for one version of CUDA): the build that pip finds is downloaded and compared
with the lock. One that is not in the lock is installed by its version, and a line says so. Its own
dependencies that the lock does not have, such as CUDA libraries, are installed by version too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Most modules of these packages are never imported, and Python compiles those that are.
BY_CHECKSUM = ("--require-hashes", "--no-deps", "--no-compile")
REMEDY = (
    "the packages of requirements-test.lock could not be installed by checksum; "
    "`make test LOCKED=0` installs the versions of constraints.txt without checksums."
)


def split(lock: str, name: str = "torch") -> tuple[str, str]:
    r"""Return the lock without a package, and the lines of that package.

    Examples
    --------
    >>> split("a==1 --hash=x\ntorch==2 --hash=y\ntorch-geometric==3 --hash=z\n")
    ('a==1 --hash=x\ntorch-geometric==3 --hash=z\n', 'torch==2 --hash=y\n')
    """
    blocks = re.split(r"^(?=\S+==)", lock, flags=re.M)
    chosen = [block for block in blocks if block.startswith(f"{name}==")]
    return "".join(block for block in blocks if block not in chosen), "".join(chosen)


def main(python: str) -> int:
    """Install everything; return an exit code."""

    def pip(*arguments: str | Path) -> bool:
        quiet = ("-m", "pip", "--quiet", "--disable-pip-version-check")
        return subprocess.run([python, *quiet, *map(str, arguments)], check=False).returncode == 0

    rest, torch = split((ROOT / "requirements-test.lock").read_text("utf-8"))
    pin = torch.split()[0]
    pinned = ("--constraint", ROOT / "constraints.txt")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rest.txt").write_text(rest, "utf-8")
        (folder / "torch.txt").write_text(torch, "utf-8")
        if not pip("install", *BY_CHECKSUM, "--requirement", folder / "rest.txt"):
            print(REMEDY, file=sys.stderr)
            return 1
        if not pip("download", "--no-deps", *pinned, "--dest", folder, pin):
            print(REMEDY, file=sys.stderr)
            return 1
        local = ("--no-index", "--find-links", folder)
        if not pip("install", *BY_CHECKSUM, *local, "--requirement", folder / "torch.txt"):
            print(f"{pin}: the checksum of this build is not in the lock; installed by version.")
        if not pip("install", *pinned, pin):
            return 1
    editable = ("--editable", ROOT, "--editable", ROOT / "research")
    return 0 if pip("install", "--no-deps", "--no-build-isolation", *editable) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
