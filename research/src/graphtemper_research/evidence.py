"""Every committed result, measured again by the current code: ``make evidence``.

    python -m graphtemper_research.evidence [--out docs/results] [--work artifacts/evidence]
        [--jobs 2] [--only NAME ...]

Each figure of the paper and each bench is a process of its own, the longest first. What is finished
with the current code is not measured again, so the same command resumes. The pages are written at
the end, from the files. ``make evidence`` measures speed after that, alone on the machine.
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
from graphtemper_research.harness.digest import digest
from graphtemper_research.harness.outcome import read_outcome, write_text

KINDS = (".json", ".csv", ".png", ".md")


@dataclass(frozen=True)
class Job:
    """A command of `graphtemper`, the names of its results, and where they are committed."""

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    folder: str = "atlas"


def _bench(name: str, *results: str, folder: str = "atlas") -> Job:
    return Job(name, ("bench", name), results, folder)


# The longest first.
JOBS = (
    _bench("all", "leaderboard", "leaderboard_raw", folder=""),
    _bench("decisions", "decisions"),
    _bench("natural", "natural_rule", "natural_labels", "natural_environments"),
    _bench("atlas", "atlas_bench"),
    _bench("per-node", "per_node"),
    _bench("class-shares", "class_shares"),
    *(
        Job(f"paper-{name}", ("paper", name), (name,), "")
        for name in sorted(
            paper.FIGURES, key=lambda name: name not in ("real", "sweep", "rewiring")
        )
    ),
    _bench("labels", "labels"),
    _bench("sessions", "sessions"),
    _bench("sets", "sets"),
    _bench("paper-setting", "paper_setting"),
    _bench("controls", "controls"),
    _bench("monitoring", "monitoring"),
)


def done(job: Job, work: Path) -> bool:
    """Say whether the current code has finished a job."""
    main = work / job.name / f"{job.results[0]}.json"
    return main.is_file() and read_outcome(main)["code"] == digest()


def run(job: Job, work: Path) -> str:
    """Run a job in a process of its own; return a line about it."""
    start = time.monotonic()
    if done(job, work):
        return f"{job.name}: finished before"
    command = [sys.executable, "-m", "graphtemper", *job.arguments, "--out", str(work / job.name)]
    found = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if found.returncode:
        last = (found.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{job.name}: FAILED with {found.returncode}: {last}"
    return f"{job.name}: {time.monotonic() - start:.0f} s"


def collect(job: Job, work: Path, out: Path) -> None:
    """Copy the results of a job to where they are committed."""
    for name in job.results:
        for kind in KINDS:
            path = work / job.name / f"{name}{kind}"
            if path.is_file() and not (kind == ".md" and job.arguments[0] == "paper"):
                target = out / job.folder / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())


def pages(out: Path) -> None:
    """Write the pages that are made of several results."""
    from graphtemper_research.graphs import deposit
    from graphtemper_research.paper.audit_page import render
    from graphtemper_research.paper.results_page import write_results

    write_results(out, out.parent / "results.md")
    write_text(out.parent / "audit.md", render(out))
    write_text(out / "DATA.md", deposit.page())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, collect, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--work", type=Path, default=Path("artifacts/evidence"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", default=())
    chosen = parser.parse_args(arguments)
    jobs = [job for job in JOBS if not chosen.only or job.name in chosen.only]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for line in pool.map(lambda job: run(job, chosen.work), jobs):
            print(line, flush=True)
    finished = [job for job in jobs if done(job, chosen.work)]
    for job in finished:
        collect(job, chosen.work, chosen.out)
    pages(chosen.out)
    return int(len(finished) < len(jobs))


if __name__ == "__main__":
    sys.exit(main())
