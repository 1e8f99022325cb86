"""How much smaller CF-GNN makes prediction sets: the published effect, measured on cora.

20 % of the nodes train a GCN with 16 hidden units, 10 % stop it, and the rest is shared between
calibration and test. Sets of the GCN alone have a threshold from n nodes; CF-GNN is trained on half
of these n and has a threshold from the other half, so both see the same labels. As in the authors'
code, scores are deterministic APS, and every size is a mean over random choices of the threshold's
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import Graph, conformal, errors, temperature
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.gats.protocol import row_normalised
from graphtemper_research.graphs import datasets
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray, stream
from graphtemper_research.harness.outcome import Comparison, reported
from graphtemper_research.harness.runner import Bench, Request, Selection
from graphtemper_research.models import GCN
from graphtemper_research.trials import graph_names

SCHEMA = "graphtemper.cf_gnn_sets_cell/1"
GRAPHS = ("cora",)
SPLITS = 3
LEVEL = 0.9
CHOICES = 100
"""Random choices of the nodes of a threshold."""
MOST_CALIBRATION = 1000
SETTINGS: dict[str, dict[str, Any]] = {"lr 0.01": {}, "lr 0.001": {"lr": 0.001}}
"""The default learning rate, and that of the released code, whose authors tune it by data set."""
TABLE = Table(
    "cora",
    (
        Column("method"),
        Column("splits"),
        Column("size", "mean size", ".2f"),
        Column("coverage", spec=".3f"),
    ),
)


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
    rows = [_row("GCN alone", sizes(alone, labels[rest], count, random))]
    for name, changes in settings.items():
        cf = CFGNN(level=LEVEL, seed=seed, **changes)
        cf.fit(logits, labels, graph, rest[:count], train_nodes=train)
        free = np.concatenate([cf.roles_.threshold, rest[count:]])  # nodes it was not trained on
        scores = conformal.aps(cf.transform(logits, graph))[free]
        rows.append(_row(name, sizes(scores, labels[free], cf.roles_.threshold.size, random)))
    return rows


def _row(method: str, found: tuple[float, float]) -> dict[str, Any]:
    return {"method": method, "size": found[0], "coverage": found[1]}


def measure(seed: int, show: Show | None = None) -> Rows:
    """Return the rows of one split of cora."""
    return one_split(row_normalised(datasets.load("cora")), seed, SETTINGS)


def cases(request: Request) -> Selection:
    """Return one case per split."""
    here, missing = graph_names.present([n for n in request.names or GRAPHS if n in GRAPHS])
    seeds = [seed - 1 for seed in request.splits(SPLITS)] if here else []
    return [
        Case(f"cora-sets-{seed}", {"schema": SCHEMA, "split": seed}, partial(measure, seed))
        for seed in seeds
    ], missing


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State the size of the sets over that of the GCN alone."""
    (alone,) = frame.select(rows, method="GCN alone")
    return [
        reported(
            f"{row['method']}: size of the sets over those of the GCN alone",
            row["size"] / alone["size"],
            "published: up to 74 % smaller",
        )
        for row in rows
        if row is not alone
    ]


BENCH = Bench(
    name="cf_gnn_sets",
    title="How much smaller CF-GNN makes prediction sets",
    command="bench in-distribution",
    introduction=f"""\
Means over splits of cora, for a coverage of {LEVEL}. 20 % of the nodes train a GCN with 16 hidden
units, 10 % stop it, and the rest is shared between calibration and test. Sets of the GCN alone have
a threshold from n nodes; CF-GNN is trained on half of these and has a threshold from the other
half. The learning rates are the default here and that of the released code.""",
    cases=cases,
    rows=lambda cells: frame.aggregate(
        frame.flat(cells),
        ("method",),
        {"splits": len, "size": frame.mean_of("size"), "coverage": frame.mean_of("coverage")},
    ),
    bars=bars,
    sections=(),
    tables=(TABLE,),
    terminal=(TABLE,),
    settings=lambda cells, rows: {"graph": "cora"},
)
