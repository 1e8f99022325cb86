"""Every committed result, measured again where its code has changed: ``make evidence``.

    python -m graphtemper_research.evidence [--out docs/results] [--work artifacts/evidence]
        [--jobs 2] [--only NAME ...] [--check] [--archive FILE.zip]

The benches come one after the other, each with as many cells at a time as there are cores; then the
other jobs, one process each. A job whose code has not changed since it finished is not run again,
nor is a cell (`harness.uses`), so the same command resumes. The pages are written at the end, from
the files. ``make evidence`` measures the first page's months and speed after that, alone on the
machine. ``--check`` measures nothing: it names the committed results whose code has changed since
the commit that measured them, and exits with 1 if there are any. ``--archive`` writes the results
and all raw rows into one file, to be deposited with a release.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from graphtemper_research import paper
from graphtemper_research.benches import MODULES
from graphtemper_research.harness import provenance, uses
from graphtemper_research.harness.outcome import write_text

OUT = "OUT"
"""Stands for a job's own folder in its command."""


@dataclass(frozen=True)
class Job:
    """A command of Python, the names of its results, the modules it runs, where results go.

    A bench measures its cells in as many processes as there are; the other jobs take one each.
    """

    name: str
    command: tuple[str, ...]
    results: tuple[str, ...]
    modules: tuple[str, ...]
    folder: str = ""

    @property
    def cells(self) -> bool:
        """Say whether it shares out its own work."""
        return "--jobs" in self.command


def _bench(name: str, *results: str, folder: str = "atlas", more: Sequence[str] = ()) -> Job:
    command = ("-m", "graphtemper", "bench", name, *more, "--out", OUT, "--json", "--jobs")
    names = dict.fromkeys(MODULES[result].partition(":")[0] for result in results)
    modules = tuple(f"graphtemper_research.{name}" for name in names)
    return Job(name, command, results, modules, folder)


def _figure(name: str) -> Job:
    command = ("-m", "graphtemper", "paper", name, "--out", OUT, "--json")
    return Job(f"paper-{name}", command, (name,), (paper.FIGURES[name],))


def _module(name: str, result: str) -> Job:
    module = f"graphtemper_research.{name}"
    return Job(result, ("-m", module, OUT), (result,), (module,))


# Of each kind, the longest first.
JOBS = (
    _bench(
        "all",
        "leaderboard",
        folder="",
        more=("--retrain", "FocalLoss,GCL,Tent,GDeltaUQ,GDASpecReg"),
    ),
    _bench("atlas", "atlas_bench"),
    _bench("exam", "exam"),
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
    _bench("card-attacks", "card_attacks"),
    _bench("in-distribution", "calibrators_in_distribution", "cf_gnn_sets", folder=""),
    *map(_figure, sorted(paper.FIGURES, key=lambda n: n not in ("real", "sweep", "rewiring"))),
    _module("trials.private_cards", "private_cards"),
    _module("sentinels", "sentinels"),
)
APART = {
    "benchmarks": "benchmarks.run",
    "large": "benchmarks.large",
    "large_peers": "benchmarks.large_peers",
    "modules": "benchmarks.modules",
    "sampling": "benchmarks.large",
    "scaling": "benchmarks.scaling",
    "months": "graphtemper_research.trials.months",
}
"""Results with commands of their own, by module: speed, which is measured alone on the machine,
graphs larger than memory, and the months of the README."""


def done(job: Job, work: Path) -> bool:
    """Say whether a job is finished, and its code is still the same."""
    mark = work / job.name / "code"
    return mark.is_file() and mark.read_text("utf-8") == uses.key(*job.modules)


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
    write_text(out / "code", uses.key(*job.modules))
    return f"{job.name}: {time.monotonic() - start:.0f} s"


def collect(job: Job, work: Path, out: Path) -> None:
    """Copy the results of a job to where they are committed."""
    for name in job.results:
        for kind in (".json", ".png", ".md"):
            path = work / job.name / f"{name}{kind}"
            if path.is_file() and not (kind == ".md" and "paper" in job.command):
                target = out / job.folder / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(reduced(path) if kind == ".png" else path.read_bytes())


def reduced(path: Path) -> bytes:
    """Return a picture with few colours, as a file of a few kilobytes."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(path) as picture:
        width, height = (round(0.6 * side) for side in picture.size)
        small = picture.convert("RGB").resize((width, height))
        small.quantize(64, Image.Quantize.FASTOCTREE).save(stream, "png", optimize=True)
    return stream.getvalue()


def stale(out: Path) -> dict[str, str]:
    """Return who measured the results whose code has changed since, by path."""
    modules = {name: job.modules for job in JOBS for name in job.results}
    modules |= {name: (module,) for name, module in APART.items()}
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for path in sorted(out.rglob("*.json")):
            measured, code = provenance.read(path), modules[path.stem]
            before = code_at(measured.commit, Path(temporary))
            if uses.key(*code, folders=before) != uses.key(*code, folders=uses.FOLDERS):
                found[path.relative_to(out).as_posix()] = str(measured)
    return found


def code_at(commit: str, temporary: Path) -> tuple[Path, ...]:
    """Return the folders of the code at a commit, none for a commit that is not known."""
    packed, folder = temporary / "code.tar", temporary / commit
    if not folder.exists():
        command = ["git", "archive", "--output", str(packed), commit]
        if subprocess.run(command, cwd=uses.CHECKOUT, capture_output=True).returncode:
            return ()
        shutil.unpack_archive(packed, folder, filter="data")
    return tuple(folder / path.relative_to(uses.CHECKOUT) for path in uses.FOLDERS)


def archive(path: Path, out: Path, work: Path) -> int:
    """Write results and raw rows into one file; return the number of cells.

    The same files give the same bytes.
    """
    raw = sorted(work.rglob("cells/*.json"))
    results = [file for file in sorted(out.rglob("*")) if file.is_file()]
    names = [f"results/{file.relative_to(out).as_posix()}" for file in results]
    names += [f"raw/{file.relative_to(work).as_posix()}" for file in raw]
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in zip(names, [*results, *raw], strict=True):
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(raw)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, collect, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--work", type=Path, default=Path("artifacts/evidence"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--check", action="store_true", help="name results of other code")
    parser.add_argument("--archive", type=Path, help="write results and raw rows into a .zip")
    chosen = parser.parse_args(arguments)
    if chosen.check:
        old = stale(chosen.out)
        print(*(f"{name}: {who}" for name, who in old.items()), sep="\n")
        print(f"{len(old)} results are of other code; `make evidence` measures them.")
        return int(bool(old))
    if chosen.archive:
        print(f"{chosen.archive}: {archive(chosen.archive, chosen.out, chosen.work)} cells")
        return 0
    jobs = [job for job in JOBS if not chosen.only or job.name in chosen.only]
    for job in (job for job in jobs if job.cells):
        print(run(job, chosen.work, chosen.jobs), flush=True)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        apart = [job for job in jobs if not job.cells]
        for line in pool.map(lambda job: run(job, chosen.work), apart):
            print(line, flush=True)
    finished = [job for job in jobs if done(job, chosen.work)]
    for job in finished:
        collect(job, chosen.work, chosen.out)
    from graphtemper_research.pages import pages  # needs torch

    for path, text in pages(chosen.out.parents[1]).items():
        write_text(path, text)
    return int(len(finished) < len(jobs))


if __name__ == "__main__":
    sys.exit(main())
