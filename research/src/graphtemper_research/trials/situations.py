"""Situations with a known truth: what a stranger's target may be, row by row of the exam.

A row is a kind of situation; each function returns its targets by name. Targets keep the labels,
which only the scores read, and the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import Graph, csbm, shifts
from graphtemper.shifts import Shift
from graphtemper_research.harness.numeric import column_moments, stream

FRESH = "fresh graphs of the same kind"
HOMOPHILY = "changed homophily"
LEFT_OUT = "changed homophily, unknown to the card"
INSIDE = "drawn shifts inside the card's range"
ENDS = "ends of shift families"
NO_SIGNAL = "features or links without signal"
ACCIDENTS = "pipeline accidents"
NATURAL = "other months, places and releases"
UNCHANGED = "the unchanged source"
COUNTS = (20, 50, 100, 200)
LABELS = tuple(f"{count} labels" for count in COUNTS)
ROWS = (UNCHANGED, FRESH, INSIDE, HOMOPHILY, LEFT_OUT, ENDS, NO_SIGNAL, ACCIDENTS, NATURAL, *LABELS)

Targets = Mapping[str, Callable[[Graph, int], Graph]]
"""Changes of a graph, each with a seed, by name."""


@dataclass(frozen=True)
class Block:
    """A block model, from which a source and any number of targets are drawn."""

    classes: int
    columns: int
    nodes: int
    snr: float
    other_homophilies: tuple[float, ...]
    homophily: float = 0.8
    degree: float = 8.0

    def graph(self, seed: int, homophily: float | None = None) -> Graph:
        """Return a fresh graph, with another homophily if one is given."""
        return csbm.sample(
            self.nodes,
            self.degree,
            self.homophily if homophily is None else homophily,
            self.snr,
            num_classes=self.classes,
            num_features=self.columns,
            seed=seed,
        )


BLOCKS = {
    "2 classes": Block(2, 12, 1200, 1.0, (0.5, 0.65, 0.9)),
    "5 classes": Block(5, 16, 1200, 1.0, (0.4, 0.6, 0.9)),
    "20 classes": Block(20, 40, 1500, 2.0, (0.4, 0.6, 0.9)),
    # More columns than a model of half of the nodes needs to have them by heart.
    "10 classes by heart": Block(10, 200, 1000, 3.0, (0.5, 0.65, 0.9)),
}


def drawn(*changes: Shift) -> Targets:
    """Return shifts as changes by name.

    Examples
    --------
    >>> list(drawn(shifts.noise(5.0), shifts.rewire(1.0)))
    ['noise(5)', 'rewire(1)']
    """
    return {repr(shift): shift for shift in changes}


CHANGED_HOMOPHILY = drawn(shifts.homophily(-0.45), shifts.homophily(0.45))
SHIFTS_INSIDE = drawn(
    shifts.noise(0.5),
    shifts.noise(1.5),
    shifts.mask(0.5),
    shifts.shuffle(0.5),
    shifts.rewire(0.5),
    shifts.drop(0.5),
    shifts.add(1.5),
)
SHIFT_ENDS = drawn(
    shifts.rewire(1.0),
    shifts.shuffle(1.0),
    shifts.noise(5.0),
    shifts.mask(0.97),
    shifts.drop(0.97),
    shifts.scale(0.1),
    shifts.scale(5.0),
)


def _rng(seed: int, name: str) -> np.random.Generator:
    return stream(seed, f"exam {name}")


def _dense(graph: Graph) -> NDArray[np.floating]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else np.asarray(features.todense())


def rows_in_order(graph: Graph, order: NDArray[np.int64]) -> Graph:
    """Return the graph whose node i has the features of node ``order[i]``."""
    return graph.replace(features=graph.features[order])


def columns_in_order(graph: Graph, order: NDArray[np.int64]) -> Graph:
    """Return the graph whose column j holds the numbers of column ``order[j]``, under its name.

    Examples
    --------
    >>> g = Graph(features=[[1.0, 2.0], [3.0, 4.0]], edges=[[0, 1]])
    >>> columns_in_order(g, np.array([1, 0])).features.tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    features = graph.features[:, order]
    if isinstance(features, np.ndarray):
        features = np.ascontiguousarray(features)
    return graph.replace(features=features)


def columns_times(graph: Graph, factors: NDArray[np.float64]) -> Graph:
    """Return the graph with every column multiplied by a factor."""
    features = graph.features
    if isinstance(features, np.ndarray):
        return graph.replace(features=features * factors.astype(features.dtype))
    return graph.replace(features=sp.csr_array(features.multiply(factors[None])))


