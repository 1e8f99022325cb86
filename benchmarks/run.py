"""Speed and memory against named peers, as ratios measured in one run.

    python benchmarks/run.py [--json FILE] [--markdown FILE]

Peers that are not installed are reported as missing. Absolute times are noisy; read the ratios.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphtemper import Graph, SourceCard, csbm, datasets, metrics, recalibrate, temperature
from graphtemper.models import SIGN
from graphtemper.propagate import multiply, operator


def best(job: Callable[[], Any], repeats: int = 3) -> float:
    """Return the shortest of a few wall-clock times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def row(what: str, size: str, ours: float, peer: str, theirs: float | None) -> dict[str, Any]:
    return {
        "what": what,
        "size": size,
        "ours_seconds": round(ours, 4),
        "peer": peer,
        "peer_seconds": None if theirs is None else round(theirs, 4),
        "ratio": None if theirs is None else round(theirs / ours, 2),
    }


def fake_predictions(num_nodes: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((num_nodes, num_classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits * 1.7, labels


def temperature_rows(num_nodes: int) -> list[dict[str, Any]]:
    from sklearn.calibration import _TemperatureScaling

    logits, labels = fake_predictions(num_nodes, 10)
    size = f"{num_nodes:,} x 10"
    ours = best(lambda: temperature.fit(logits, labels))
    theirs = best(lambda: _TemperatureScaling().fit(logits, labels), 1)
    rows = [row("temperature fit", size, ours, "scikit-learn", theirs)]
    try:
        from netcal.scaling import TemperatureScaling
    except ImportError:
        return [*rows, row("temperature fit", size, ours, "netcal (not installed)", None)]
    probabilities = temperature.apply(logits)
    theirs = best(lambda: TemperatureScaling().fit(probabilities, labels), 1)
    return [*rows, row("temperature fit", size, ours, "netcal", theirs)]


def ece_rows(num_nodes: int) -> list[dict[str, Any]]:
    logits, labels = fake_predictions(num_nodes, 10)
    probabilities = temperature.apply(logits)
    size = f"{num_nodes:,} x 10"
    ours = best(lambda: metrics.ece(probabilities, labels))
    rows = []
    try:
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error
    except ImportError:
        rows.append(row("ECE", size, ours, "torchmetrics (not installed)", None))
    else:
        p, y = torch.from_numpy(probabilities), torch.from_numpy(labels)
        theirs = best(lambda: multiclass_calibration_error(p, y, num_classes=10))
        rows.append(row("ECE", size, ours, "torchmetrics", theirs))
    try:
        from netcal.metrics import ECE
    except ImportError:
        return [*rows, row("ECE", size, ours, "netcal (not installed)", None)]
    return [
        *rows,
        row("ECE", size, ours, "netcal", best(lambda: ECE(15).measure(probabilities, labels), 1)),
    ]


def product_rows(num_nodes: int) -> list[dict[str, Any]]:
    graph = csbm.sample(num_nodes, degree=20, homophily=0.8, snr=1.0, seed=1)
    matrix = operator(graph)
    rows = []
    for width in (10, 100):
        x = np.random.default_rng(0).standard_normal((num_nodes, width)).astype(np.float32)
        size = f"{num_nodes:,} nodes, {matrix.nnz:,} non-zeros, {width} columns"
        ours = best(lambda x=x: multiply(matrix, x))
        rows.append(row("S X", size, ours, "SciPy, one thread", best(lambda x=x: matrix @ x)))
        try:
            import torch
        except ImportError:
            continue
        sparse = torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
        )
        tensor = torch.from_numpy(x)
        rows.append(row("S X", size, ours, "torch.sparse", best(lambda s=sparse, t=tensor: s @ t)))
    return rows


def sign_rows(num_nodes: int) -> list[dict[str, Any]]:
    graph = csbm.sample(num_nodes, 20, 0.8, 1.0, num_classes=5, num_features=100, seed=1)
    model = SIGN(hops=2, tol=1e-2).fit(graph, np.arange(2000))
    ours = best(lambda: model(graph))
    size = f"{num_nodes:,} nodes, F = 100, K = 5, 2 hops"
    try:
        import torch
        from torch_geometric import transforms
    except ImportError:
        return [row("SIGN prediction", size, ours, "PyG SIGN transform (not installed)", None)]
    data, transform = graph.to_pyg(), transforms.SIGN(2)
    weights = torch.from_numpy(model.weights_.astype(np.float32))

    def theirs() -> Any:
        out = transform(data.clone())
        return out.x @ weights[0] + out.x1 @ weights[1] + out.x2 @ weights[2]

    return [row("SIGN prediction", size, ours, "PyG SIGN transform + head", best(theirs))]


def naive_pass(model: SIGN, graph: Graph) -> np.ndarray:
    """From edges to logits as a textbook does it: normalise, propagate all columns, apply heads."""
    n = graph.num_nodes
    low, high = graph.edges.T
    ones = np.ones(low.size, dtype=np.float32)
    half = sp.coo_matrix((ones, (low, high)), shape=(n, n))
    loops = sp.identity(n, np.float32, format="csr")
    matrix = sp.csr_matrix(half + half.T + loops)
    scale = sp.diags(1.0 / np.sqrt(np.asarray(matrix.sum(axis=1)).ravel()), dtype=np.float32)
    step = sp.csr_matrix(scale @ matrix @ scale)
    columns, total = graph.features, model.intercept_
    for weights in model.weights_.astype(np.float32):
        total = total + columns @ weights
        columns = step @ columns
    return total


def recalibrate_rows(num_nodes: int) -> list[dict[str, Any]]:
    def drawn(count: int) -> Graph:
        return csbm.sample(count, 20, 0.8, 1.0, num_classes=5, num_features=100, seed=1)

    # A source and a target; a card of a large source would take longer than all the rest.
    pairs = {f"{num_nodes:,} nodes, degree 20, F = 100, K = 5": (drawn(4000), drawn(num_nodes))}
    for name in ("pubmed", "cora"):
        if datasets.find(name) is not None:
            pairs[name] = (datasets.load(name), datasets.load(name))
    rows = []
    for size, (source, graph) in pairs.items():
        nodes = source.labelled[:4000]
        model = SIGN(hops=2, tol=1e-2).fit(source, nodes[::2])
        card = SourceCard.build(model, source, nodes[1::2][:1000], compositions=0)
        ours = best(lambda m=model, g=graph, c=card: recalibrate(m, g, c))
        theirs = best(lambda m=model, g=graph: naive_pass(m, g))
        rows.append(row("recalibrate", size, ours, "one naive SIGN pass, SciPy", theirs))
    return rows


def dense_block_model(num_nodes: int, degree: float, homophily: float) -> np.ndarray:
    """Toss one coin a pair, N x N: the textbook sampler."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=num_nodes)
    same, different = csbm.block_probabilities(num_nodes, degree, homophily)
    chance = np.where(labels[:, None] == labels, same, different)
    return np.argwhere(np.triu(rng.random((num_nodes, num_nodes)) < chance, 1))


def sampler_rows() -> list[dict[str, Any]]:
    ours = best(lambda: csbm.sample(4000, 25, 0.8, 1.0))
    theirs = best(lambda: dense_block_model(4000, 25, 0.8))
    code = (
        "import time, resource; from graphtemper import csbm; t = time.perf_counter();"
        "csbm.sample(1_000_000, 20, 0.8, 1.0, seed=1);"
        "print(time.perf_counter() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    seconds, gigabytes = map(float, output.stdout.split())
    large = row("CSBM sample", "1,000,000 nodes, degree 20", seconds, "(none)", None)
    large["peak_gigabytes"] = round(gigabytes, 2)
    return [
        row("CSBM sample", "4,000 nodes, degree 25", ours, "dense N x N sampler", theirs),
        large,
    ]


def markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Generated by `make bench`. Ratios are peer time / our time, measured in one run on one",
        "machine; above 1 means we are faster.",
        "",
        "| what | size | ours, s | peer | peer, s | ratio |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    for item in rows:
        size = item["size"]
        if "peak_gigabytes" in item:
            size += f" (peak {item['peak_gigabytes']} GB)"
        theirs, ratio = item["peer_seconds"], item["ratio"]
        lines.append(
            f"| {item['what']} | {size} | {item['ours_seconds']} | {item['peer']} | "
            f"{'' if theirs is None else theirs} | {'' if ratio is None else ratio} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("artifacts/benchmarks.json"))
    parser.add_argument("--markdown", type=Path, default=Path("docs/benchmarks.md"))
    parser.add_argument("--nodes", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for part in (
        lambda: temperature_rows(arguments.nodes),
        lambda: ece_rows(arguments.nodes),
        lambda: product_rows(arguments.nodes // 2),
        lambda: sign_rows(arguments.nodes // 5),
        lambda: recalibrate_rows(arguments.nodes // 5),
        sampler_rows,
    ):
        rows += part()
        print(*rows[-4:], sep="\n", flush=True)
    for path, text in (
        (arguments.json, json.dumps(rows, indent=1)),
        (arguments.markdown, markdown(rows)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
