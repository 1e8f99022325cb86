"""What sharded recalibration costs: time, memory and disk, and what that means for larger graphs.

    python benchmarks/throughput.py [--nodes N ...] [--dask] [--json FILE] [--folder DIR]

Each size runs in a process of its own, on shards, one task after the other; with ``--dask`` also on
a cluster of one worker, whose CPU time and memory are added to those of the process. CPU seconds
are those of all threads; they vary less than wall-clock time on a machine with other work. Memory
is what was held without pages of files that are only mapped. Sizes in a file of results are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import SourceCard, csbm
from graphtemper.models import SIGN
from graphtemper.scale import ShardedGraph, convert_tables, recalibrate_logits, recalibrate_shards

DEGREE, COLUMNS, CLASSES, SHARDS = 20, 100, 10, 8
SIZES = (250_000, 1_000_000)
ON_DASK = "recalibrate on Dask"
BILLION = {"nodes": 100_000_000, "edges": 1_000_000_000}


def sample(num_nodes: int, homophily: float, seed: int) -> Any:
    return csbm.sample(
        num_nodes, DEGREE, homophily, 1.0, num_classes=CLASSES, num_features=COLUMNS, seed=seed
    )


def prepare(folder: Path, num_nodes: int) -> None:
    """Leave a model, its card, and a target as tables, in a process that may use memory."""
    source = sample(4000, 0.7, 1)
    model = SIGN(hops=2, tol=1e-3).fit(source, range(2000))
    model.save(folder / "model.npz")
    SourceCard.build(model, source, range(2000, 4000), compositions=0).save(folder / "card.json")
    target = sample(num_nodes, 0.6, 2)
    np.save(folder / "x.npy", target.features)
    import pyarrow as pa
    import pyarrow.csv

    pa.csv.write_csv(
        pa.table({"source": target.edges[:, 0], "target": target.edges[:, 1]}), folder / "edges.csv"
    )


def measured(job: Callable[[], Any], folder: Path) -> dict[str, Any]:
    """Run a job; return its cost, and the most that memory and hidden folders held meanwhile."""
    disk, memory, stop = [0], [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            disk.append(on_disk(folder, hidden=True))
            memory.append(own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    try:
        job()
    finally:
        stop.set()
        watcher.join()
    return {
        "wall_seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(_cpu_seconds() - cpu, 2),
        "temporary_bytes": max(disk),
        "memory_bytes": max(memory),
    }


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def on_disk(folder: Path, *, hidden: bool = False) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        if hidden and not any(part.startswith(".") for part in Path(root).parts):
            continue
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def one_size(folder: Path, num_nodes: int, dask: bool) -> dict[str, Any]:
    """Convert, recalibrate, recalibrate the logits alone; all from files."""
    from graphtemper.models import load

    model, card = load(folder / "model.npz"), SourceCard.load(folder / "card.json")
    rows = -(-num_nodes // SHARDS)
    jobs: dict[str, Callable[[], Any]] = {
        "convert": lambda: convert_tables(
            folder / "edges.csv", folder / "x.npy", folder / "graph", rows_per_shard=rows
        ),
        "recalibrate": lambda: recalibrate_shards(
            model, ShardedGraph.open(folder / "graph"), card, folder / "answer"
        ),
        "recalibrate logits": lambda: recalibrate_logits(
            folder / "logits", card, folder / "answer-logits"
        ),
    }
    if dask:
        jobs[ON_DASK] = lambda: _on_dask(model, card, folder)
    found: dict[str, Any] = {}
    for name, job in jobs.items():
        if name == "recalibrate logits":
            _write_logits(folder, num_nodes)
        found[name] = measured(job, folder)
    graph = ShardedGraph.open(folder / "graph")
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "jobs": found,
        "graph_bytes": on_disk(folder / "graph"),
        "answer_bytes": on_disk(folder / "answer"),
    }


def _on_dask(model: SIGN, card: SourceCard, folder: Path) -> None:
    from distributed import Client, LocalCluster

    from graphtemper.scale import OnDask

    graph = ShardedGraph.open(folder / "graph")
    with (
        LocalCluster(1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        recalibrate_shards(model, graph, card, folder / "answer-dask", engine=OnDask(client))


def _write_logits(folder: Path, num_nodes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "logits").mkdir()
    rng = np.random.default_rng(0)
    for part in range(SHARDS):
        logits = rng.standard_normal((num_nodes // SHARDS, CLASSES), dtype=np.float32) * 2
        columns = {f"logit_{k}": column for k, column in enumerate(logits.T)}
        pq.write_table(pa.table(columns), folder / "logits" / f"{part}.parquet")


def own_memory() -> int:
    """Return the resident bytes of this process and its children that belong to no file."""
    tasks = Path("/proc/self/task").glob("*/children")
    children = [name for task in tasks for name in _text(task).split()]
    found = [_text(Path("/proc", name, "status")).splitlines() for name in ("self", *children)]
    held = (line.split()[1] for lines in found for line in lines if line.startswith("RssAnon"))
    return sum(int(kilobytes) * 1024 for kilobytes in held)


def _text(path: Path) -> str:
    """Return a file of the kernel; nothing if its process or thread has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def billion(row: dict[str, Any]) -> dict[str, Any]:
    """Scale the largest measured size to a billion edges of the same degree, linearly."""
    factor = BILLION["edges"] / row["edges"]
    return {
        **BILLION,
        "factor": round(factor, 1),
        "cpu_hours": {
            name: round(job["cpu_seconds"] * factor / 3600, 2) for name, job in row["jobs"].items()
        },
        "graph_bytes": round(row["graph_bytes"] * factor),
        "workspace_bytes": round(row["jobs"]["recalibrate"]["temporary_bytes"] * factor),
        "answer_bytes": round(row["answer_bytes"] * factor),
    }


