"""The lock holds what the constraints pin, each with checksums."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.M)


def test_every_pin_is_locked_with_checksums():
    pinned = dict(PIN.findall((ROOT / "constraints.txt").read_text("utf-8")))
    lock = (ROOT / "requirements-test.lock").read_text("utf-8")
    assert dict(PIN.findall(lock)) == pinned
    for block in re.split(r"^(?=\S+==)", lock, flags=re.M)[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}$", block, flags=re.M), block.split()[0]
