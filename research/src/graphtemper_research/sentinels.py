"""Three small measurements that CI repeats: a drawn shift, a natural one, an item of the paper.

    python -m graphtemper_research.sentinels docs/results

Each is one function of a seed and takes a few seconds; the graphs are generated. ``sentinels.json``
holds mean and spread over `SEEDS` seeds, ``slope.json`` those of the paper's item. A test measures
`REPEATED` seeds again and allows four standard errors of the difference, so that draws may change
and a broken method is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import Graph, SourceCard, csbm, metrics, recalibrate, shifts, temperature
from graphtemper.models import SIGN
from graphtemper_research.harness import provenance
from graphtemper_research.harness.frame import select
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.paper import slope_grid

SEEDS = 12
REPEATED = {"drawn shift": 2, "natural pair": 2, "paper point": slope_grid.SEEDS}
STANDARD_ERRORS = 4.0
NODES, FAR = 1500, 0.55
POINT = ("slope", "ece", "ece_oracle", "ece_closed", "ece_finite")
Numbers = dict[str, float]


def drawn_shift(seed: int) -> Numbers:
    """Rewire half of the edges and add noise to the features of a block model."""
    graph = csbm.sample(NODES, 10, 0.8, 1.0, num_classes=3, num_features=8, seed=seed)
    train, val = np.split(np.random.default_rng(seed).permutation(NODES), [NODES // 2])
    model = SIGN(hops=2).fit(graph, train)
    card = SourceCard.build(model, graph, val, seed=seed)
    target = shifts.noise(1.0)(shifts.rewire(0.5)(graph, seed), seed)
    return _scores(model, target, card, val)


def natural_pair(seed: int) -> Numbers:
    """Follow classes whose means, shares and links drift; two later months have labels."""
    months = [month(number, seed) for number in range(4)]
    model = SIGN(hops=2).fit(months[0], range(NODES // 2))
    val = np.arange(NODES // 2, NODES)
    card = SourceCard.build(
        model, months[0], val, environments=[(one, None) for one in months[1:3]], seed=seed
    )
    return _scores(model, months[3], card, np.arange(NODES))


def month(number: int, seed: int) -> Graph:
    """Return a graph of three classes, of which a part drifts from month to month."""
    rng = np.random.default_rng([seed, number])
    labels = rng.choice(3, NODES, p=np.array([0.5 - 0.05 * number, 0.3, 0.2 + 0.05 * number]))
    means = np.eye(3, 8) * 1.5 + 0.2 * number * np.eye(3, 8, 3)
    features = means[labels] + (1.0 + 0.3 * number) * rng.standard_normal((NODES, 8))
    ends = rng.integers(NODES, size=(20 * NODES, 2))
    same = labels[ends[:, 0]] == labels[ends[:, 1]]
    kept = rng.random(len(ends)) < np.where(same, 0.5, 0.08 + 0.05 * number)
    return Graph.from_edges(features, ends[kept], labels=labels)


def paper_point(seed: int) -> Numbers:
    """Measure the slope of Figure `fig:val` at the largest change of homophily."""
    (row,) = slope_grid.measured((seed,), (FAR,))
    return {name: row[name] for name in POINT}


def _scores(model: Any, target: Graph, card: SourceCard, nodes: Any) -> Numbers:
    assert target.labels is not None
    truth = target.labels[nodes]
    result = recalibrate(model, target.replace(labels=None), card, nodes=nodes)
    logits = model(target)[nodes]
    right = float(np.mean(logits.argmax(axis=1) == truth))
    return {
        "accuracy": right,
        "error of the estimate": result.accuracy.value - right,
        "half width": (result.accuracy.high - result.accuracy.low) / 2,
        "ece uncalibrated": metrics.ece(temperature.apply(logits), truth),
        "ece recalibrated": metrics.ece(result.probabilities, truth),
    }


SENTINELS: dict[str, Callable[[int], Numbers]] = {
    "drawn shift": drawn_shift,
    "natural pair": natural_pair,
    "paper point": paper_point,
}


def measure(name: str, seeds: int) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of each number of a sentinel over some seeds."""
    runs = [SENTINELS[name](seed) for seed in range(seeds)]
    columns = {key: [run[key] for run in runs] for key in runs[0]}
    return {key: (float(np.mean(v)), float(np.std(v, ddof=1))) for key, v in columns.items()}


def allowed(folder: Path, name: str) -> dict[str, tuple[float, float]]:
    """Return the committed mean of each number of a sentinel, and how far `REPEATED` may be off."""
    if name == "paper point":
        (point,) = select(provenance.load(folder / "slope.json")["rows"], h_target=FAR)
        seeds = slope_grid.SEEDS
        found = {name: (point[name], point[f"{name}_spread"]) for name in POINT}
    else:
        rows = select(provenance.load(folder / "sentinels.json")["rows"], sentinel=name)
        seeds = SEEDS
        found = {row["quantity"]: (row["mean"], row["spread"]) for row in rows}
    errors = STANDARD_ERRORS * sqrt(1 / REPEATED[name] + 1 / seeds)
    return {key: (mean, errors * spread) for key, (mean, spread) in found.items()}


def main(folder: Path) -> None:
    """Measure all of them and write the result."""
    rows = [
        {"sentinel": name, "quantity": key, "mean": round(mean, 6), "spread": round(spread, 6)}
        for name in ("drawn shift", "natural pair")
        for key, (mean, spread) in measure(name, SEEDS).items()
    ]
    measured = provenance.stamp("python -m graphtemper_research.sentinels docs/results")
    content = {"measured": measured, "seeds": SEEDS, "rows": rows}
    write_text(folder / "sentinels.json", provenance.text(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
