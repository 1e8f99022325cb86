"""The commands that `faults.py` kills and `hardship.py` obstructs, with small inputs.

Commands run in forks of a process that has loaded all modules, so that a trial costs little more
than the work itself. For the same reason the atlas is small, and the paper has two small figures.
"""

from __future__ import annotations

import hashlib
import http.server
import importlib
import os
import re
import signal
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from graphtemper import Graph, SourceCard, csbm, shifts
from graphtemper.card import atlas
from graphtemper.models import SIGN
from graphtemper.recalibration.report import html
from graphtemper_research import paper as experiments
from graphtemper_research.graphs import datasets
from graphtemper_research.paper import concept

FEW_SHIFTS = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
COMPOSITIONS = 4
FIGURES = ("concept", "bound")
FIGURE_NODES = 2000
DOWNLOAD = "roman_empire"
DEPLOYED = ("--predict", "model.npz", "--card", "model.card.json")
STORED = ("--features", "nodes", "--logits", "z", "--out", "parts")
# Loaded before the first fork, or every fork would load them again.
MODULES = (
    "matplotlib.backends.backend_agg",
    "pyarrow.parquet",
    "graphtemper_research.trials.negative_controls",
    "graphtemper_research.leaderboard.section",
    "graphtemper.monitor.page",
    "graphtemper.recalibration.report.page",
)


@dataclass(frozen=True)
class Job:
    """A command, its inputs, and the names of files that it may leave unfinished."""

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
    ),
    "recalibrate": Job(
        ("recalibrate", "target.npz", *DEPLOYED, "--per-node", "--report", "report.html"),
        ("target.npz", "model.npz", "model.card.json"),
    ),
    "bench": Job(
        ("bench", "controls", "--graphs", "source.npz,target.npz", "--quick", "--out", "bench"),
        ("source.npz", "target.npz"),
    ),
    # With --json it prints nothing before the end, so that an interruption prints one line.
    "paper": Job(("paper", "all", "--out", "paper", "--json"), ()),
    "monitor": Job(
        ("monitor", "days", *DEPLOYED, "--page", "watch.html", "--prometheus", "watch.prom"),
        ("days", "model.npz", "model.card.json"),
        ("monitor.sqlite", "monitor.sqlite-journal"),
    ),
    "scale": Job(
        ("recalibrate", "edges", *STORED, *DEPLOYED),
        ("edges", "nodes", "z", "model.npz", "model.card.json"),
    ),
    "fetch": Job(("data", "fetch", DOWNLOAD), (), (f"cache/graphtemper/{DOWNLOAD}.npz.part",)),
}


def warm_up() -> None:
    """Load modules once for all forks, make cards and figures small, and freeze a clock."""
    for name in MODULES:
        importlib.import_module(name)
    # Metrics and cells contain times of the run, but trials compare bytes.
    vars(importlib.import_module("graphtemper.cli.monitor"))["clock"] = lambda: 0.0
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


@contextmanager
def mirror(graph: Graph) -> Iterator[None]:
    """Serve a graph slowly from another process, in the format of the real download."""
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
    datasets.BLOB_IDS[DOWNLOAD] = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            rest = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = min(int(rest[1]), len(body) - 1) if rest else 0
            self.send_response(206 if rest else 200)
            if rest:
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
            with suppress(OSError):  # the client was killed
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
