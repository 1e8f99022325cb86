r"""Split views: the frozen model on two disjoint parts of its input.

Corruption is independent between the parts, so it drops out of the covariance between the model's
two outputs; what remains is signal. With the same splits at source and target, the ratio of the
two covariances is a squared *signal gain*:

.. math:: g^2 = \frac{\sum_s \mathrm{tr}\,\mathrm{Cov}_t(u_s, v_s)}
                     {\sum_s \mathrm{tr}\,\mathrm{Cov}_s(u_s, v_s)}.

Two ways to split: halves of the feature columns (the other half is set to the column mean), and
disjoint sets of neighbours (`neighbour_views`). Sums are taken before the ratio, because a single
split's covariance may be near zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphtemper._arrays import FloatArray
from graphtemper.edge_subsets import EdgeSubsets
from graphtemper.graph import Graph
from graphtemper.models.linear import LinearGNN
from graphtemper.perturb import is_linear
from graphtemper.predict import Predictor, predict
from graphtemper.propagate import horner, operator

Views = tuple[FloatArray, FloatArray]


def column_halves(num_features: int, splits: int, seed: int) -> NDArray[np.bool_]:
    """Return random halves of the columns, (splits, F) bool; the same seed gives the same halves.

    Examples
    --------
    >>> column_halves(6, 2, seed=0).sum(axis=1).tolist()
    [3, 3]
    """
    halves = np.zeros((splits, num_features), dtype=bool)
    for row in range(splits):
        order = np.random.default_rng([seed, row]).permutation(num_features)
        halves[row, order[: num_features // 2]] = True
    return halves


def feature_views(
    predictor: Predictor, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray
) -> Iterator[Views]:
    """Yield the logits (N, K) on each half of the columns and on the other half.

    The half that is not seen is set to the target's own column mean. Linear models propagate
    projected columns, at the cost of a few passes; any other model runs twice a split on dense
    features.
    """
    if is_linear(predictor):
        yield from _linear_feature_views(predictor, graph, halves, column_mean)
        return
    dense = _dense(graph)
    fill = column_mean.astype(np.float32)
    for half in halves:
        first, second = (
            predict(predictor, graph.replace(features=np.where(seen, dense, fill)))
            for seen in (half, ~half)
        )
        yield first, second


def _linear_feature_views(
    model: LinearGNN, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray
) -> Iterator[Views]:
    matrix = operator(graph, model.operator)
    weights = model.weights_.astype(np.float32)
    whole = model.project(graph.features)
    fill = column_mean.astype(np.float32)
    # A half's projection determines the other's: X W - X_h W_h, and likewise for the means.
    mean = fill[None, :]
    constant = model.project(mean)
    for half in halves:
        reader = _with_weights(model, weights * half[None, :, None])
        masked, inside = reader.project(graph.features), reader.project(mean)
        first = [m + (c - i) for m, c, i in zip(masked, constant, inside, strict=True)]
        second = [w - m + i for w, m, i in zip(whole, masked, inside, strict=True)]
        both = horner(matrix, [np.hstack(pair) for pair in zip(first, second, strict=True)])
        both = both + np.tile(model.intercept_, 2)
        classes = model.intercept_.size
        yield both[:, :classes].astype(np.float64), both[:, classes:].astype(np.float64)


def _with_weights(model: LinearGNN, weights: NDArray[np.float32]) -> LinearGNN:
    """Return a copy of a linear model that reads through other weights."""
    copy = type(model)(**model.get_params())
    copy.weights_, copy.intercept_ = weights.astype(np.float64), model.intercept_
    return copy


@dataclass(frozen=True, eq=False)
class NeighbourViews:
    """Each node seen through two disjoint sets of its neighbours, and through itself and one set.

    Arrays are (N, K) logits: `first` and `second` do not share a node's own features nor a
    neighbour; `own_and_first` adds the node's own features to the first set.
    """

    first: FloatArray
    second: FloatArray
    own_and_first: FloatArray


def neighbour_views(
    predictor: Predictor, graph: Graph, column_mean: FloatArray, seed: int
) -> NeighbourViews:
    """Split every node's neighbours by colouring the nodes with three colours at random.

    A node of one colour sees only neighbours of the second colour in one view and only those of the
    third in the other; all other features, its own among them, are set to the column mean. Nine
    passes, of K columns each for a linear model.
    """
    colours = np.random.default_rng([seed, graph.num_nodes]).integers(3, size=graph.num_nodes)
    run = (
        _LinearRunner(predictor, graph, column_mean)
        if is_linear(predictor)
        else _Runner(predictor, graph, column_mean)
    )
    ends = colours[graph.edges]
    found: dict[str, FloatArray] = {}
    for own in range(3):
        here = colours == own
        for name, other in (("first", (own + 1) % 3), ("second", (own + 2) % 3)):
            keep = (ends == [own, other]).all(axis=1) | (ends == [other, own]).all(axis=1)
            seen = colours == other
            _fill(found, name, here, run(keep, seen))
            if name == "first":
                _fill(found, "own_and_first", here, run(keep, seen | here))
    return NeighbourViews(**found)


def _fill(
    found: dict[str, FloatArray], name: str, rows: NDArray[np.bool_], logits: FloatArray
) -> None:
    if name not in found:
        found[name] = np.zeros_like(logits)
    found[name][rows] = logits[rows]


class _Runner:
    """Run any predictor on some edges and with some nodes' features hidden."""

    def __init__(self, predictor: Predictor, graph: Graph, column_mean: FloatArray) -> None:
        self._predictor, self._graph = predictor, graph
        self._dense, self._fill = _dense(graph), column_mean.astype(np.float32)

    def __call__(self, keep: NDArray[np.bool_], seen: NDArray[np.bool_]) -> FloatArray:
        features = np.where(seen[:, None], self._dense, self._fill)
        return predict(self._predictor, self._graph.keep_edges(keep).replace(features=features))


