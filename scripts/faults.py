"""Kill commands at random moments, run them again, and compare with a run that nobody disturbed.

    python scripts/faults.py [--trials N] [--seconds S] [--jobs-of NAME ...] [--seed SEED]

A trial takes one command in a fresh folder, kills it (SIGKILL) one to three times, each time
damages what it left unfinished, and lets it finish. A command that was quicker than the first kill
is killed sooner in another folder. Rules:

- at every moment a file under a final name is whole: its bytes are those of the undisturbed run;
- what is unfinished has a name of its own: hidden, or one of the command's journals;
- the finished folder equals the undisturbed one byte for byte (a log in SQLite row for row, as its
  pages may lie in another order), with no journal left that the undisturbed run does not leave, and
  nothing hidden of a run out of core, which may be larger than its result.

`fault_jobs.py` has the commands.
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
    """A rule that did not hold."""


# --- running and killing ----------------------------------------------------------------------


def start(job: Job, folder: Path, before: Callable[[], object] = lambda: None) -> int:
    """Fork a process that runs the command in a folder; return its id."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        # What it says is kept beside the folder, which may be full.
        said = os.open(told(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(folder)
        before()
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        sys.argv = ["graphtemper", *job.arguments]
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 70
    except BaseException:  # this fork ends here: whatever it is, the trial is to show it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(job: Job, folder: Path, code: int = 0) -> None:
    """Run the command to its end, which is to be this one."""
    _, status = os.waitpid(start(job, folder), 0)
    if os.waitstatus_to_exitcode(status) != code:
        said = told(folder).read_text("utf-8", errors="replace").strip()
        raise FaultError(f"ended with {os.waitstatus_to_exitcode(status)}: {said}")


def told(folder: Path) -> Path:
    """Return the file with what the last command in a folder said."""
    return folder.with_name(f"{folder.name}.said")


def kill_after(job: Job, folder: Path, delay: float) -> bool:
    """Start the command and kill it after some seconds; False if it was quicker."""
    process = start(job, folder)
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


# --- looking at folders -----------------------------------------------------------------------


def files(folder: Path) -> dict[str, Path]:
    """Return the files that have names of their own, by their relative paths."""
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: path for name, path in found.items() if not hidden(name)}


def hidden(name: str) -> bool:
    """Whether a path is a temporary one: a part of it begins with a dot."""
    return any(part.startswith(".") for part in Path(name).parts)


def content(path: Path) -> bytes:
    """Return a file's bytes, or a log's rows."""
    if path.suffix != ".sqlite":
        return path.read_bytes()
    with closing(sqlite3.connect(path)) as base:
        # Positions are in order but may leave numbers out where two processes took turns.
        cursor = base.execute("SELECT * FROM snapshots ORDER BY position")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    return json.dumps([row | {"position": k} for k, row in enumerate(rows)]).encode()


def check_between(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Check after a kill that every file is whole or under a name for unfinished ones."""
    for name, path in files(folder).items():
        if name not in job.journals and name not in whole:
            raise FaultError(f"{name} was left behind under a name that looks final")
        if name not in job.journals and path.read_bytes() != whole[name]:
            raise FaultError(f"{name} was half written, or differs from the undisturbed run's")


def check_end(folder: Path, whole: dict[str, bytes]) -> None:
    """Check that a folder is the undisturbed one."""
    found = {name: content(path) for name, path in files(folder).items()}
    if found.keys() != whole.keys():
        odd = sorted(found.keys() ^ whole.keys())
        raise FaultError(f"the finished folder has other files: {', '.join(odd)}")
    for name, bytes_ in whole.items():
        if found[name] != bytes_:
            raise FaultError(f"{name} differs from the undisturbed run's")


def damage(job: Job, folder: Path, rng: random.Random) -> None:
    """Cut what was being written, as a machine that goes down does; logs guard themselves."""
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
    """Return what a command leaves, and how long it takes."""
    prepared(job, inputs, folder)
    before = time.monotonic()
    finish(job, folder)
    taken = time.monotonic() - before
    return {name: content(path) for name, path in files(folder).items()}, taken


def trial(
    job: Job, inputs: Path, folder: Path, whole: dict[str, bytes], taken: float, seed: int
) -> int:
    """Kill a command one to three times and let it finish; return how often it was killed."""
    rng = random.Random(seed)
    prepared(job, inputs, folder)
    delay = rng.uniform(0, taken)
    while not kill_after(job, folder, delay):
        delay /= 2
        shutil.rmtree(folder)
        prepared(job, inputs, folder)
    kills = 0
    for more in range(rng.randint(1, 3)):
        if more and not kill_after(job, folder, rng.uniform(0, taken)):
            break
        kills += 1
        check_between(job, folder, whole)
        damage(job, folder, rng)
    # A directory that is complete is never replaced: the command refuses.
    complete = job.arguments[0] == "scale" and files(folder).keys() == whole.keys()
    finish(job, folder, code=cli.BAD_INPUT if complete else 0)
    check_end(folder, whole)
    left = [path.name for path in folder.iterdir() if hidden(path.name)]
    if job.arguments[0] == "scale" and left:
        raise FaultError(f"{left[0]} is left behind")
    shutil.rmtree(folder)
    return kills


def main() -> int:
    """Run trials until they are done or time is up; return the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=225, help="how many in all")
    parser.add_argument("--seconds", type=float, default=1800, help="start none after this time")
    parser.add_argument("--jobs-of", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    until = time.monotonic() + asked.seconds
    warm_up()
    trials, kills, faults = Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as place, mirror(csbm.sample(3000, 8, 0.5, 1.0, seed=3)):
        room = Path(place)
        (room / "inputs").mkdir()
        make_inputs(room / "inputs")
        known = {
            name: undisturbed(JOBS[name], room / "inputs", room / f"{name}-whole")
            for name in asked.jobs_of
        }
        for number in range(asked.trials):
            if time.monotonic() > until:
                break
            name = asked.jobs_of[number % len(asked.jobs_of)]
            folder, seed = room / f"{name}-{number}", 1000 * asked.seed + number
            try:
                kills[name] += trial(JOBS[name], room / "inputs", folder, *known[name], seed)
            except FaultError as fault:
                faults += 1
                print(f"{name}, trial {number}: {fault}", flush=True)
            trials[name] += 1
    for name in asked.jobs_of:
        print(f"{name}: {trials[name]} trials, {kills[name]} kills, {known[name][1]:.2f} s whole")
    print(f"{trials.total()} trials, {kills.total()} kills, {faults} faults")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