def markdown(facts: dict[str, Any]) -> str:
    """Return the tables of the page."""
    lines = [
        "| nodes | edges | job | CPU seconds | wall seconds | edges per CPU second |",
        "| ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in facts["sizes"]:
        for name, job in row["jobs"].items():
            speed = row["edges"] / job["cpu_seconds"]
            lines.append(
                f"| {row['nodes']:,} | {row['edges']:,} | {name} | {job['cpu_seconds']:.1f} | "
                f"{job['wall_seconds']:.1f} | {speed:,.0f} |"
            )
    lines += [
        "",
        "| nodes | graph on disk | workspace at its largest | result | memory |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['nodes']:,} | {_size(row['graph_bytes'])} | "
        f"{_size(row['jobs']['recalibrate']['temporary_bytes'])} | {_size(row['answer_bytes'])} | "
        f"{_size(max(job['memory_bytes'] for job in row['jobs'].values()))} |"
        for row in facts["sizes"]
    ]
    large = facts["billion"]
    hours = large["cpu_hours"]
    lines += [
        "",
        f"| {large['edges']:,} edges, computed: times {large['factor']:g} | |",
        "| --- | ---: |",
        f"| convert | {hours['convert']:.1f} CPU hours |",
        f"| recalibrate | {hours['recalibrate']:.1f} CPU hours |",
        f"| graph on disk | {_size(large['graph_bytes'])} |",
        f"| workspace at its largest | {_size(large['workspace_bytes'])} |",
        f"| result | {_size(large['answer_bytes'])} |",
    ]
    return "\n".join(lines)


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare is not None:
        prepare(arguments.prepare, arguments.nodes[0])
        return
    if arguments.one is not None:
        print(json.dumps(one_size(arguments.one, arguments.nodes[0], arguments.dask)))
        return
    sizes = {}
    if arguments.json is not None and arguments.json.exists():
        sizes = {row["nodes"]: row for row in json.loads(arguments.json.read_text())["sizes"]}
    for num_nodes in arguments.nodes:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder, prefix="throughput-"))
        try:
            command = [sys.executable, __file__, "--nodes", str(num_nodes)]
            subprocess.run([*command, "--prepare", str(folder)], check=True)
            text = subprocess.run(
                [*command, *["--dask"] * arguments.dask, "--one", str(folder)],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            sizes[num_nodes] = json.loads(text)
        finally:
            shutil.rmtree(folder)
    setting = {
        "degree": DEGREE,
        "columns": COLUMNS,
        "classes": CLASSES,
        "shards": SHARDS,
        "hops": 2,
    }
    listed = [sizes[key] for key in sorted(sizes)]
    facts = {"setting": setting, "cores": os.cpu_count(), "sizes": listed}
    facts["billion"] = billion(listed[-1])
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    print(markdown(facts))


if __name__ == "__main__":
    main()
