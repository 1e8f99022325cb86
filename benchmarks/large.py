"""Large graphs as Parquet, with logits of a model on them: what benchmarks of `scale` read.

    python -m benchmarks.large draw FOLDER --nodes 1000000 [--without-logits]
    python -m benchmarks.large run FOLDER sage [--sample 2000] [--memory] [--streamed]
    python -m benchmarks.large sampling FOLDER sage --sample 500 --out docs/results/sampling.json

``run`` recalibrates what was drawn and adds a row to ``docs/results/large.json``: seconds of the
processor and peak memory by stage, with the digest of the code in `graphtemper.scale` alone.
``--memory`` also recalibrates the whole graph in memory, and ``--streamed`` streams a graph that is
small enough to be loaded.
``sampling`` compares eight samples of a graph that fits into memory with the answer of all nodes.

Every node is linked to nodes before and behind it, `DEGREE` in all, each pair once. A share of the
links stays inside a class; features are a class mean and noise. Parts of a graph are drawn one at a
time, so that a graph may be larger than memory. The logits are those of the whole graph, layer by
layer, as an inference job would write them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from benchmarks.timing import keep, kept
from numpy.typing import NDArray

from graphtemper import Graph, SourceCard
from graphtemper import recalibrate as in_memory_recalibrate
from graphtemper.models import SIGN
from graphtemper.scale import recalibrate, recalibration
from graphtemper_research.harness.memory import peak_gigabytes

DEGREE, COLUMNS, CLASSES, PART = 20, 64, 5, 500_000
SOURCE = {"homophily": 0.6, "noise": 1.0}
TARGET = {"homophily": 0.5, "noise": 1.3}
# Distance of the class means, in units of the noise of the source.
_APART = 0.35
SAMPLES = 8
SAME = ("model", "nodes", "sample")


def parts(
    nodes: int, seed: int, homophily: float, noise: float
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield the edges, the features and the numbers of the nodes of each part.

    A pair {i, i + o} with 0 < o < N / 2 is drawn at i alone, and the offsets o of a node come from
    disjoint ranges; so no pair occurs twice. Node i is of class i mod K.
    """
    means = _APART * np.random.default_rng(7).standard_normal((CLASSES, COLUMNS))
    half = DEGREE // 2
    width = (nodes // 2 - 1) // half // CLASSES * CLASSES
    for start in range(0, nodes, PART):
        rng = np.random.default_rng([seed, start])
        own = np.arange(start, min(start + PART, nodes))
        inside = rng.random((own.size, half)) < homophily
        step = np.where(inside, 0, rng.integers(1, CLASSES, inside.shape))
        places = rng.integers(0, width // CLASSES - 1, inside.shape)
        offsets = np.arange(half) * width + CLASSES * (places + 1) - step
        edges = np.column_stack([np.repeat(own, half), (own[:, None] + offsets).ravel() % nodes])
        drawn = rng.standard_normal((own.size, COLUMNS), dtype=np.float32)
        yield edges, (means[own % CLASSES] + noise * drawn).astype(np.float32), own


def in_memory(nodes: int, seed: int, **shift: float) -> Graph:
    edges, features, own = (
        np.concatenate(x) for x in zip(*parts(nodes, seed, **shift), strict=True)
    )
    return Graph(features=features, edges=edges, labels=own % CLASSES)


def trained(name: str, source: Graph) -> Any:
    """Return a model that was trained on the first half of the source."""
    nodes = np.arange(source.num_nodes // 2)
    if name == "sign":
        return SIGN(hops=2, tol=1e-2).fit(source, nodes)
    import torch
    from torch_geometric.nn import SAGEConv

    from graphtemper.pyg import predictor

    class Sage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = SAGEConv(COLUMNS, 32), SAGEConv(32, CLASSES)

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.two(self.one(x, edge_index).relu(), edge_index)

    torch.manual_seed(0)
    net, data = Sage(), source.to_pyg()
    optimizer, target = torch.optim.Adam(net.parameters(), 0.01), data.y[nodes]
    for _ in range(60):
        optimizer.zero_grad()
        out = net(data.x, data.edge_index)[nodes]
        torch.nn.functional.cross_entropy(out, target).backward()
        optimizer.step()
    return predictor(net.eval())


def write(folder: Path, nodes: int, seed: int = 2, **shift: float) -> None:
    for name in ("edges", "nodes"):
        (folder / name).mkdir(parents=True)
    for part, (edges, features, own) in enumerate(parts(nodes, seed, **(shift or TARGET))):
        ends = {"source": edges[:, 0].astype(np.int32), "target": edges[:, 1].astype(np.int32)}
        _write(folder / "edges" / f"{part:04d}.parquet", ends)
        columns = {f"x{j}": column for j, column in enumerate(features.T)}
        _write(folder / "nodes" / f"{part:04d}.parquet", {"node": own} | columns)


def write_logits(folder: Path, name: str, model: Any) -> None:
    """Write the logits of a model on a graph that was written, part by part."""
    (folder / name).mkdir()
    edges = [pq.read_table(path) for path in sorted((folder / "edges").iterdir())]
    low, high = (np.concatenate([t[end].to_numpy() for t in edges]) for end in ("source", "target"))
    files = sorted((folder / "nodes").iterdir())
    nodes = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    ones = np.ones(low.size, np.float32)
    links = sp.coo_matrix((ones, (low, high)), (nodes, nodes)).tocsr()
    links = links + links.T
    x = np.empty((nodes, COLUMNS), np.float32)
    row = 0
    for path in files:
        table = pq.read_table(path).drop_columns("node")
        for j, column in enumerate(table.columns):
            x[row : row + len(table), j] = column.to_numpy()
        row += len(table)
    logits = _sign(model, links, x) if name == "sign" else _sage(model.module, links, x)
    for part, start in enumerate(range(0, nodes, PART)):
        own = np.arange(start, min(start + PART, nodes))
        columns = {f"logit_{k}": column for k, column in enumerate(logits[own].T)}
        _write(folder / name / f"{part:04d}.parquet", {"node": own} | columns)


def _sign(model: Any, links: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Return the logits of SIGN, projected before they are propagated."""
    weights = model.weights_.astype(np.float32)  # (terms, F, K)
    root = 1.0 / np.sqrt(links @ np.ones(len(x), np.float32) + 1.0)[:, None]
    total = np.zeros((len(x), CLASSES), np.float32)
    for term in range(len(weights))[::-1]:
        scaled = root * total
        total = root * (links @ scaled + scaled) + x @ weights[term]
    return np.asarray(total + model.intercept_.astype(np.float32))


def _sage(module: Any, links: Any, x: NDArray[Any]) -> NDArray[Any]:
    degree = np.maximum(links @ np.ones(len(x), np.float32), 1.0)[:, None]
    for layer, convolution in enumerate((module.one, module.two)):
        near, own = (
            item.weight.detach().numpy() for item in (convolution.lin_l, convolution.lin_r)
        )
        # Projection and mean commute, and the projection is narrower.
        x = (links @ (x @ near.T)) / degree + x @ own.T + convolution.lin_l.bias.detach().numpy()
        x = np.maximum(x, 0.0) if layer == 0 else x
    return x


def _write(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)


def _model_and_card(folder: Path, name: str) -> tuple[Any, SourceCard]:
    source = in_memory(20_000, 1, **SOURCE)
    model = trained(name, source)
    file = folder / f"{name}.card.json"
    if not file.exists():
        nodes = np.arange(source.num_nodes // 2, source.num_nodes)
        SourceCard.build(model, source, nodes, compositions=0, progress=False).save(file)
    return model, SourceCard.load(file)


def run(folder: Path, name: str, sample: int, memory: bool) -> dict[str, Any]:
    """Return what a recalibration of stored tables costs, and what it says."""
    model, card = _model_and_card(folder, name)
    stages: list[dict[str, Any]] = []

    def note(stage: str, *_: int) -> None:
        now = {"cpu": time.process_time(), "wall": time.perf_counter(), "peak": peak_gigabytes()}
        if stages:
            stages[-1] |= {key: round(now[key] - stages[-1][key], 2) for key in ("cpu", "wall")}
            stages[-1]["peak"] = round(now["peak"], 2)
        stages.append({"stage": stage} | now)
        print(stage, {key: round(value, 1) for key, value in now.items()}, flush=True)

    with TemporaryDirectory(dir=folder) as place:
        result = recalibrate(
            logits=folder / name,
            graph=folder / "edges",
            features=folder / "nodes",
            card=card,
            model=model,
            out=Path(place) / "answer",
            sample=sample,
            progress=note,
        )
    nodes = result.num_nodes
    row: dict[str, Any] = {
        "model": name,
        "nodes": nodes,
        "edges": nodes * DEGREE // 2,
        "sample": sample,
    }
    row |= {"stages": stages[:-1], "accuracy": result.accuracy.value, "low": result.accuracy.low}
    row |= {"high": result.accuracy.high, "temperature": result.temperature}
    ran = (str(item) for item in result.reasons if item.code == "sample_run")
    row["run"] = next(ran, "the graph was loaded, and the model ran on all of it.")
    files = sorted((folder / name).iterdir())
    right = sum(_right(path) for path in files)
    row["truth"] = right / nodes
    if memory:
        target = in_memory(nodes, 2, **TARGET).replace(labels=None)
        row["in_memory"] = in_memory_recalibrate(model, target, card).accuracy.value
        row["in_memory_peak"] = round(peak_gigabytes(), 2)
    return row


def sampling_errors(folder: Path, name: str, sample: int) -> dict[str, Any]:
    """Return how far the accuracies of samples are from that of all nodes, in memory."""
    model, card = _model_and_card(folder, name)

    def accuracy(seed: int) -> float:
        with TemporaryDirectory(dir=folder) as place:
            result = recalibrate(
                folder / name,
                card,
                f"{place}/answer",
                graph=folder / "edges",
                features=folder / "nodes",
                model=model,
                sample=sample,
                seed=seed,
            )
        return float(result.accuracy.value)

    loaded = accuracy(0)
    with mock.patch.object(recalibration, "SMALL_NODES", 0):
        samples = [accuracy(seed) for seed in range(SAMPLES)]
    nodes = sum(pq.ParquetFile(path).metadata.num_rows for path in (folder / "nodes").iterdir())
    error = float(np.sqrt(np.mean((np.array(samples) - loaded) ** 2)))
    row = {"model": name, "nodes": nodes, "sample": sample, "in_memory": loaded}
    return row | {"samples": samples, "rms_error": error}


def _right(path: Path) -> int:
    table = pq.read_table(path)
    logits = np.column_stack([table[f"logit_{k}"].to_numpy() for k in range(CLASSES)])
    return int((logits.argmax(axis=1) == table["node"].to_numpy() % CLASSES).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["draw", "run", "sampling"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=["sign", "sage"])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=2_000)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--streamed", action="store_true")
    parser.add_argument("--without-logits", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results/large.json"))
    given = parser.parse_args()
    if given.what == "draw":
        write(given.folder, given.nodes)
        if given.without_logits:
            return
        source = in_memory(20_000, 1, **SOURCE)
        for name in given.models:
            write_logits(given.folder, name, trained(name, source))
        return
    if given.streamed:
        mock.patch.object(recalibration, "SMALL_NODES", 0).start()
    for name in given.models:
        if given.what == "sampling":
            row = sampling_errors(given.folder, name, given.sample)
        else:
            row = run(given.folder, name, given.sample, given.memory)
        same = [row[key] for key in SAME]
        known = kept(given.out, lambda old, same=same: [old[key] for key in SAME] == same)
        keep(given.out, f"large {given.what}", [*known, row])


if __name__ == "__main__":
    main()
