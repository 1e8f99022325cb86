"""Run commands where it is hard: on a full disk, in a read-only folder, two at once, stopped.

    python scripts/hardship.py [--ways NAME ...] [--jobs-of NAME ...]

For every command and way one line of JSON: how it ended, what it said, how long it took to stop,
and which rules did not hold. The rules:

- full, read-only: exit code 2 and one sentence; every old file is as it was, or whole and new; no
  temporary file is left, but for the finished stages of a run out of core;
- twice: both end well or one is refused in a sentence, and the folder is that of one run alone;
- stopped (Ctrl-C): exit code 130 and a sentence that says how to go on; run again, it ends with the
  folder of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fault_jobs import JOBS, Job, make_inputs, mirror, warm_up
from faults import (
    FaultError,
    check_between,
    check_end,
    csbm,
    files,
    finish,
    hidden,
    start,
    told,
    undisturbed,
)

OLD = b"what was there before"
ROOMS = (0, 8)
"""Free kilobytes on the disk that fills up: none, and less than the results need."""


def wait(process: int, folder: Path) -> tuple[int, str]:
    """Return how a command ended and what it said."""
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), told(folder).read_text("utf-8").strip()


def check_sentence(code: int, said: str, wanted: int) -> None:
    """Check for the exit code and one sentence."""
    lines = said.splitlines()
    if code != wanted or len(lines) != 1 or not said.startswith("graphtemper: "):
        raise FaultError(f"ended with {code}, saying {said!r}")


def link(job: Job, inputs: Path, folder: Path) -> Path:
    """Link a command's inputs into a folder."""
    for name in job.inputs:
        (folder / name).symlink_to(inputs / name)
    return folder


def unlink(folder: Path) -> Path:
    """Take the inputs out again, so that what is left is what the command wrote."""
    for path in folder.iterdir():
        if path.is_symlink():
            path.unlink()
    return folder


def furnish(job: Job, inputs: Path, folder: Path, whole: dict[str, bytes]) -> None:
    """Link a command's inputs, and put an old file where each of its results will be."""
    link(job, inputs, folder)
    for name in whole:
        path = folder / name
        # A log is added to, a complete directory refused, a graph that is here not fetched.
        replaced = path.suffix != ".sqlite" and job.arguments[0] not in ("scale", "data")
        if replaced and "cells" not in name and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(OLD)


def kept(name: str) -> bool:
    """Whether a path is a lock, or of the finished stages of a run out of core."""
    top, *inner = Path(name).parts
    stages = not inner or (inner[0].startswith("stages-") and "scratch-" not in name)
    return name.endswith("lock") or (top.endswith(".graphtemper") and stages)


def check_nothing_lost(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Check that files are old, whole or journals, and that nothing temporary is left."""
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if hidden(name) and not kept(name):
            raise FaultError(f"{name} is left behind")
    for name, path in files(folder).items():
        inside = any(name == given or name.startswith(f"{given}/") for given in job.inputs)
        if inside or name in job.journals:
            continue
        if path.read_bytes() not in (OLD, whole.get(name)):
            raise FaultError(f"{name} is neither the old file nor a whole new one")


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Callable[[], object]]:
    """Make a folder fill up; give what a process has to do first.

    A file system in memory where this process may mount one, else a limit on the size of files.
    """
    folder.mkdir()
    size = f"size={kilobytes + 256}k"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    if os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield lambda: None
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        most = kilobytes * 1024
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def fill(folder: Path, kilobytes: int) -> None:
    """Leave so many kilobytes free; nothing to do where files are limited instead."""
    if not os.path.ismount(folder):
        return
    free = os.statvfs(folder)
    (folder / "ballast").write_bytes(bytes(free.f_bavail * free.f_bsize - kilobytes * 1024))


def on_a_full_disk(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], _: float
) -> dict[str, Any]:
    """Run with no room at all, then with too little."""
    said = []
    for kilobytes in ROOMS:
        place = folder.with_name(f"{folder.name}-{kilobytes}")
        with small_disk(place, kilobytes) as before:
            furnish(job, inputs, place, whole)
            fill(place, kilobytes)
            code, sentence = wait(start(job, place, before), place)
            check_sentence(code, sentence, 2)
            (place / "ballast").unlink(missing_ok=True)
            check_nothing_lost(job, place, whole)
            said.append(sentence)
    return {"said": said}


def read_only(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], _: float
) -> dict[str, Any]:
    """Run where nothing can be written."""
    folder.mkdir()
    furnish(job, inputs, folder, whole)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(0o555)
    if os.access(folder, os.W_OK):
        return {"said": [], "skipped": "this user may write everywhere (see setpriv)"}
    code, said = wait(start(job, folder), folder)
    check_sentence(code, said, 2)
    check_nothing_lost(job, folder, whole)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(0o755)
    return {"said": [said]}


def twice(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], taken: float
) -> dict[str, Any]:
    """Run two at once."""
    folder.mkdir()
    first = start(job, link(job, inputs, folder))
    time.sleep(0.1 * taken)
    second = start(job, folder)
    ends = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in (first, second)]
    if sorted(ends) not in ([0, 0], [0, 2]):
        raise FaultError(f"ended with {ends}: {told(folder).read_text('utf-8').strip()}")
    check_end(unlink(folder), whole)
    return {"ends": ends}


def stopped(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], taken: float
) -> dict[str, Any]:
    """Stop with Ctrl-C half way, and go on."""
    folder.mkdir()
    link(job, inputs, folder)
    # A background job inherits "ignore" for this signal; a person's terminal does not.
    process = start(job, folder, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    time.sleep(0.5 * taken)
    before = time.monotonic()
    os.kill(process, signal.SIGINT)
    code, said = wait(process, folder)
    seconds = time.monotonic() - before
    if code == 0:
        return {"said": [], "skipped": "it was quicker"}
    check_sentence(code, said, 130)
    if not any(words in said for words in ("run `graphtemper", "same command")):
        raise FaultError(f"does not say how to go on: {said!r}")
    check_between(job, unlink(folder), whole)
    if not (job.arguments[0] == "scale" and files(folder).keys() == whole.keys()):
        finish(job, link(job, inputs, folder))
    check_end(unlink(folder), whole)
    return {"said": [said], "seconds": round(seconds, 2)}


WAYS = {"full": on_a_full_disk, "read-only": read_only, "twice": twice, "stopped": stopped}


def main() -> int:
    """Run every command in every way; return 1 if a rule did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs-of", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="NAME")
    asked = parser.parse_args()
    warm_up()
    faults = 0
    with tempfile.TemporaryDirectory() as place, mirror(csbm.sample(3000, 8, 0.5, 1.0, seed=3)):
        room = Path(place)
        (room / "inputs").mkdir()
        make_inputs(room / "inputs")
        for name in asked.jobs_of:
            job = JOBS[name]
            whole, taken = undisturbed(job, room / "inputs", room / f"{name}-whole")
            made = {
                file: bytes_
                for file, bytes_ in whole.items()
                if not any(file == given or file.startswith(f"{given}/") for given in job.inputs)
            }
            for way in asked.ways:
                line: dict[str, Any] = {"job": name, "way": way}
                try:
                    line |= WAYS[way](job, room / "inputs", room / f"{name}-{way}", made, taken)
                except FaultError as fault:
                    faults, line["fault"] = faults + 1, str(fault)
                print(json.dumps(line), flush=True)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