def each_column_permuted(graph: Graph, seed: int) -> Graph:
    """Return the graph with every column in an order of its own: moments stay, meaning goes.

    Examples
    --------
    >>> g = Graph(features=[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]], edges=[[0, 1]])
    >>> sorted(each_column_permuted(g, 1).features[:, 0].tolist())
    [1.0, 2.0, 3.0]
    """
    return graph.replace(features=_rng(seed, "columns").permuted(_dense(graph), axis=0))


def noise_for_features(graph: Graph, seed: int) -> Graph:
    """Return the graph with Gaussian numbers of every column's mean and deviation."""
    mean, deviation = column_moments(graph.features)
    drawn = _rng(seed, "noise").normal(mean, deviation, graph.features.shape)
    return graph.replace(features=drawn.astype(graph.features.dtype))


def _order(seed: int, name: str, count: int) -> NDArray[np.int64]:
    return _rng(seed, name).permutation(count)


def _rows_permuted(graph: Graph, seed: int) -> Graph:
    return rows_in_order(graph, _order(seed, "rows", graph.num_nodes))


def _columns_permuted(graph: Graph, seed: int) -> Graph:
    return columns_in_order(graph, _order(seed, "order", graph.num_features))


def _columns_and_edges(graph: Graph, seed: int) -> Graph:
    return shifts.rewire(1.0)(_columns_permuted(graph, seed), seed)


WITHOUT_SIGNAL: Targets = {
    "rows permuted": _rows_permuted,
    "each column permuted": each_column_permuted,
    "columns permuted, random edges": _columns_and_edges,
    "noise for features": noise_for_features,
}


def _varying(graph: Graph, seed: int, name: str) -> int:
    """Return one of the columns that vary."""
    columns = np.flatnonzero(column_moments(graph.features)[1] > 0.0)
    return int(_rng(seed, name).choice(columns))


def _one_column(factor: float, name: str) -> Callable[[Graph, int], Graph]:
    def change(graph: Graph, seed: int) -> Graph:
        factors = np.ones(graph.num_features)
        factors[_varying(graph, seed, name)] = factor
        return columns_times(graph, factors)

    return change


def _columns_reversed(graph: Graph, seed: int) -> Graph:
    return columns_in_order(graph, np.arange(graph.num_features)[::-1])


def _two_swapped(graph: Graph, seed: int) -> Graph:
    order = np.arange(graph.num_features)
    first = _varying(graph, seed, "swapped")
    second = (first + 1) % order.size
    order[[first, second]] = order[[second, first]]
    return columns_in_order(graph, order)


def _all_times_100(graph: Graph, seed: int) -> Graph:
    return columns_times(graph, np.full(graph.num_features, 100.0))


def _standardised(graph: Graph, seed: int) -> Graph:
    # As StandardScaler does: sparse columns are scaled and not centred.
    mean, deviation = column_moments(graph.features)
    factors = 1.0 / np.where(deviation > 0.0, deviation, 1.0)
    if isinstance(graph.features, np.ndarray):
        graph = graph.replace(features=(graph.features - mean).astype(graph.features.dtype))
    return columns_times(graph, factors)


def with_edges(graph: Graph, edges: NDArray[np.int32], *, directed: bool | None = None) -> Graph:
    """Return a graph of the same nodes with other edges, without what else is known of them."""
    return Graph(
        features=graph.features,
        edges=edges,
        labels=graph.labels,
        name=graph.name,
        class_names=graph.class_names,
        feature_names=graph.feature_names,
        directed=graph.directed if directed is None else directed,
    )


def _no_edges(graph: Graph, seed: int) -> Graph:
    return with_edges(graph, graph.edges[:0])


def _one_edge_in_ten(graph: Graph, seed: int) -> Graph:
    return with_edges(graph, graph.edges[_rng(seed, "edges").random(graph.num_edges) < 0.1])


def _numbers_shuffled(graph: Graph, seed: int) -> Graph:
    numbers = _order(seed, "numbers", graph.num_nodes).astype(np.int32)
    return with_edges(graph, numbers[graph.edges])


def _one_direction(graph: Graph, seed: int) -> Graph:
    return with_edges(graph, graph.edges, directed=True)


HAPPENED: Targets = {
    "columns reversed": _columns_reversed,
    "columns permuted": _columns_permuted,
    "a column zero": _one_column(0.0, "zero"),
    "no edges": _no_edges,
    "one edge in ten": _one_edge_in_ten,
    "rows shuffled": _rows_permuted,
    "node numbers shuffled": _numbers_shuffled,
    "all columns x 100": _all_times_100,
    "one column x 100": _one_column(100.0, "large"),
    "two columns swapped": _two_swapped,
    "one direction of every edge": _one_direction,
    "standardised again": _standardised,
}
"""Accidents of a pipeline, between the graph and the model."""
