"""Small jobs next to the libraries that do the same: fits, metrics, samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.timing import Row, best, in_own_process, race

from graphtemper import csbm, metrics, temperature
from graphtemper._core.reproducible import num_cores
from graphtemper.models import SIGN

FIT_RATIO, ERROR_RATIO = 30, 5
FIT_BAR = f"at least {FIT_RATIO} x faster; the same optimum to 1e-6, or a lower loss"
ERROR_BAR = f"at least {ERROR_RATIO} x faster"


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
    fitted = _TemperatureScaling()
    jobs = {
        "ours": (lambda: temperature.fit(logits, labels), num_cores()),
        "scikit-learn": (lambda: fitted.fit(logits, labels), 1),
    }
    found = {"scikit-learn": lambda: float(1.0 / fitted.beta_)}
    try:
        from netcal.scaling import TemperatureScaling
    except ImportError:
        missing = ["netcal"]
    else:
        probabilities, other, missing = temperature.apply(logits), TemperatureScaling(), []
        jobs["netcal"] = lambda: other.fit(probabilities, labels), 1
        found["netcal"] = lambda: float(1.0 / other.temperature.item())
    times = race(jobs, 2)
    rows = []
    for peer, read in found.items():
        gap = abs(read() - exact)
        # Where a peer stops early the temperatures differ; its loss must then not be lower.
        losses = [metrics.nll(temperature.apply(logits, t), labels) for t in (exact, read())]
        ours, theirs = times["ours"], times[peer]
        met = theirs >= FIT_RATIO * ours and (gap <= 1e-6 or losses[0] <= losses[1])
        note = f"temperatures differ by {gap:.1e}, our NLL by {losses[0] - losses[1]:+.1e}"
        rows.append(Row("temperature fit", size, ours, peer, theirs, None, note, FIT_BAR, met))
    absent = [
        Row("temperature fit", size, times["ours"], f"{peer} (not installed)") for peer in missing
    ]
    return [*rows, *absent]


def ece_rows(num_nodes: int) -> list[Row]:
    logits, labels = fake_predictions(num_nodes, 10)
    probabilities = temperature.apply(logits)
    size = f"{num_nodes:,} x 10"
    jobs = {"ours": (lambda: metrics.ece(probabilities, labels), num_cores())}
    missing = []
    try:
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error
    except ImportError:
        missing.append("torchmetrics")
    else:
        p, y = torch.from_numpy(probabilities), torch.from_numpy(labels)
        threads = torch.get_num_threads()
        jobs["torchmetrics"] = lambda: multiclass_calibration_error(p, y, 10), threads
    try:
        from netcal.metrics import ECE
    except ImportError:
        missing.append("netcal")
    else:
        jobs["netcal"] = lambda: ECE(15).measure(probabilities, labels), 1
    times = race(jobs, 5)
    ours = times.pop("ours")
    rows = [
        Row("ECE", size, ours, peer, theirs, bar=ERROR_BAR, met=theirs >= ERROR_RATIO * ours)
        for peer, theirs in times.items()
    ]
    return [*rows, *(Row("ECE", size, ours, f"{peer} (not installed)") for peer in missing)]


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
