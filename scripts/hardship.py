"""Run commands in adverse conditions: a full disk, a read-only folder, two at once, Ctrl-C.

    python scripts/hardship.py [--conditions NAME ...] [--jobs-of NAME ...]

Prints one line of JSON per command and condition: exit codes, output, the time until it stopped,
and the violated rule, if any. The rules:

- full, read-only: exit code 2 and one sentence; every file is unchanged, or complete and new; no
  temporary file is left;
- twice: both succeed, or one is refused in one sentence; the folder is that of a single run;
- stopped (Ctrl-C): exit code 130 and one sentence that says how to resume; a second run ends with
  the folder of an undisturbed run.
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
    output_file,
    start,
    undisturbed,
)

OLD = b"the previous content"
FREE = (0, 8)
"""Free kilobytes on the disk that fills up: none, and less than the results need."""


def wait(process: int, folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of a command."""
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), output_file(folder).read_text("utf-8").strip()


def check_sentence(code: int, output: str, expected: int) -> None:
    """Check the exit code, and that the output is one sentence."""
    lines = output.splitlines()
    if code != expected or len(lines) != 1 or not output.startswith("graphtemper: "):
        raise FaultError(f"ended with {code} and the output {output!r}")


def link(job: Job, inputs: Path, folder: Path) -> Path:
    """Link a command's inputs into a folder."""
    for name in job.inputs:
        (folder / name).symlink_to(inputs / name)
    return folder


def unlink(folder: Path) -> Path:
    """Remove the links to the inputs, so that only the files of the command are left."""
    for path in folder.iterdir():
        if path.is_symlink():
            path.unlink()
    return folder


def furnish(job: Job, inputs: Path, folder: Path, whole: dict[str, bytes]) -> None:
    """Link a command's inputs, and create an old file in place of each of its results."""
    link(job, inputs, folder)
    for name in whole:
        path = folder / name
        # Logs are appended to, complete directories refused, existing graphs not downloaded.
        replaced = (
            path.suffix != ".sqlite"
            and job.arguments[0] != "data"
            and "--features" not in job.arguments
        )
        if replaced and "cells" not in name and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(OLD)


def may_stay(name: str) -> bool:
    """Return whether a path is a lock."""
    return name.endswith("lock")


def is_input(job: Job, name: str) -> bool:
    """Return whether a file is among the inputs of a command."""
    return any(name == path or name.startswith(f"{path}/") for path in job.inputs)


def check_nothing_lost(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Check that files are old, complete or journals, and that no temporary file is left."""
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if hidden(name) and not may_stay(name):
            raise FaultError(f"{name} is left behind")
    for name, path in files(folder).items():
        if is_input(job, name) or name in job.journals:
            continue
        if path.read_bytes() not in (OLD, whole.get(name)):
            raise FaultError(f"{name} is neither the old file nor a complete new one")


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Callable[[], object]]:
    """Create a folder on a small disk; yield the function that a process has to call first.

    The disk is a file system in memory if this process may mount one, else a limit on file sizes.
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
    """Leave N kilobytes free, unless file sizes are limited instead."""
    if not os.path.ismount(folder):
        return
    free = os.statvfs(folder)
    (folder / "ballast").write_bytes(bytes(free.f_bavail * free.f_bsize - kilobytes * 1024))


def on_a_full_disk(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], _: float
) -> dict[str, Any]:
    """Run with no free space, then with too little."""
    sentences = []
    for kilobytes in FREE:
        place = folder.with_name(f"{folder.name}-{kilobytes}")
        with small_disk(place, kilobytes) as before:
            furnish(job, inputs, place, whole)
            fill(place, kilobytes)
            code, sentence = wait(start(job, place, before), place)
            check_sentence(code, sentence, 2)
            (place / "ballast").unlink(missing_ok=True)
            check_nothing_lost(job, place, whole)
            sentences.append(sentence)
    return {"output": sentences}


def read_only(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], _: float
) -> dict[str, Any]:
    """Run in a folder that cannot be written to."""
    folder.mkdir()
    furnish(job, inputs, folder, whole)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(0o555)
    if os.access(folder, os.W_OK):
        return {"output": [], "skipped": "this user may write everywhere (see setpriv)"}
    code, output = wait(start(job, folder), folder)
    check_sentence(code, output, 2)
    check_nothing_lost(job, folder, whole)
    for path in (folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())):
        path.chmod(0o755)
    return {"output": [output]}


def twice(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], duration: float
) -> dict[str, Any]:
    """Run two processes at once."""
    folder.mkdir()
    first = start(job, link(job, inputs, folder))
    time.sleep(0.1 * duration)
    second = start(job, folder)
    ends = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in (first, second)]
    if sorted(ends) not in ([0, 0], [0, 2]):
        raise FaultError(f"ended with {ends}: {output_file(folder).read_text('utf-8').strip()}")
    check_end(unlink(folder), whole)
    return {"ends": ends}


def stopped(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], duration: float
) -> dict[str, Any]:
    """Interrupt with Ctrl-C half-way, and resume."""
    folder.mkdir()
    link(job, inputs, folder)
    # A background job inherits "ignore" for this signal; a job in a terminal does not.
    process = start(job, folder, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    time.sleep(0.5 * duration)
    before = time.monotonic()
    os.kill(process, signal.SIGINT)
    code, output = wait(process, folder)
    seconds = time.monotonic() - before
    if code == 0:
        return {"output": [], "skipped": "it finished before the interruption"}
    check_sentence(code, output, 130)
    if not any(words in output for words in ("run `graphtemper", "same command")):
        raise FaultError(f"does not say how to resume: {output!r}")
    check_between(job, unlink(folder), whole)
    if not ("--features" in job.arguments and files(folder).keys() == whole.keys()):
        finish(job, link(job, inputs, folder))
    check_end(unlink(folder), whole)
    return {"output": [output], "seconds": round(seconds, 2)}


CONDITIONS = {"full": on_a_full_disk, "read-only": read_only, "twice": twice, "stopped": stopped}


def main() -> int:
    """Run every command in every condition; return 1 if a rule was violated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs-of", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument(
        "--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS), metavar="NAME"
    )
    options = parser.parse_args()
    warm_up()
    faults = 0
    with tempfile.TemporaryDirectory() as root, mirror(csbm.sample(3000, 8, 0.5, 1.0, seed=3)):
        folder = Path(root)
        inputs = folder / "inputs"
        inputs.mkdir()
        make_inputs(inputs)
        for name in options.jobs_of:
            job = JOBS[name]
            whole, duration = undisturbed(job, inputs, folder / f"{name}-whole")
            results = {file: bytes_ for file, bytes_ in whole.items() if not is_input(job, file)}
            for condition in options.conditions:
                line: dict[str, Any] = {"job": name, "condition": condition}
                place = folder / f"{name}-{condition}"
                try:
                    line |= CONDITIONS[condition](job, inputs, place, results, duration)
                except FaultError as fault:
                    faults, line["fault"] = faults + 1, str(fault)
                print(json.dumps(line), flush=True)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
