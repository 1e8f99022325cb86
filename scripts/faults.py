"""Kill commands at random moments, run them again, and compare with a run that nobody disturbed.

    python scripts/faults.py [--trials N] [--seconds S] [--jobs-of NAME ...] [--seed SEED]

A trial takes one command in a fresh folder, kills it (SIGKILL) one to three times, each time
damages what it left unfinished, and lets it finish. Rules:

- at every moment a file under a final name is whole: its bytes are those of the undisturbed run;
- what is unfinished has a name of its own: hidden, or one of the command's journals;
- the finished folder equals the undisturbed one byte for byte (a log in SQLite row for row, as its
  pages may lie in another order), with no journal left that the undisturbed run does not leave, and
  nothing hidden of a run out of core, which may be larger than its result.

Commands run in forks of this process, so that a trial costs the work alone. A small atlas stands in
for the real one, for the same reason.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import importlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from graphtemper import Graph, SourceCard, atlas, cli, csbm, datasets, shifts
from graphtemper.experiments.atlas import cells
from graphtemper.models import SIGN
from graphtemper.report import html
from graphtemper.scale import convert_graph

FEW = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
COMPOSITIONS = 4
FETCHED = "roman_empire"
DEPLOYED = ("--predict", "model.npz", "--card", "model.card.json")
# Loaded before the first fork, or every fork would load them again.
MODULES = (
    "matplotlib.backends.backend_agg",
    "pyarrow.parquet",
    "graphtemper.experiments.atlas.controls",
    "graphtemper.experiments.leaderboard.section",
    "graphtemper.monitor.page",
    "graphtemper.report.page",
)


@dataclass(frozen=True)
class Job:
    """A command, the inputs it needs, and the names of what it may leave unfinished."""

    arguments: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()


JOBS = {
    "card": Job(
        (
            *("card", "build", "source.npz", "--predict", "model.npz", "--split", "val:0"),
            *("--out", "new.card.json"),
        ),
        ("source.npz", "model.npz"),
        ("new.card.json.part",),
    ),
    "recalibrate": Job(
        ("recalibrate", "target.npz", *DEPLOYED, "--per-node", "--report", "report.html"),
        ("target.npz", "model.npz", "model.card.json"),
    ),
    "bench": Job(
        ("bench", "controls", "--graphs", "source.npz,target.npz", "--quick", "--out", "bench"),
        ("source.npz", "target.npz"),
    ),
    "paper": Job(("paper", "concept", "--out", "paper")),
    "monitor": Job(
        ("monitor", "days", *DEPLOYED, "--page", "watch.html", "--prometheus", "watch.prom"),
        ("days", "model.npz", "model.card.json"),
        ("monitor.sqlite", "monitor.sqlite-journal"),
    ),
    "scale": Job(
        ("scale", "recalibrate", "shards", *DEPLOYED, "--out", "parts"),
        ("shards", "model.npz", "model.card.json"),
    ),
    "convert": Job(
        ("scale", "convert", "target.npz", "--out", "made", "--rows-per-shard", "200"),
        ("target.npz",),
    ),
    "logits": Job(
        ("scale", "recalibrate-logits", "z", "--card", "model.card.json", "--out", "parts"),
        ("z", "model.card.json"),
    ),
    "fetch": Job(("data", "fetch", FETCHED), (), (f"cache/graphtemper/{FETCHED}.npz.part",)),
}


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
    finally:
        sys.stdout.flush()
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
    kills = 0
    for _ in range(rng.randint(1, 3)):
        if not kill_after(job, folder, rng.uniform(0, taken)):
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


def warm_up() -> None:
    """Load what every fork needs, once, let every card have few environments, and stop a clock."""
    for name in MODULES:
        importlib.import_module(name)
    # Metrics say when the watch ran; trials compare bytes.
    vars(importlib.import_module("graphtemper.cli.monitor"))["clock"] = lambda: 0.0
    html.vega_bundle()
    cells.code()  # once for all forks: the source may be edited while trials run
    plan = atlas.plan

    def few(seed: int, exclude: tuple[str, ...], compositions: int) -> list[shifts.Shift]:
        return plan(seed, exclude, min(compositions, COMPOSITIONS))

    atlas.LEVELS, atlas.plan = FEW, few


def make_inputs(folder: Path) -> None:
    """Write what the commands read."""
    settings = {"degree": 6, "snr": 1.0, "num_classes": 2, "num_features": 6}
    source = csbm.sample(600, homophily=0.8, seed=1, **settings)
    val = np.zeros((1, 600), bool)
    val[0, 300:] = True
    source.replace(val_masks=val).save(folder / "source.npz")
    model = SIGN(hops=1).fit(source, range(300))
    model.save(folder / "model.npz")
    SourceCard.build(model, source, range(300, 600), compositions=0).save(
        folder / "model.card.json"
    )
    target = shifts.noise(0.8)(csbm.sample(600, homophily=0.7, seed=2, **settings), 5)
    target.save(folder / "target.npz")
    convert_graph(target, folder / "shards", rows_per_shard=200)
    (folder / "z").mkdir()
    for part, rows in enumerate(np.split(model(target), 3)):
        columns = {f"logit_{k}": column for k, column in enumerate(rows.T)}
        parquet.write_table(pyarrow.table(columns), folder / "z" / f"{part}.parquet")
    (folder / "days").mkdir()
    for day in range(6):
        drawn = csbm.sample(300, homophily=0.8, seed=100 + day, **settings)
        drawn.save(folder / "days" / f"day{day}.npz")


# --- a server to fetch from -------------------------------------------------------------------


@contextmanager
def mirror(graph: Graph) -> Iterator[None]:
    """Serve a graph as the authors of the real one store theirs, slowly, from another process."""
    masks = np.random.default_rng(0).integers(0, 3, (10, graph.num_nodes))
    with tempfile.TemporaryDirectory() as place:
        np.savez(
            Path(place) / "upstream.npz",
            node_features=graph.features,
            node_labels=graph.labels,
            edges=graph.edges.astype(np.int64),
            **{f"{name}_masks": masks == k for k, name in enumerate(("train", "val", "test"))},
        )
        body = (Path(place) / "upstream.npz").read_bytes()
    datasets.BLOB_IDS[FETCHED] = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = min(int(asked[1]), len(body) - 1) if asked else 0
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            step = len(body) // 20
            for first in range(start, len(body), step):
                self.wfile.write(body[first : first + step])
                self.wfile.flush()
                time.sleep(0.02)

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the other side was killed
                super().handle()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    process = os.fork()
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        server.serve_forever()
    server.socket.close()
    os.environ["GRAPHTEMPER_MIRROR"] = f"http://127.0.0.1:{server.server_port}"
    os.environ["GRAPHTEMPER_DATA"] = os.devnull
    os.environ["no_proxy"] = "127.0.0.1"
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def main() -> int:
    """Run trials until they are done or time is up; return the number of faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=140, help="how many in all")
    parser.add_argument("--seconds", type=float, default=600, help="start none after this time")
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
