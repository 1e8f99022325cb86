"""Small jobs next to the libraries that do the same: fits, metrics, products, samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.timing import Row, best, in_own_process

from graphtemper import csbm, metrics, temperature
from graphtemper.graph.operators import multiply, operator
from graphtemper.models import SIGN

FIT_BAR = "at least 5 x faster; the same optimum to 1e-6, or a lower loss"
ERROR_BAR = "at least 5 x faster"


def fake_predictions(num_nodes: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((num_nodes, num_classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits * 1.7, labels


def temperature_rows(num_nodes: int) -> list[Row]:
    from sklearn.calibration import _TemperatureScaling

    logits, labels = fake_predictions(num_nodes, 10)
    size = f"{num_nodes:,} x 10"
    exact = temperature.fit(logits, labels)
    ours = best(lambda: temperature.fit(logits, labels))
    rows = []

    def compare(peer: str, theirs: float, fitted: float) -> None:
        gap = abs(fitted - exact)
        # Where a peer stops early the temperatures differ; its loss must then not be lower.
        losses = [metrics.nll(temperature.apply(logits, t), labels) for t in (exact, fitted)]
        met = theirs >= 5 * ours and (gap <= 1e-6 or losses[0] <= losses[1])
        note = f"temperatures differ by {gap:.1e}, our NLL by {losses[0] - losses[1]:+.1e}"
        rows.append(Row("temperature fit", size, ours, peer, theirs, None, note, FIT_BAR, met))

    fitted = _TemperatureScaling()
    theirs = best(lambda: fitted.fit(logits, labels), 1)
    compare("scikit-learn", theirs, float(1.0 / fitted.beta_))
    try:
        from netcal.scaling import TemperatureScaling
    except ImportError:
        return [*rows, Row("temperature fit", size, ours, "netcal (not installed)")]
    probabilities = temperature.apply(logits)
    other = TemperatureScaling()
    theirs = best(lambda: other.fit(probabilities, labels), 1)
    compare("netcal", theirs, float(1.0 / other.temperature.item()))
    return rows


def ece_rows(num_nodes: int) -> list[Row]:
    logits, labels = fake_predictions(num_nodes, 10)
    probabilities = temperature.apply(logits)
    size = f"{num_nodes:,} x 10"
    ours = best(lambda: metrics.ece(probabilities, labels), 7)
    rows = []

    def compare(peer: str, theirs: float) -> None:
        met = theirs >= 5 * ours
        rows.append(Row("ECE", size, ours, peer, theirs, bar=ERROR_BAR, met=met))

    try:
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error
    except ImportError:
        rows.append(Row("ECE", size, ours, "torchmetrics (not installed)"))
    else:
        p, y = torch.from_numpy(probabilities), torch.from_numpy(labels)
        compare("torchmetrics", best(lambda: multiclass_calibration_error(p, y, 10), 7))
    try:
        from netcal.metrics import ECE
    except ImportError:
        return [*rows, Row("ECE", size, ours, "netcal (not installed)")]
    compare("netcal", best(lambda: ECE(15).measure(probabilities, labels), 1))
    return rows


def product_rows(num_nodes: int) -> list[Row]:
    graph = csbm.sample(num_nodes, degree=20, homophily=0.8, snr=1.0, seed=1)
    matrix = operator(graph)
    rows = []
    for width in (10, 100):
        x = np.random.default_rng(0).standard_normal((num_nodes, width)).astype(np.float32)
        size = f"{num_nodes:,} nodes, {matrix.nnz:,} non-zeros, {width} columns"
        ours = best(lambda x=x: multiply(matrix, x))
        rows.append(Row("S X", size, ours, "SciPy, one thread", best(lambda x=x: matrix @ x)))
        try:
            import torch
        except ImportError:
            continue
        sparse = torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.copy()),
            size=matrix.shape,
        )
        tensor = torch.from_numpy(x)
        rows.append(Row("S X", size, ours, "torch.sparse", best(lambda s=sparse, t=tensor: s @ t)))
    return rows


def sign_rows(num_nodes: int) -> list[Row]:
    graph = csbm.sample(num_nodes, 20, 0.8, 1.0, num_classes=5, num_features=100, seed=1)
    model = SIGN(hops=2, tol=1e-2).fit(graph, np.arange(2000))
    ours = best(lambda: model(graph))
    size = f"{num_nodes:,} nodes, F = 100, K = 5, 2 hops"
    try:
        import torch
        from torch_geometric import transforms
    except ImportError:
        return [Row("SIGN prediction", size, ours, "PyG SIGN transform (not installed)")]
    data, transform = graph.to_pyg(), transforms.SIGN(2)
    weights = torch.from_numpy(model.weights_.astype(np.float32))

    def theirs() -> Any:
        out = transform(data.clone())
        return out.x @ weights[0] + out.x1 @ weights[1] + out.x2 @ weights[2]

    return [Row("SIGN prediction", size, ours, "PyG SIGN transform + head", best(theirs))]


def dense_block_model(num_nodes: int, degree: float, homophily: float) -> np.ndarray:
    """Toss one coin per pair, N x N: the textbook sampler."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=num_nodes)
    same, different = csbm.block_probabilities(num_nodes, degree, homophily)
    chance = np.where(labels[:, None] == labels, same, different)
    return np.argwhere(np.triu(rng.random((num_nodes, num_nodes)) < chance, 1))


def sampler_rows() -> list[Row]:
    ours = best(lambda: csbm.sample(4000, 25, 0.8, 1.0), 9)
    theirs = best(lambda: dense_block_model(4000, 25, 0.8), 3)
    large = in_own_process("jobs.draw_million()")
    return [
        Row(
            "CSBM sample",
            "4,000 nodes, degree 25",
            ours,
            "dense N x N sampler",
            theirs,
            bar="at least 100 x faster",
            met=theirs >= 100 * ours,
        ),
        Row(
            "CSBM sample",
            "1,000,000 nodes, 10,000,000 edges",
            large["seconds"],
            peak_gigabytes=large["peak"],
            bar="under 15 s",
            met=large["seconds"] < 15,
        ),
    ]
