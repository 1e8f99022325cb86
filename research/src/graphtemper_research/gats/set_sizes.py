"""How much smaller CF-GNN makes prediction sets: the published effect, measured on cora.

20 % of the nodes train a GCN with 16 hidden units, 10 % stop it, and the rest is shared between
calibration and test. Sets of the GCN alone have a threshold from n nodes; CF-GNN is trained on half
of these n and has a threshold from the other half, so both see the same labels. As in the authors'
code, scores are deterministic APS, and every size is a mean over random choices of the threshold's
nodes. ``python -m graphtemper_research.gats.set_sizes [FOLDER]`` measures and writes the result.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, conformal, errors, temperature
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.gats.protocol import row_normalised
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.numeric import FloatArray, stream
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.harness.provenance import stamp, text
from graphtemper_research.models import GCN

NAME = "cf_gnn_sets"
SPLITS = 3
LEVEL = 0.9
CHOICES = 100
MOST_CALIBRATION = 1000
SETTINGS: dict[str, dict[str, Any]] = {"lr 0.01": {}, "lr 0.001": {"lr": 0.001}}
"""The default learning rate, and that of the released code, whose authors tune it by data set."""


def sizes(
    scores: FloatArray, labels: NDArray[np.int64], count: int, random: np.random.Generator
) -> tuple[float, float]:
    """Return size and coverage of the sets whose threshold comes from ``count`` random rows.

    Examples
    --------
    >>> scores = np.tile([0.6, 1.0], (40, 1))     # class 0 is always right, with score 0.6
    >>> sizes(scores, np.zeros(40, dtype=int), 20, np.random.default_rng(0))
    (1.0, 1.0)
    """
    found = []
    for _ in range(CHOICES):
        rows = random.permutation(len(labels))
        near, far = rows[:count], rows[count:]
        members = scores[far] <= conformal.threshold(scores[near, labels[near]], LEVEL)
        found.append((members.sum(axis=1).mean(), members[np.arange(far.size), labels[far]].mean()))
    size, covered = np.mean(found, axis=0)
    return float(size), float(covered)


def one_split(
    graph: Graph, seed: int, settings: dict[str, dict[str, Any]], epochs: int = 2000
) -> list[dict[str, Any]]:
    """Return a row for the GCN alone and one for each setting of CF-GNN."""
    if graph.labels is None:
        raise errors.no_labels("the graph has no labels; set sizes need them.")
    labels, random = graph.labels, stream(seed, "cf-gnn sets")
    nodes = random.permutation(np.flatnonzero(labels >= 0))
    train, stop, rest = np.split(nodes, [int(0.2 * nodes.size), int(0.3 * nodes.size)])
    model = GCN(hidden=16, epochs=epochs, lr=0.01, weight_decay=5e-4, dropout=0.5, seed=seed)
    logits = model.fit(graph, train, stop, patience=100)(graph)
    count = min(MOST_CALIBRATION, rest.size // 2)
    alone = conformal.aps(temperature.apply(logits[rest]))
    rows = [_row("GCN alone", seed, sizes(alone, labels[rest], count, random))]
    for name, changes in settings.items():
        cf = CFGNN(level=LEVEL, seed=seed, **changes)
        cf.fit(logits, labels, graph, rest[:count], train_nodes=train)
        free = np.concatenate([cf.roles_.threshold, rest[count:]])  # nodes it was not trained on
        scores = conformal.aps(cf.transform(logits, graph))[free]
        row = _row(name, seed, sizes(scores, labels[free], cf.roles_.threshold.size, random))
        rows.append(row | {"epoch": cf.epoch_})
    return rows


def _row(method: str, seed: int, found: tuple[float, float]) -> dict[str, Any]:
    return {"method": method, "split": seed, "size": found[0], "coverage": found[1]}


def main(folder: Path) -> None:
    """Measure all splits of cora and write the result into a folder."""
    graph = row_normalised(datasets.load("cora"))
    rows = [row for seed in range(SPLITS) for row in one_split(graph, seed, SETTINGS)]
    content = {"measured": stamp("python -m graphtemper_research.gats.set_sizes"), "rows": rows}
    write_text(folder / f"{NAME}.json", text(content))
    for name in ("GCN alone", *SETTINGS):
        mine = [row for row in rows if row["method"] == name]
        size, covered = (np.mean([row[key] for row in mine]) for key in ("size", "coverage"))
        print(f"{name}: {size:.2f} classes, coverage {covered:.3f}")


if __name__ == "__main__":
    main(Path((sys.argv[1:] or ["docs/results"])[0]))
