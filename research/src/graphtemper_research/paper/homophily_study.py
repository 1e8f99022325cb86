"""Two graphs of the paper, rewired as its script does: homophily and ECE before and after.

Two splits; each edge is chosen by itself, always its second end is replaced, and one generator
serves all shares. (`rewiring` replaces either end, because which end is second depends on how nodes
are numbered.) Uncalibrated logits are doubled, as the script's are; the oracle absorbs the factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphtemper import Graph, metrics, temperature
from graphtemper.models import SIGN
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.outcome import Comparison, reported
from graphtemper_research.paper.frozen_binary import summary
from graphtemper_research.paper.real_graphs import REWIRE_LEVELS, splits

GRAPHS, SPLITS = ("minesweeper", "tolokers"), 2


def rows() -> list[dict[str, Any]]:
    """Return homophily and ECE of each graph that is on this machine, by share and method."""
    here = [name for name in GRAPHS if datasets.find(name) is not None]
    return [row for name in here for row in of_graph(name)]


def of_graph(name: str) -> list[dict[str, Any]]:
    """Return the means over the splits of one graph."""
    graph = datasets.load(name)
    assert graph.labels is not None
    found: dict[tuple[float, str], list[dict[str, float]]] = {}
    for index, split in enumerate(splits(graph, SPLITS)):
        rng = np.random.default_rng(index)
        model = SIGN(hops=2, C=1.0, max_iter=200, tol=1e-4).fit(graph, split.train)
        labels = graph.labels[split.test]
        for share in REWIRE_LEVELS:
            target = released_rewire(graph, share, rng)
            logits = 2.0 * model(target)[split.test].astype(np.float64)
            fitted = {"uncalibrated": 1.0, "oracle": temperature.fit(logits, labels)}
            for method, value in fitted.items():
                probabilities = temperature.apply(logits, value)
                cell = {
                    "homophily": edge_homophily(target),
                    "ece": metrics.ece(probabilities, labels),
                    "noise_floor": metrics.noise_floor(probabilities),
                }
                found.setdefault((share, method), []).append(cell)
    return [
        {"study": "rewired homophily", "graph": name, "share": share, "method": method}
        | {key: summary([cell[key] for cell in cells])[0] for key in cells[0]}
        | {"spread": summary([cell["ece"] for cell in cells])[1]}
        for (share, method), cells in found.items()
    ]


def released_rewire(graph: Graph, share: float, rng: np.random.Generator) -> Graph:
    """Give each edge, with probability ``share``, a random second end; drop self-loops and repeats.

    Examples
    --------
    >>> g = Graph(features=[[0.0]] * 4, edges=[[0, 1], [1, 2], [2, 3]])
    >>> released_rewire(g, 0.0, np.random.default_rng(0)).edges.tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    edges = graph.edges.copy()
    chosen = rng.random(len(edges)) < share
    edges[chosen, 1] = rng.integers(0, graph.num_nodes, int(chosen.sum()))
    edges = np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1)
    return graph.replace(edges=np.unique(edges, axis=0))


def edge_homophily(graph: Graph) -> float:
    """Return the fraction of edges between nodes of one class.

    Examples
    --------
    >>> edge_homophily(Graph(features=[[0.0]] * 3, edges=[[0, 1], [1, 2]], labels=[0, 0, 1]))
    0.5
    """
    assert graph.labels is not None
    ends = graph.labels[graph.edges]
    return float((ends[:, 0] == ends[:, 1]).mean())


def comparisons(found: list[dict[str, Any]]) -> list[Comparison]:
    """Return the change of homophily and ECE, and the oracle's ECE, beside the paper's claims."""
    items = []
    for name in dict.fromkeys(row["graph"] for row in found):
        plain, oracle = (
            [row for row in found if (row["graph"], row["method"]) == (name, method)]
            for method in ("uncalibrated", "oracle")
        )
        before, after = plain[0], plain[-1]
        items.append(
            reported(
                f"{name}: change of edge homophily at 75 % rewired",
                after["homophily"] - before["homophily"],
                (
                    f"homophily {before['homophily']:.3f} to {after['homophily']:.3f}, "
                    f"uncalibrated ECE {before['ece']:.3f} to {after['ece']:.3f}"
                ),
                published="mediates the change of ECE",
            )
        )
        items += [
            reported(
                f"{name}: ECE after the oracle temperature, {row['share']:.0%} rewired by the "
                "authors' script",
                row["ece"],
                f"a perfectly calibrated model would show {row['noise_floor']:.3f}",
                published="<= 0.03",
                spread=row["spread"],
            )
            for row in oracle
        ]
    return items
