"""Kill, stop, double and obstruct commands, and compare with an undisturbed run.

    python scripts/faults.py [--jobs-of NAME ...] [--conditions NAME ...] [--trials N] [--seed SEED]

Prints one line of JSON per command and condition, with the violated rule, if any. Each runs in a
fresh folder. The rules:

- killed (SIGKILL at a random moment, one to three times; unfinished files are truncated): a file
  under a final name has the bytes of the undisturbed run at every moment, others are hidden or
  journals, and the finished folder equals the undisturbed one;
- full, read-only: exit code 2 and one sentence; every file is unchanged, or complete and new; no
  temporary file is left;
- twice: both succeed, or one is refused; the folder is that of a single run;
- stopped (Ctrl-C): exit code 130 and one sentence that says how to resume; a second run ends with
  the folder of an undisturbed run.

Commands run in forks of a process that has loaded all modules, so that a trial costs little more
than the work itself. For the same reason the atlas is small, and the paper has two small figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from graphtemper import SourceCard, cli, csbm, shifts
from graphtemper.card import atlas
from graphtemper.models import SIGN
from graphtemper.recalibration.report import html
from graphtemper_research import paper as experiments
from graphtemper_research.paper import concept

FEW_SHIFTS = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
COMPOSITIONS = 4
FIGURES = ("concept", "bound")
FIGURE_NODES = 2000
OLD = b"the previous content"
MOST_BYTES = (512, 2048)
"""Sizes that files may have on a disk that is full: a sentence, and less than the results need."""
CARD = "--predict model.npz --card model.card.json"
# Loaded before the first fork, or every fork would load them again.
MODULES = (
    "matplotlib.backends.backend_agg",
    "graphtemper_research.trials.negative_controls",
    "graphtemper_research.leaderboard.section",
    "graphtemper.monitor.page",
    "graphtemper.recalibration.report.page",
)


class FaultError(Exception):
    """A violated rule."""


@dataclass(frozen=True)
class Job:
    """A command, its inputs, and the names of files that it may leave unfinished."""

    arguments: str
    inputs: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Whether its result is a directory, which it refuses to replace."""
        return "--features" in self.arguments


JOBS = {
    "card": Job(
        "card build source.npz --predict model.npz --split val:0 --out new.card.json",
        ("source.npz", "model.npz"),
    ),
    "recalibrate": Job(
        f"recalibrate target.npz {CARD} --per-node --report report.html",
        ("target.npz", "model.npz", "model.card.json"),
    ),
    "bench": Job(
        "bench controls --graphs source.npz,target.npz --quick --out bench",
        ("source.npz", "target.npz"),
    ),
    # With --json it prints nothing before the end, so that an interruption prints one line.
    "paper": Job("paper all --out paper --json"),
    "monitor": Job(
        f"monitor days {CARD} --page watch.html --prometheus watch.prom",
        ("days", "model.npz", "model.card.json"),
        ("monitor.sqlite", "monitor.sqlite-journal"),
    ),
    "scale": Job(
        f"recalibrate edges --features nodes --logits z --out parts {CARD}",
        ("edges", "nodes", "z", "model.npz", "model.card.json"),
    ),
}


def warm_up() -> None:
    """Load modules once for all forks, make cards and figures small, and freeze clocks."""
    for name in MODULES:
        importlib.import_module(name)
    # Metrics and cells contain times of the run, but trials compare bytes.
    vars(importlib.import_module("graphtemper.cli.monitor"))["clock"] = lambda: 0.0
    vars(os)["times"] = lambda: (0.0,) * 5
    for name in ("perf_counter", "process_time"):
        vars(importlib.import_module("graphtemper_research.harness.cells"))[name] = lambda: 0.0
    html.vega_bundle()
    plan = atlas.plan

    def few(
        seed: int, exclude: Collection[str], compositions: int, chosen: atlas.Shifts | None = None
    ) -> list[shifts.Shift]:
        return plan(seed, exclude, min(compositions, COMPOSITIONS), chosen or FEW_SHIFTS)

    atlas.plan = few
    experiments.FIGURES = {name: experiments.FIGURES[name] for name in FIGURES}
    concept.SETTING = replace(concept.SETTING, num_nodes=FIGURE_NODES)
    for module in experiments.FIGURES.values():
        importlib.import_module(module)