class _LinearRunner:
    """The same for a linear model, on projected columns."""

    def __init__(self, model: LinearGNN, graph: Graph, column_mean: FloatArray) -> None:
        self._subsets = EdgeSubsets(graph, model.operator)
        self._terms = model.project(graph.features)
        mean = column_mean.astype(np.float32)[None, :]
        self._hidden = model.project(mean)
        self._intercept = model.intercept_

    def __call__(self, keep: NDArray[np.bool_], seen: NDArray[np.bool_]) -> FloatArray:
        pairs = zip(self._terms, self._hidden, strict=True)
        terms = [np.where(seen[:, None], term, hidden) for term, hidden in pairs]
        logits = horner(self._subsets.operator(keep), terms) + self._intercept
        return np.asarray(logits, dtype=np.float64)


def cross_covariance(first: FloatArray, second: FloatArray) -> float:
    """Return the trace of the covariance between two views, (n, K) each.

    Logits are centred per node first, because a constant added to a node's logits means nothing.

    Examples
    --------
    >>> u = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> cross_covariance(u, u), cross_covariance(u, -u)
    (2.0, -2.0)
    """
    return float(node_products(first, second).mean())


def node_products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return each node's share of the cross-covariance, (n,); their mean is the covariance.

    Their spread over nodes gives its standard error.
    """
    u, v = (centred(view) for view in (first, second))
    return np.asarray(((u - u.mean(axis=0)) * (v - v.mean(axis=0))).sum(axis=1))


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def gain(target: float, source: float) -> float:
    """Return the signal gain from a target's and the source's cross-covariance.

    A covariance that is not positive shows no signal: the gain is the smallest that is used.

    Examples
    --------
    >>> gain(0.25, 1.0)
    0.5
    """
    ratio = target / source if source > 0 and target > 0 else 0.0
    return float(np.clip(np.sqrt(ratio), *GAIN_RANGE))


GAIN_RANGE = (0.03, 2.5)
"""Gains outside are not told apart: below, no signal is left; above, the ratio is noise."""


def _dense(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()
