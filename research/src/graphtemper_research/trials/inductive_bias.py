"""How much better a model looks at nodes of the graph that it was trained on than on a new graph.

Nodes of a card were not trained on, but their neighbours were, and their own features were read
when the model was fitted to these neighbours. A new graph has neither. On a block model a new graph
of the same population can be drawn, so the bias is known. Four ways to measure accuracy A and the
best temperature T on nodes that were not trained on, each minus the new graph's, and the ECE that
the new graph has at this T minus that at its own:

- ``plain``: on the graph as it is.
- ``cut``: on the graph without the training nodes.
- ``swapped``: training nodes get the features of other nodes of their class, so that nothing which
  was learned by heart about them reaches a neighbour.
- ``apart``: as plain, for a model that was trained on the subgraph of the training nodes.

Run ``python -m graphtemper_research.trials.inductive_bias MODEL [SEEDS]`` with SIGN or GCN.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy.typing import NDArray

from graphtemper import csbm, metrics, temperature
from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import Predictor
from graphtemper_research.trials.trial import MODELS

WAYS = ("plain", "cut", "swapped", "apart")
_DEGREE, _HOMOPHILY, _SNR = 6, 0.75, 0.7
Rows = NDArray[np.int64]


def biases(
    model: str, seed: int, *, num_nodes: int = 1500, num_features: int = 100, share: float = 0.3
) -> dict[str, tuple[float, float, float]]:
    """Return the bias of accuracy, of log T and of ECE for each of the `WAYS`, for one graph."""
    graph = _drawn(num_nodes, num_features, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_nodes)
    train, others = (np.sort(part) for part in np.split(order, [round(share * num_nodes)]))
    fitted = MODELS[model](seed).fit(graph, train)
    apart = MODELS[model](seed).fit(graph.subgraph(train))
    new = _drawn(3 * num_nodes, num_features, 10_000 + seed)
    found = {
        "plain": (fitted, scores(fitted, graph, others)),
        "cut": (fitted, scores(fitted, graph.subgraph(others), np.arange(others.size))),
        "swapped": (fitted, scores(fitted, swapped(graph, train, others, rng), others)),
        "apart": (apart, scores(apart, graph, others)),
    }
    return {way: _bias(model, new, here) for way, (model, here) in found.items()}


def _bias(model: Predictor, new: Graph, here: tuple[float, float]) -> tuple[float, float, float]:
    """Return numbers at home minus those of the new graph, and what the temperature costs there."""
    nodes = np.arange(new.num_nodes)
    there = scores(model, new, nodes)
    cost = ece_at(model, new, nodes, here[1]) - ece_at(model, new, nodes, there[1])
    return here[0] - there[0], here[1] - there[1], cost


def _drawn(num_nodes: int, num_features: int, seed: int) -> Graph:
    return csbm.sample(num_nodes, _DEGREE, _HOMOPHILY, _SNR, num_features=num_features, seed=seed)


def ece_at(model: Predictor, graph: Graph, nodes: Rows, log_t: float) -> float:
    """Return the ECE of some nodes at a temperature."""
    assert graph.labels is not None
    logits = np.asarray(model(graph), dtype=np.float64)[nodes]
    return metrics.ece(temperature.apply(logits, np.exp(log_t)), graph.labels[nodes])


def scores(model: Predictor, graph: Graph, nodes: Rows) -> tuple[float, float]:
    """Return the accuracy and the logarithm of the best temperature."""
    assert graph.labels is not None
    logits, labels = np.asarray(model(graph))[nodes], graph.labels[nodes]
    best = temperature.solve(logits, labels).temperature
    return float((logits.argmax(axis=1) == labels).mean()), float(np.log(best))


def swapped(graph: Graph, train: Rows, others: Rows, rng: np.random.Generator) -> Graph:
    """Return the graph whose training nodes have the features of other nodes of their class."""
    rows, labels = np.arange(graph.num_nodes), graph.labels
    assert labels is not None
    for label in range(graph.num_classes):
        pool = others[labels[others] == label]
        taken = train[labels[train] == label]
        if pool.size:
            rows[taken] = rng.choice(pool, taken.size)
    return graph.replace(features=graph.features[rows])


def main(arguments: list[str]) -> None:
    """Print the mean bias of each way with its standard error, as a line of JSON."""
    model, seeds = arguments[0], int((arguments[1:] or ["10"])[0])
    found = [biases(model, seed) for seed in range(seeds)]
    for way in WAYS:
        values = np.array([item[way] for item in found])
        error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
        mean = values.mean(axis=0)
        names = ("accuracy", "log_t", "ece")
        row = dict(zip(names, mean, strict=True))
        row |= {f"{name}_error": value for name, value in zip(names, error, strict=True)}
        rounded = {key: round(float(value), 4) for key, value in row.items()}
        print(json.dumps({"model": model, "way": way, **rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
