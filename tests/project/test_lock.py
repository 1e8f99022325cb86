"""The lock holds what the constraints pin, with checksums, and all that these packages need."""

import re
from importlib import metadata
from pathlib import Path

from tests.helpers import needs

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.M)
LOCK = (ROOT / "requirements-test.lock").read_text("utf-8")


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_pin_is_locked_with_checksums():
    texts = LOCK, (ROOT / "constraints.txt").read_text("utf-8")
    locked, pinned = ({(canonical(n), v) for n, v in PIN.findall(text)} for text in texts)
    assert locked == pinned
    for block in re.split(r"^(?=\S+==)", LOCK, flags=re.M)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", block, flags=re.M), block.split()[0]


def test_the_lock_is_complete():
    """Packages are installed without their dependencies, so these must be locked as well."""
    needs("packaging", "hatchling")
    from packaging.requirements import Requirement

    locked = {canonical(name) for name, _ in PIN.findall(LOCK)}
    installed = {canonical(item.name): item for item in metadata.distributions()}
    checked = 0
    for name in sorted(locked & installed.keys() - {"torch"}):  # some builds need CUDA libraries
        for text in installed[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonical(needed.name) in locked, f"{name} needs {needed.name}"
                checked += 1
    assert checked > 50
