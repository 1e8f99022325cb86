"""How a model is probed: the settings, draws that belong to what a node is, and votes.

A `Probe` has the settings. Votes of perturbed passes are counted as these come, one at a time, so M
passes never hold (M, N, K) numbers. The model itself takes them, see `graphtemper.models.passes`.

Edges are held out by a hash of their ends (`kept_links`): an edge that several graphs over the same
nodes share is held out of all of them or of none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray, check_choice, check_integer, checked_level
from graphtemper._core.reproducible import Keys, Seed, map_blocks, mixed, stream
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import graph_moments
from graphtemper.models.passes import Noise, passes_of
from graphtemper.models.predictor import Predictor
from graphtemper.signals.second_opinion import SecondOpinion


@dataclass(frozen=True, eq=False)
class Probe:
    """How to measure: fixed at the source and stored in the card.

    ``noise_level`` is the feature noise, in column standard deviations, under which two passes over
    the source disagree as often as the model is wrong. The thresholds are those of ATC at the
    source. ``seed`` draws the halves of the columns; it is the same in all cards, whose files hold
    no seed. ``splits`` is the number of splits of the columns, and with it of all passes: see
    `graphtemper.signals.views`. ``second`` is the second opinion; None if the
    caller has one.
    """

    temperature: float
    noise_level: float
    column_std: FloatArray
    confidence_threshold: float
    entropy_threshold: float
    seed: int = 0
    splits: int = 3
    edge_share: float = 0.3
    second: SecondOpinion | None = None


def link_keys(graph: Graph) -> Keys:
    """Return a number per link, (E,), that depends on the numbers of its ends alone."""
    ends, links = mixed(mixed(np.arange(graph.num_nodes, dtype=np.uint64))), graph.links
    sums = np.empty(len(links), np.uint64)

    def fill(some: slice) -> None:
        sums[some] = ends[links[some, 0]] + ends[links[some, 1]]

    map_blocks(fill, len(links), 1)
    return sums


def kept_links(keys: Keys, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which links to keep, by their keys: all but a random share, and never all of them.

    Examples
    --------
    >>> g = Graph(features=np.arange(6.0)[:, None], edges=[[0, 1], [2, 3], [4, 5]])
    >>> keep = kept_links(link_keys(g), 0.0, np.random.default_rng(0))
    >>> int(keep.sum())
    2
    """
    salt = rng.integers(2**64, dtype=np.uint64)
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    keep = np.empty(keys.size, dtype=bool)

    def fill(some: slice) -> None:
        keep[some] = mixed(keys[some] + salt) >= limit

    map_blocks(fill, keys.size, 1)
    if keep.size and keep.all():
        keep[mixed(keys + salt).argmin()] = False
    return keep


Kind = Literal["feature", "edge", "both"]


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
    """Return the logits (N, K) of ``count`` perturbed passes, one at a time.

    ``kind`` is ``"feature"`` for ``level`` x column std x N(0, 1) on the features, ``"edge"`` for
    passes without a random fraction ``share`` of the links, or ``"both"``: the first half of the
    passes with feature noise (one more if the count is odd), the rest without links.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    >>> [z.shape for z in passes(SIGN().fit(g), g, "both", 3)]
    [(200, 2), (200, 2), (200, 2)]
    """
    check_choice(kind, get_args(Kind), "kind")
    check_integer(count, "passes", 2 if kind == "both" else 1)
    noisy = {"feature": count, "edge": 0, "both": (count + 1) // 2}[kind]
    std = checked_level("noise", level, 0.0) * graph_moments(graph)[1]
    dropped = round(checked_level("drop", share, 0.0, 1.0) * len(graph.links))
    model, noise = passes_of(predictor), Noise(std, stream(seed, "feature_noise"))
    rng, keys = stream(seed, "edge_dropout"), link_keys(graph)

    def with_noise() -> FloatArray:
        return model.run(graph, noise=noise)

    def without_links() -> FloatArray:
        draws = mixed(keys + rng.integers(2**64, dtype=np.uint64))
        keep = np.ones(draws.size, dtype=bool)
        keep[np.argsort(draws, kind="stable")[:dropped]] = False
        return model.run(graph, keep=keep)

    return (with_noise() if run < noisy else without_links() for run in range(count))


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
        raise errors.empty("there are no passes to count votes from; run at least one pass.")
    return votes
