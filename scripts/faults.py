"""Kill commands at random moments, run them again, and compare with an undisturbed run.

    python scripts/faults.py [--trials N] [--seconds S] [--jobs-of NAME ...] [--seed SEED]

A trial runs one command in a fresh folder, kills it (SIGKILL) one to three times, each time
truncates its unfinished files, and lets it finish. If the command finishes before the first kill,
the trial starts again with a shorter delay. The rules:

- a file under a final name is complete at every moment: its bytes are those of the undisturbed run;
- unfinished files are hidden, or are journals of the command;
- the finished folder equals the undisturbed one byte for byte (an SQLite log row for row, as the
  order of its pages may differ), without additional journals, and without hidden files of a run out
  of core, which may be larger than its result.

The commands are in `fault_jobs.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fault_jobs import JOBS, Job, make_inputs, mirror, warm_up

from graphtemper import cli, csbm


class FaultError(Exception):
    """A violated rule."""


# --- running and killing ----------------------------------------------------------------------


def start(job: Job, folder: Path, before: Callable[[], object] = lambda: None) -> int:
    """Fork a process that runs the command in a folder; return its id."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        # The output goes to a file next to the folder, because the folder may be full.
        output = os.open(output_file(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        before()
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        sys.argv = ["graphtemper", *job.arguments]
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    except BaseException:  # the fork ends here, and the trial shows the traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(job: Job, folder: Path, code: int = 0) -> None:
    """Run the command to its end, and check its exit code."""
    _, status = os.waitpid(start(job, folder), 0)
    if os.waitstatus_to_exitcode(status) != code:
        output = output_file(folder).read_text("utf-8", errors="replace").strip()
        raise FaultError(f"ended with {os.waitstatus_to_exitcode(status)}: {output}")


def output_file(folder: Path) -> Path:
    """Return the file with the output of the last command in a folder."""
    return folder.with_name(f"{folder.name}.output")


def kill_after(job: Job, folder: Path, delay: float) -> bool:
    """Start the command and kill it after some seconds; return False if it had finished."""
    process = start(job, folder)
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


# --- checking folders -------------------------------------------------------------------------


def files(folder: Path) -> dict[str, Path]:
    """Return the files that are not hidden, by relative path."""
    paths = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: path for name, path in paths.items() if not hidden(name)}


def hidden(name: str) -> bool:
    """Return whether a part of a path begins with a dot, as in the names of temporary files."""
    return any(part.startswith(".") for part in Path(name).parts)


def content(path: Path) -> bytes:
    """Return the bytes of a file, or the rows of a log."""
    if path.suffix != ".sqlite":
        return path.read_bytes()
    with closing(sqlite3.connect(path)) as base:
        # Numbers increase, but may skip some where two processes wrote in turn.
        cursor = base.execute("SELECT * FROM log ORDER BY number")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    for number, row in enumerate(rows):
        # A stamp has the place and the time of a snapshot's file, and every folder is another.
        entry = {key: item for key, item in json.loads(row["content"]).items() if key != "stamp"}
        row |= {"number": number, "content": entry}
    return json.dumps(rows).encode()


def check_between(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Check after a kill that every file is complete, hidden or a journal."""
    for name, path in files(folder).items():
        if name not in job.journals and name not in whole:
            raise FaultError(f"{name} was left behind under a name that looks final")
        if name not in job.journals and path.read_bytes() != whole[name]:
            raise FaultError(f"{name} is incomplete, or differs from that of the undisturbed run")


def check_end(folder: Path, whole: dict[str, bytes]) -> None:
    """Check that a folder equals the undisturbed one."""
    contents = {name: content(path) for name, path in files(folder).items()}
    if contents.keys() != whole.keys():
        odd = sorted(contents.keys() ^ whole.keys())
        raise FaultError(f"the finished folder has other files: {', '.join(odd)}")
    for name, bytes_ in whole.items():
        if contents[name] != bytes_:
            raise FaultError(f"{name} differs from that of the undisturbed run")


def damage(job: Job, folder: Path, rng: random.Random) -> None:
    """Truncate unfinished files, as a power failure may do; SQLite protects its own."""
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        text_or_part = name in job.journals and "sqlite" not in name
        if path.is_file() and (text_or_part or (hidden(name) and not name.endswith(".lock"))):
            os.truncate(path, int(path.stat().st_size * rng.random()))


# --- trials -----------------------------------------------------------------------------------


def prepared(job: Job, inputs: Path, folder: Path) -> Path:
    """Make a folder with a command's inputs."""
    folder.mkdir()
    for name in job.inputs:
        source = inputs / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


def undisturbed(job: Job, inputs: Path, folder: Path) -> tuple[dict[str, bytes], float]:
    """Return the files that a command leaves, and its duration in seconds."""
    prepared(job, inputs, folder)
    before = time.monotonic()
    finish(job, folder)
    duration = time.monotonic() - before
    return {name: content(path) for name, path in files(folder).items()}, duration


def trial(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], duration: float, seed: int
) -> int:
    """Kill a command one to three times and let it finish; return the number of kills."""
    rng = random.Random(seed)
    prepared(job, inputs, folder)
    delay = rng.uniform(0, duration)
    while not kill_after(job, folder, delay):
        delay /= 2
        shutil.rmtree(folder)
        prepared(job, inputs, folder)
    kills = 0
    for more in range(rng.randint(1, 3)):
        if more and not kill_after(job, folder, rng.uniform(0, duration)):
            break
        kills += 1
        check_between(job, folder, whole)
        damage(job, folder, rng)
    # The command refuses to replace a complete directory.
    complete = "--features" in job.arguments and files(folder).keys() == whole.keys()
    finish(job, folder, code=cli.BAD_INPUT if complete else 0)
    check_end(folder, whole)
    shutil.rmtree(folder)
    return kills


def main() -> int:
    """Run the trials until all are done or time is up; return 1 if there were faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=225, help="number of trials")
    parser.add_argument("--seconds", type=float, default=1800, help="start none after this time")
    parser.add_argument("--jobs-of", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    warm_up()
    trials, kills, faults = Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as root, mirror(csbm.sample(3000, 8, 0.5, 1.0, seed=3)):
        folder = Path(root)
        inputs = folder / "inputs"
        inputs.mkdir()
        make_inputs(inputs)
        runs = {
            name: undisturbed(JOBS[name], inputs, folder / f"{name}-whole")
            for name in options.jobs_of
        }
        for number in range(options.trials):
            if time.monotonic() > until:
                break
            name = options.jobs_of[number % len(options.jobs_of)]
            place, seed = folder / f"{name}-{number}", 1000 * options.seed + number
            try:
                kills[name] += trial(JOBS[name], inputs, place, *runs[name], seed)
            except FaultError as fault:
                faults += 1
                print(f"{name}, trial {number}: {fault}", flush=True)
            trials[name] += 1
    for name in options.jobs_of:
        print(f"{name}: {trials[name]} trials, {kills[name]} kills, {runs[name][1]:.2f} s each")
    print(f"{trials.total()} trials, {kills.total()} kills, {faults} faults")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
