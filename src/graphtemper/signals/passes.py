r"""Perturbed passes: the predictor's logits on M slightly changed copies of a graph.

Passes come one at a time, so (M, N, K) numbers are never held; votes are counted as they come.

Linear models do not pay for passes. Feature noise E adds :math:`\sum_k S^k (E W_k)` to the logits,
and a row of :math:`(E W_0, \dots, E W_H)` is a Gaussian with covariance
:math:`W^\top \mathrm{diag}(v)\, W`, where v is the noise's variance a column. That small Gaussian
is drawn instead of E, and K columns are propagated instead of F. Under edge dropout X W is
computed once and only the operator is made anew. A GCN does the same in its first layer, see
`first_layer`. Any other predictor gets M real passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.random_streams import Seed, stream
from graphtemper.errors import InputError
from graphtemper.graph.edge_subsets import EdgeSubsets
from graphtemper.graph.graph import Graph
from graphtemper.graph.moments import column_moments
from graphtemper.graph.operators import COLUMNS_AT_ONCE, Dense, horner, operator, project
from graphtemper.models.first_layer import edge_runner as edge_runner_of_gcn
from graphtemper.models.first_layer import has_first_layer, noisy_passes
from graphtemper.models.linear import LinearGNN
from graphtemper.models.predictor import Predictor, checked_logits, predict
from graphtemper.shifts import drop, noise

Kind = Literal["feature", "edge", "both"]
Generator = np.random.Generator

# Directions whose variance is below this share of the largest carry nothing but rounding error.
_NEGLIGIBLE = 1e-12


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
    ``clean`` are the logits of all nodes without noise, where they are known already. ``rows`` are
    the nodes whose logits are wanted, (n, K), where not all are.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    >>> [z.shape for z in feature_noise(SIGN().fit(g), g, 0.3, passes=2)]
    [(200, 2), (200, 2)]
    """
    _check_count(passes, 1)
    shift = noise(level)
    rng = stream(seed, "feature_noise")
    std = column_moments(graph.features)[1] if column_std is None else column_std
    if is_linear(predictor):
        known = predict(predictor, graph) if clean is None else clean
        return _projected_noise(predictor, graph, level * std, passes, rng, known, rows)
    runs: Iterator[FloatArray]
    if has_first_layer(predictor):
        factor = gaussian_factor(predictor.layers_[0][0].astype(np.float64), level * std)
        runs = noisy_passes(predictor, graph, factor, passes, rng)
    elif column_std is not None:
        runs = _real_noise(predictor, graph, level * std, passes, rng)
    else:
        runs = (predict(predictor, shift(graph, rng)) for _ in range(passes))
    return runs if rows is None else (logits[rows] for logits in runs)


def edge_dropout(
    predictor: Predictor, graph: Graph, share: float, passes: int, seed: Seed = 0
) -> Iterator[FloatArray]:
    """Yield the logits (N, K) without a random ``share`` of the edges, drawn ``passes`` times.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(200, degree=6, homophily=0.8, snr=1.0)
    >>> [z.shape for z in edge_dropout(SIGN().fit(g), g, 0.3, passes=2)]
    [(200, 2), (200, 2)]
    """
    _check_count(passes, 1)
    shift = drop(share)
    rng = stream(seed, "edge_dropout")
    if is_linear(predictor) or has_first_layer(predictor):
        return _projected_dropout(predictor, graph, share, passes, rng)
    return (predict(predictor, shift(graph, rng)) for _ in range(passes))


