"""Perturbed passes: the predictor's logits on slightly changed copies of a graph.

Passes come one at a time, so M passes never hold (M, N, K) numbers; votes are counted as they come.
The model itself takes the passes, see `graphtemper.models.predictor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import checked_level
from graphtemper._core.reproducible import Seed, stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import graph_moments
from graphtemper.models.predictor import Predictor, passes_of

Kind = Literal["feature", "edge", "both"]
# Number of votes (nodes times passes) beyond which more passes are not worth their time.
ENOUGH_VOTES = 60_000


@dataclass(frozen=True, eq=False)
class Probe:
    """How to measure: fixed at the source and stored in the card.

    ``noise_level`` is the feature noise, in column standard deviations, under which two passes over
    the source disagree as often as the model is wrong. The thresholds are those of ATC at the
    source. With ``shared_splits``, passes are shared, see `graphtemper.signals.shared_passes`;
    without, halves, noise and held-out edges are measured in passes of their own.
    """

    temperature: float
    noise_level: float
    column_std: FloatArray
    confidence_threshold: float
    entropy_threshold: float
    seed: int
    splits: int = 6
    passes: int = 6
    edge_share: float = 0.3
    shared_splits: int = 0
    copies: bool = True

    def passes_over(self, num_nodes: int, fewest: int = 1) -> int:
        """Return the number of perturbed passes over a graph of ``num_nodes`` observed nodes.

        Agreement is averaged over nodes and passes. On more than ten thousand nodes, more passes
        would only reduce an error that is already smaller than the atlas can resolve.
        """
        return max(fewest, min(self.passes, -(-ENOUGH_VOTES // num_nodes)))


def passes(
    predictor: Predictor,
    graph: Graph,
    kind: Kind,
    count: int,
    *,
    level: float = 0.3,
    share: float = 0.3,
    seed: Seed = 0,
) -> Iterator[FloatArray]:
    """Yield the logits of ``count`` perturbed passes.

    ``kind`` is ``"feature"`` (see `feature_noise`), ``"edge"`` (see `edge_dropout`) or ``"both"``:
    the first half of the passes with feature noise (one more if the count is odd), the rest with
    edge dropout.
    """
    if kind not in get_args(Kind):
        raise InputError(f"unknown perturbation {kind!r}; use one of {', '.join(get_args(Kind))}.")
    if kind == "feature":
        return feature_noise(predictor, graph, level, count, seed)
    if kind == "edge":
        return edge_dropout(predictor, graph, share, count, seed)
    _check_count(count, 2)
    return chain(
        feature_noise(predictor, graph, level, (count + 1) // 2, seed),
        edge_dropout(predictor, graph, share, count // 2, seed),
    )


def feature_noise(
    predictor: Predictor,
    graph: Graph,
    level: float,
    passes: int,
    seed: Seed = 0,
    *,
    column_std: FloatArray | None = None,
    clean: FloatArray | None = None,
    rows: NDArray[np.int64] | None = None,
) -> Iterator[FloatArray]:
    """Yield the logits (N, K) under ``level`` x column std x N(0, 1), drawn ``passes`` times.

    ``column_std`` replaces the graph's own standard deviations, for instance by the source's.
    ``clean`` are the logits of all nodes without noise, if they are already available. ``rows``
    are the nodes to return logits for, (n, K) per pass; default all.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    >>> [z.shape for z in feature_noise(SIGN().fit(g), g, 0.3, passes=2)]
    [(200, 2), (200, 2)]
    """
    _check_count(passes, 1)
    strength = checked_level("noise", level, 0.0)
    rng = stream(seed, "feature_noise")
    std = graph_moments(graph)[1] if column_std is None else column_std
    return passes_of(predictor).noisy(graph, strength * std, passes, rng, clean=clean, rows=rows)


def edge_dropout(
    predictor: Predictor, graph: Graph, share: float, passes: int, seed: Seed = 0
) -> Iterator[FloatArray]:
    """Yield the logits (N, K) without a random fraction ``share`` of the edges, ``passes`` times.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    >>> [z.shape for z in edge_dropout(SIGN().fit(g), g, 0.3, passes=2)]
    [(200, 2), (200, 2)]
    """
    _check_count(passes, 1)
    dropped = round(checked_level("drop", share, 0.0, 1.0) * len(graph.links))
    subsets = _random_subsets(len(graph.links), dropped, passes, stream(seed, "edge_dropout"))
    return map(passes_of(predictor).edge_runner(graph), subsets)


def _random_subsets(
    num_edges: int, dropped: int, passes: int, rng: np.random.Generator
) -> Iterator[NDArray[np.bool_]]:
    for _ in range(passes):
        keep = np.ones(num_edges, dtype=bool)
        keep[rng.permutation(num_edges)[:dropped]] = False
        yield keep


def count_votes(passes: Iterable[FloatArray]) -> NDArray[np.int64]:
    """Return how often each node is assigned each class, (N, K); ties go to the first class.

    Examples
    --------
    >>> count_votes([np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]]), np.array([[0.0, 3.0]])])
    array([[1, 2]])
    """
    votes: NDArray[np.int64] | None = None
    for logits in passes:
        if votes is None:
            votes = np.zeros(logits.shape, dtype=np.int64)
            rows = np.arange(logits.shape[0])
        votes[rows, logits.argmax(axis=1)] += 1
    if votes is None:
        raise InputError("there are no passes to count votes from; run at least one pass.")
    return votes


def _check_count(count: int, fewest: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < fewest:
        raise InputError(f"passes must be an integer of at least {fewest}, not {count!r}.")
