"""Every committed result, measured again by the current code: ``make evidence``.

    python -m graphtemper_research.evidence [--out docs/results] [--work artifacts/evidence]
        [--jobs 2] [--only NAME ...] [--stale]

The benches come one after the other, each with as many cells at a time as there are cores; then the
other jobs, one process each. What is finished with the current code is not measured again, so the
same command resumes. The pages are written at the end, from the files. ``make evidence`` measures
the first page's months and speed after that, alone on the machine. ``--stale`` measures nothing: it
names the committed results of other code, and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from graphtemper_research import paper
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.results import foreign, stale

KINDS = (".json", ".csv", ".png", ".md")


OUT = "OUT"
"""Stands for a job's own folder in its command."""


@dataclass(frozen=True)
class Job:
    """A command of Python, the names of its results, and where they are committed.

    A bench measures its cells in as many processes as there are; the other jobs take one each.
    """

    name: str
    command: tuple[str, ...]
    results: tuple[str, ...]
    folder: str = ""

    @property
    def cells(self) -> bool:
        """Say whether it shares out its own work."""
        return "--jobs" in self.command


def _bench(name: str, *results: str, folder: str = "atlas", more: Sequence[str] = ()) -> Job:
    command = ("-m", "graphtemper", "bench", name, *more, "--out", OUT, "--json", "--jobs")
    return Job(name, command, results, folder)


def _figure(name: str) -> Job:
    command = ("-m", "graphtemper", "paper", name, "--out", OUT, "--json")
    return Job(f"paper-{name}", command, (name,))


def _module(name: str, result: str) -> Job:
    return Job(result, ("-m", f"graphtemper_research.{name}", OUT), (result,))


# Of each kind, the longest first.
JOBS = (
    _bench(
        "all",
        "leaderboard",
        "leaderboard_raw",
        folder="",
        more=("--retrain", "FocalLoss,GCL,Tent,GDeltaUQ,GDASpecReg"),
    ),
    _bench("atlas", "atlas_bench"),
    _bench("decisions", "decisions"),
    _bench("natural", "natural_rule", "natural_labels", "natural_environments"),
    _bench("per-node", "per_node"),
    _bench("class-shares", "class_shares"),
    _bench("labels", "labels"),
    _bench("sessions", "sessions"),
    _bench("sets", "sets"),
    _bench("paper-setting", "paper_setting"),
    _bench("controls", "controls"),
    _bench("monitoring", "monitoring"),
    _module("gats", "calibrators_in_distribution"),
    *map(_figure, sorted(paper.FIGURES, key=lambda n: n not in ("real", "sweep", "rewiring"))),
    _module("trials.private_cards", "private_cards"),
    _module("gats.set_sizes", "cf_gnn_sets"),
)
SPEED = (
    "benchmarks.json",
    "large.json",
    "large_peers.json",
    "modules.json",
    "sampling.json",
    "scaling.json",
)
"""Made by `benchmarks`, alone on the machine: seconds, which depend on it."""
README = ("months.json",)
"""Made by `trials.months`."""


def done(job: Job, work: Path) -> bool:
    """Say whether the current code has finished a job."""
    main = work / job.name / f"{job.results[0]}.json"
    return main.is_file() and not foreign(main)


def run(job: Job, work: Path, jobs: int = 1) -> str:
    """Run a job in processes of its own; return a line about it."""
    start = time.monotonic()
    if done(job, work):
        return f"{job.name}: finished before"
    out = work / job.name
    out.mkdir(parents=True, exist_ok=True)
    command = [str(out) if part == OUT else part for part in job.command]
    command += [str(jobs)] if job.cells else []
    found = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if found.returncode:
        last = (found.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{job.name}: FAILED with {found.returncode}: {last}"
    return f"{job.name}: {time.monotonic() - start:.0f} s"


def collect(job: Job, work: Path, out: Path) -> None:
    """Copy the results of a job to where they are committed."""
    for name in job.results:
        for kind in KINDS:
            path = work / job.name / f"{name}{kind}"
            if path.is_file() and not (kind == ".md" and "paper" in job.command):
                target = out / job.folder / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())


def pages(out: Path) -> None:
    """Write the pages that are made of several results."""
    from graphtemper_research.gats import systems
    from graphtemper_research.graphs import deposit
    from graphtemper_research.paper.audit_page import render
    from graphtemper_research.paper.results_page import write_results

    write_results(out, out.parent / "results.md")
    write_text(out.parent / "audit.md", render(out))
    write_text(out / "DATA.md", deposit.page(out))
    calibrators = out.parent / "calibrators.md"
    if calibrators.is_file():
        write_text(calibrators, systems.filled(calibrators.read_text("utf-8"), out))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, collect, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--work", type=Path, default=Path("artifacts/evidence"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--stale", action="store_true", help="name results of other code")
    chosen = parser.parse_args(arguments)
    if chosen.stale:
        for name, code in stale(chosen.out).items():
            print(f"{name}: {code}")
        return int(bool(stale(chosen.out)))
    jobs = [job for job in JOBS if not chosen.only or job.name in chosen.only]
    for job in jobs:
        if job.cells:
            print(run(job, chosen.work, chosen.jobs), flush=True)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for line in pool.map(
            lambda job: run(job, chosen.work), [job for job in jobs if not job.cells]
        ):
            print(line, flush=True)
    finished = [job for job in jobs if done(job, chosen.work)]
    for job in finished:
        collect(job, chosen.work, chosen.out)
    pages(chosen.out)
    return int(len(finished) < len(jobs))


if __name__ == "__main__":
    sys.exit(main())
