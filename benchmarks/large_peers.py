"""The jobs of `scale` written directly with Dask, and with DuckDB: what a competent user would do.

    python -m benchmarks.large_peers floor FOLDER sage
    python -m benchmarks.large_peers joins FOLDER [--nodes 1000]

Both read what ``python -m benchmarks.large draw FOLDER`` wrote, in one process with one thread, and
add rows to ``docs/results/large_peers.json``. ``floor`` fits the temperature to labels of all nodes
and writes probabilities, with Dask dataframes, and does the same two things with graphtemper, which
has no labels: one pass over the logits, a temperature, probabilities. ``joins`` finds all nodes
within two edges of some random ones. Every way runs in a process of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.large import CLASSES, _model_and_card
from benchmarks.timing import keep, kept
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from graphtemper import SourceCard
from graphtemper.scale import Serial, StoredGraph, recalibrate
from graphtemper.scale.stored_graph import StoredWhole
from graphtemper_research.harness.memory import peak_gigabytes

OUT = Path("docs/results/large_peers.json")
COLUMNS = [f"logit_{k}" for k in range(CLASSES)]


def floor_with_dask(folder: Path, name: str) -> dict[str, Any]:
    """Fit a temperature to all labels, with one pass per step, and write probabilities."""
    import dask
    import dask.dataframe as dd

    table = dd.read_parquet(folder / name)

    def loss(part: Any, log_t: float) -> float:
        z = part[COLUMNS].to_numpy() / np.exp(log_t)
        right = z[np.arange(len(z)), part["node"].to_numpy() % CLASSES]
        return float((logsumexp(z, axis=1) - right).sum())

    def total(log_t: float) -> float:
        parts = [dask.delayed(loss)(part, log_t) for part in table.to_delayed()]
        return float(sum(dask.compute(*parts)))

    def probabilities(part: Any, t: float) -> Any:
        p = softmax(part[COLUMNS].to_numpy() / t, axis=1)
        columns = {f"probability_{k}": column for k, column in enumerate(p.T)}
        return pd.DataFrame({"node": part["node"].to_numpy()} | columns)

    with dask.config.set(scheduler="synchronous"), TemporaryDirectory(dir=folder) as place:
        found = minimize_scalar(
            total, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-3}
        )
        t = float(np.exp(found.x))
        meta = probabilities(table.partitions[0].compute().iloc[:1], t)
        table.map_partitions(probabilities, t, meta=meta).to_parquet(place, write_index=False)
    return {"temperature": t, "passes": found.nfev + 1}


def floor_with_graphtemper(folder: Path, name: str) -> dict[str, Any]:
    """Recalibrate the logits alone and write probabilities; the model is not run."""
    file = folder / f"{name}.card.json"
    card = SourceCard.load(file) if file.exists() else _model_and_card(folder, name)[1]
    start = time.process_time()
    with TemporaryDirectory(dir=folder) as place:
        result = recalibrate(folder / name, card, Path(place) / "answer")
    return {"temperature": result.temperature, "passes": 2, "cpu": time.process_time() - start}


def near_with_passes(folder: Path, nodes: Any) -> int:
    graph = StoredGraph.open(folder / "nodes", folder / "edges")
    whole = StoredWhole(graph, Serial())
    for _ in range(2):
        nodes = np.union1d(nodes, whole.near(nodes)[0])
    return len(nodes)


def near_with_dask(folder: Path, nodes: Any) -> int:
    import dask
    import dask.dataframe as dd

    edges = dd.read_parquet(folder / "edges")
    with dask.config.set(scheduler="synchronous"):
        for _ in range(2):
            known = pd.DataFrame({"node": nodes.astype(np.int32)})
            out = edges.merge(known, left_on="source", right_on="node")["target"]
            back = edges.merge(known, left_on="target", right_on="node")["source"]
            near = dask.compute(out.unique(), back.unique())
            nodes = np.unique(np.concatenate([nodes, *(np.asarray(x) for x in near)]))
    return len(nodes)


def near_with_duckdb(folder: Path, nodes: Any) -> int:
    import duckdb

    query = """
        select distinct target as n from '{0}/edges/*.parquet' semi join known on source = node
        union select distinct source from '{0}/edges/*.parquet' semi join known on target = node
        union select node from known
    """
    with duckdb.connect(config={"threads": 1}) as base:
        for _ in range(2):
            base.register("known", pd.DataFrame({"node": nodes.astype(np.int32)}))
            nodes = base.sql(query.format(folder)).df()["n"].to_numpy()
            base.unregister("known")
    return len(nodes)


def measured(work: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Return the processor seconds and the peak memory of a call, and what it found."""
    start, wall = time.process_time(), time.perf_counter()
    found = work(*arguments)
    spent = {"cpu": time.process_time() - start, "wall": time.perf_counter() - wall}
    more = found if isinstance(found, dict) else {"found": found}
    return {**spent, "peak": peak_gigabytes()} | more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["floor", "joins"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", nargs="?", default="sage")
    parser.add_argument("--nodes", type=int, default=1_000)
    given = parser.parse_args()
    graph = StoredGraph.open(given.folder / "nodes", given.folder / "edges")
    nodes = np.random.default_rng(0).choice(graph.num_nodes, given.nodes, replace=False)
    ways: dict[str, tuple[Callable[..., Any], Any]] = {
        "graphtemper": (near_with_passes, np.sort(nodes)),
        "Dask": (near_with_dask, np.sort(nodes)),
        "DuckDB": (near_with_duckdb, np.sort(nodes)),
    }
    if given.what == "floor":
        ways = {
            "graphtemper": (floor_with_graphtemper, given.model),
            "Dask": (floor_with_dask, given.model),
        }
    for way, (work, argument) in ways.items():
        row = {"what": given.what, "way": way}
        row["edges"] = graph.edges.num_rows
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            row |= pool.submit(measured, work, given.folder, argument).result()
        print(row, flush=True)
        same = (given.what, way, row["edges"])
        known = kept(OUT, lambda old, s=same: (old["what"], old["way"], old["edges"]) == s)
        keep(OUT, f"large_peers {given.what}", [*known, row])


if __name__ == "__main__":
    main()