def count_votes(passes: Iterable[FloatArray]) -> NDArray[np.int64]:
    """Return how often each node was given each class, (N, K); tied logits vote for the first.

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
        raise InputError("there are no passes to count votes from; run at least one.")
    return votes


def is_linear(predictor: Predictor) -> TypeGuard[LinearGNN]:
    """Whether the predictor is a linear model whose passes can be taken on projected columns."""
    # A subclass that predicts in its own way must not be second-guessed.
    return isinstance(predictor, LinearGNN) and type(predictor).__call__ is LinearGNN.__call__


def _real_noise(
    predictor: Predictor, graph: Graph, std: FloatArray, passes: int, rng: Generator
) -> Iterator[FloatArray]:
    features = graph.features
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    size = std.astype(np.float32)
    for _ in range(passes):
        draw = rng.standard_normal(dense.shape, dtype=np.float32)
        draw *= size
        draw += dense
        yield predict(predictor, graph.replace(features=draw))


def _projected_noise(
    model: LinearGNN,
    graph: Graph,
    std: FloatArray,
    passes: int,
    rng: Generator,
    clean: FloatArray,
    rows: NDArray[np.int64] | None,
) -> Iterator[FloatArray]:
    factor = noise_factor(model, std)
    base = clean if rows is None else clean[rows]
    shape = (graph.num_nodes, factor.shape[0])
    matrix = operator(graph, model.operator)
    classes = clean.shape[1]
    together = max(COLUMNS_AT_ONCE // classes, 1)
    for start in range(0, passes, together):
        drawn = [
            _by_hop(model, project(rng.standard_normal(shape, dtype=np.float32), factor))
            for _ in range(min(together, passes - start))
        ]
        terms: list[Dense] = [np.hstack(some) for some in zip(*drawn, strict=True)]
        changes = horner(matrix, terms, rows)
        for first in range(0, changes.shape[1], classes):
            yield base + changes[:, first : first + classes]


def noise_factor(model: LinearGNN, std: FloatArray) -> NDArray[np.float32]:
    """Return the factor of all of a linear model's terms side by side, (r, terms x K)."""
    terms, width, num_classes = model.weights_.shape
    stacked = model.weights_.transpose(1, 0, 2).reshape(width, terms * num_classes)
    return gaussian_factor(stacked, std)


def gaussian_factor(weights: FloatArray, std: FloatArray) -> NDArray[np.float32]:
    """Return (r, C) L with L^T L = W^T diag(std^2) W for W (F, C): white rows times L are E W.

    r is the rank, so a binary model (whose first logit is always 0) draws half the numbers.
    """
    scaled = weights * std[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    kept = values > _NEGLIGIBLE * max(float(values[-1]), np.finfo(np.float64).tiny)
    factor = (vectors[:, kept] * np.sqrt(values[kept])).T
    factor[:, ~scaled.any(axis=0)] = 0.0  # a logit without weights stays exactly what it is
    return np.asarray(factor, dtype=np.float32)


def _by_hop(model: LinearGNN, columns: Dense) -> list[Dense]:
    """Cut (N, terms x K) columns into one term for each power of S; unused powers are zero."""
    num_classes = model.weights_.shape[2]
    terms: list[Dense] = [np.zeros((1, num_classes), np.float32) for _ in range(model.hops + 1)]
    for position, hop in enumerate(model.hops_used):
        terms[hop] = columns[:, position * num_classes : (position + 1) * num_classes]
    return terms


def _projected_dropout(
    model: Predictor, graph: Graph, share: float, passes: int, rng: Generator
) -> Iterator[FloatArray]:
    run = edge_runner(model, graph)
    gone = round(share * graph.num_edges)
    for _ in range(passes):
        keep = np.ones(graph.num_edges, dtype=bool)
        keep[rng.permutation(graph.num_edges)[:gone]] = False
        yield run(keep)


def edge_runner(predictor: Predictor, graph: Graph) -> Callable[[NDArray[np.bool_]], FloatArray]:
    """Return a function from a choice of edges, (E,) bool, to the logits on those edges alone.

    For a linear model X W is computed once and the operator only gets new weights.
    """
    if has_first_layer(predictor):
        return edge_runner_of_gcn(predictor, graph, EdgeSubsets(graph).operator)
    if not is_linear(predictor):
        return lambda keep: predict(predictor, graph.keep_edges(keep))
    terms = predictor.project(graph.features)
    subsets = EdgeSubsets(graph, predictor.operator)
    intercept = predictor.intercept_

    def run(keep: NDArray[np.bool_]) -> FloatArray:
        return checked_logits(horner(subsets.operator(keep), terms) + intercept, graph.num_nodes)

    return run


def _check_count(count: int, fewest: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < fewest:
        raise InputError(f"passes must be a whole number of at least {fewest}, not {count!r}.")