def make_inputs(folder: Path) -> None:
    """Write the files that the commands read."""
    folder.mkdir()
    settings = {"degree": 6, "snr": 1.0, "num_classes": 2, "num_features": 6}
    source = csbm.sample(600, homophily=0.8, seed=1, **settings)
    val = np.arange(600)[None] >= 300
    source.replace(val_masks=val).save(folder / "source.npz")
    model = SIGN(hops=1).fit(source, range(300))
    model.save(folder / "model.npz")
    SourceCard.build(model, source, range(300, 600), compositions=0).save(
        folder / "model.card.json"
    )
    target = shifts.noise(0.8)(csbm.sample(600, homophily=0.7, seed=2, **settings), 5)
    target.save(folder / "target.npz")
    columns = {
        "edges": dict(zip(("source", "target"), target.edges.T, strict=True)),
        "nodes": {f"x{j}": column for j, column in enumerate(target.features.T)},
        "z": {f"logit_{k}": column for k, column in enumerate(model(target).T)},
    }
    for name, table in columns.items():
        (folder / name).mkdir()
        for part in range(3):
            rows = {key: np.array_split(values, 3)[part] for key, values in table.items()}
            parquet.write_table(pyarrow.table(rows), folder / name / f"{part}.parquet")
    (folder / "days").mkdir()
    for day in range(6):
        snapshot = csbm.sample(300, homophily=0.8, seed=100 + day, **settings)
        snapshot.save(folder / "days" / f"day{day}.npz")


# --- running and checking ---------------------------------------------------------------------


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
        sys.argv = ["graphtemper", *job.arguments.split()]
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


def output_file(folder: Path) -> Path:
    """Return the file with the output of the last command in a folder."""
    return folder.with_name(f"{folder.name}.output")


def wait(process: int, folder: Path, *expected: int) -> str:
    """Return the output of a command; its exit code has to be an expected one."""
    _, status = os.waitpid(process, 0)
    output = output_file(folder).read_text("utf-8", errors="replace").strip()
    code = os.waitstatus_to_exitcode(status)
    if code not in expected:
        raise FaultError(f"ended with {code} and the output {output!r}")
    if code and (len(output.splitlines()) != 1 or not output.startswith("graphtemper: ")):
        raise FaultError(f"ended with {code} and more than one sentence: {output!r}")
    return output


def prepared(job: Job, inputs: Path, folder: Path) -> Path:
    """Make a folder with links to a command's inputs."""
    folder.mkdir()
    for name in job.inputs:
        (folder / name).symlink_to(inputs / name)
    return folder


def is_hidden(name: str) -> bool:
    """Return whether a part of a path begins with a dot, as in the names of temporary files."""
    return any(part.startswith(".") for part in Path(name).parts)


def files(job: Job, folder: Path) -> dict[str, Path]:
    """Return the files of a command that are not hidden, by relative path."""
    paths = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {
        name: path
        for name, path in paths.items()
        if not is_hidden(name) and Path(name).parts[0] not in job.inputs
    }


def content(path: Path) -> bytes:
    """Return the bytes of a file, or the rows of a log: the order of its pages may differ."""
    if path.suffix != ".sqlite":
        return path.read_bytes()
    with closing(sqlite3.connect(path)) as base:
        rows = base.execute("SELECT kind, content FROM log ORDER BY number").fetchall()
    # A stamp has the place and the time of a snapshot's file.
    return repr([(kind, json.loads(text) | {"stamp": None}) for kind, text in rows]).encode()


def check_between(job: Job, folder: Path, whole: dict[str, bytes], *others: bytes) -> None:
    """Check that every file is complete, or a journal, or has one of the other contents."""
    for name, path in files(job, folder).items():
        if name not in job.journals and path.read_bytes() not in (whole.get(name), *others):
            raise FaultError(f"{name} is incomplete, or differs from that of the undisturbed run")


