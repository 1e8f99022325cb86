"""What sharded recalibration costs: time, memory and disk, and what that means for larger graphs.

    python benchmarks/throughput.py [--nodes N ...] [--json FILE] [--folder DIR]

Each size runs in a process of its own, on shards, one task after the other. CPU seconds are those
of the process with all its threads; they vary less than wall-clock time on a machine with other
work. Memory is what the process held of its own, without pages of files that it only mapped.
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
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        job()
    finally:
        stop.set()
        watcher.join()
    return {
        "wall_seconds": round(time.perf_counter() - wall, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "temporary_bytes": max(disk),
        "memory_bytes": max(memory),
    }


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


def one_size(folder: Path, num_nodes: int) -> dict[str, Any]:
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
    """Return the resident bytes of this process that belong to no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


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
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare is not None:
        prepare(arguments.prepare, arguments.nodes[0])
        return
    if arguments.one is not None:
        print(json.dumps(one_size(arguments.one, arguments.nodes[0])))
        return
    sizes = []
    for num_nodes in arguments.nodes:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder, prefix="throughput-"))
        try:
            command = [sys.executable, __file__, "--nodes", str(num_nodes)]
            subprocess.run([*command, "--prepare", str(folder)], check=True)
            text = subprocess.run(
                [*command, "--one", str(folder)], check=True, stdout=subprocess.PIPE, text=True
            ).stdout
            sizes.append(json.loads(text))
        finally:
            shutil.rmtree(folder)
    setting = {
        "degree": DEGREE,
        "columns": COLUMNS,
        "classes": CLASSES,
        "shards": SHARDS,
        "hops": 2,
    }
    facts = {"setting": setting, "cores": os.cpu_count(), "sizes": sizes}
    facts["billion"] = billion(sizes[-1])
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    print(markdown(facts))


if __name__ == "__main__":
    main()
