"""Write requirements-test.lock: every pin of constraints.txt with the checksums of its files.

    python scripts/lock.py [WHEEL ...]

uv finds the files on the package index. The checksums of wheels named on the command line, such as
a build of torch for CPUs, are added to the pin of the same name and version.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-test.lock"


def main(wheels: list[Path]) -> None:
    """Write the lock."""
    options = ("--no-deps", "--generate-hashes", "--no-annotate", "--no-header", "--quiet", "-o")
    command = ["uv", "pip", "compile", "constraints.txt", *options, LOCK.name]
    subprocess.run(command, cwd=ROOT, check=True)
    text = LOCK.read_text("utf-8")
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        pin = f"{name}=={version.split('+')[0]} \\\n"
        if pin not in text:
            sys.exit(f"lock: constraints.txt has no pin {pin.split()[0]}.")
        checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
        text = text.replace(pin, f"{pin}    --hash=sha256:{checksum} \\\n")
    LOCK.write_text("# Written by scripts/lock.py from constraints.txt; do not edit.\n" + text)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