def check_end(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Check that a folder equals the undisturbed one."""
    contents = {name: content(path) for name, path in files(job, folder).items()}
    odd = {name for name in contents.keys() | whole if contents.get(name) != whole.get(name)}
    if odd:
        raise FaultError(f"not as after the undisturbed run: {', '.join(sorted(odd))}")


def resume(job: Job, folder: Path, whole: dict[str, bytes]) -> None:
    """Run a command once more, and check what it leaves."""
    complete = job.is_stored and files(job, folder).keys() == whole.keys()
    wait(start(job, folder), folder, cli.BAD_INPUT if complete else 0)
    check_end(job, folder, whole)


# --- conditions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """A command in a folder of its own, and the files and seconds of its undisturbed run."""

    job: Job
    inputs: Path
    folder: Path
    whole: dict[str, bytes]
    seconds: float
    seed: int = 0


def killed(trial: Trial) -> dict[str, Any]:
    """Kill one to three times at random moments, and let it finish."""
    rng, (job, folder) = random.Random(trial.seed), (trial.job, trial.folder)
    prepared(job, trial.inputs, folder)
    kills, delay = 0, rng.uniform(0, trial.seconds)
    for _ in range(rng.randint(1, 3)):
        while not kill_after(job, folder, delay):
            delay /= 2
            shutil.rmtree(folder)
            prepared(job, trial.inputs, folder)
        kills, delay = kills + 1, rng.uniform(0, trial.seconds)
        check_between(job, folder, trial.whole)
        for path in folder.rglob("*"):  # as a power failure may do; SQLite protects its own
            name = str(path.relative_to(folder))
            if path.is_file() and is_hidden(name) and not name.endswith(".lock"):
                os.truncate(path, int(path.stat().st_size * rng.random()))
    resume(job, folder, trial.whole)
    return {"kills": kills}


def kill_after(job: Job, folder: Path, delay: float) -> bool:
    """Start the command and kill it after some seconds; return False if it had finished."""
    process = start(job, folder)
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def obstructed(trial: Trial, before: Callable[[], object]) -> str:
    """Run over old files, and check that nothing is lost and that no temporary file is left."""
    job, folder = trial.job, trial.folder
    output = wait(start(job, folder, before), folder, cli.BAD_INPUT)
    left = [path for path in folder.rglob("*") if is_hidden(str(path.relative_to(folder)))]
    if any(not path.name.endswith("lock") for path in left):
        raise FaultError(f"{left[0]} is left behind")
    check_between(job, folder, trial.whole, OLD)
    return output


def furnish(trial: Trial) -> Path:
    """Make a folder with an old file in place of each result; logs are appended to."""
    prepared(trial.job, trial.inputs, trial.folder)
    for name in [] if trial.job.is_stored else trial.whole:
        path = trial.folder / name
        if path.suffix != ".sqlite" and "cells" not in name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(OLD)
    return trial.folder


def full(trial: Trial) -> dict[str, Any]:
    """Run where files can be no larger than a sentence, and than a part of the results."""
    sentences = []
    for most in MOST_BYTES:
        furnish(trial)
        small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
        sentences.append(obstructed(trial, small))
        shutil.rmtree(trial.folder)
    return {"output": sentences}


def read_only(trial: Trial) -> dict[str, Any]:
    """Run in a folder that cannot be written to."""
    folder = furnish(trial)
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())]
    for path in folders:
        path.chmod(0o555)
    if os.access(folder, os.W_OK):
        return {"skipped": "this user may write everywhere (see setpriv)"}
    output = obstructed(trial, lambda: None)
    for path in folders:
        path.chmod(0o755)
    return {"output": [output]}


def twice(trial: Trial) -> dict[str, Any]:
    """Run two processes at once."""
    job, folder = trial.job, prepared(trial.job, trial.inputs, trial.folder)
    first = start(job, folder)
    time.sleep(0.1 * trial.seconds)
    second = start(job, folder)
    ends = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in (first, second)]
    if sorted(ends) not in ([0, 0], [0, 2]):
        raise FaultError(f"ended with {ends}: {output_file(folder).read_text('utf-8').strip()}")
    check_end(job, folder, trial.whole)
    return {"ends": ends}


def stopped(trial: Trial) -> dict[str, Any]:
    """Interrupt with Ctrl-C half-way, and resume."""
    job, folder = trial.job, prepared(trial.job, trial.inputs, trial.folder)
    # A background job inherits "ignore" for this signal; a job in a terminal does not.
    process = start(job, folder, lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    time.sleep(0.5 * trial.seconds)
    os.kill(process, signal.SIGINT)
    output = wait(process, folder, 0, cli.INTERRUPTED)
    if not output.startswith("graphtemper: "):
        return {"skipped": "it finished before the interruption"}
    if "same command" not in output:
        raise FaultError(f"does not say how to resume: {output!r}")
    check_between(job, folder, trial.whole)
    resume(job, folder, trial.whole)
    return {"output": [output]}


CONDITIONS = {
    "killed": killed,
    "full": full,
    "read-only": read_only,
    "twice": twice,
    "stopped": stopped,
}


def main() -> int:
    """Run every command in every condition; return 1 if a rule was violated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs-of", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=list(CONDITIONS))
    parser.add_argument("--trials", type=int, default=30, help="how often each is killed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_up()
    faults = 0
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        make_inputs(folder / "inputs")
        for name in options.jobs_of:
            job = JOBS[name]
            place = prepared(job, folder / "inputs", folder / f"{name}-whole")
            begun = time.monotonic()
            wait(start(job, place), place, 0)
            seconds = time.monotonic() - begun
            whole = {file: content(path) for file, path in files(job, place).items()}
            for condition in options.conditions:
                for number in range(options.trials if condition == "killed" else 1):
                    line: dict[str, Any] = {"job": name, "condition": condition}
                    place = folder / f"{name}-{condition}-{number}"
                    seed = 1000 * options.seed + number
                    trial = Trial(job, folder / "inputs", place, whole, seconds, seed)
                    try:
                        line |= CONDITIONS[condition](trial)
                    except FaultError as fault:
                        faults, line["fault"] = faults + 1, str(fault)
                    print(json.dumps(line), flush=True)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
