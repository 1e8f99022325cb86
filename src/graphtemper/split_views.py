r"""Split views: the frozen model on two disjoint parts of its input.

Corruption is independent between the parts, so it drops out of the covariance between the model's
two outputs; what remains is signal. With the same splits at source and target, the ratio of the
two covariances is a squared *signal gain*:

.. math:: g^2 = \frac{\sum_s \mathrm{tr}\,\mathrm{Cov}_t(u_s, v_s)}
                     {\sum_s \mathrm{tr}\,\mathrm{Cov}_s(u_s, v_s)}.

The parts are halves of the feature columns; the half that is not seen is set to the column mean.
Sums are taken before the ratio, because a single split's covariance may be near zero. The split by
neighbours is in `witness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper._arrays import FloatArray
from graphtemper.graph import Graph
from graphtemper.models.linear import LinearGNN
from graphtemper.perturb import is_linear
from graphtemper.predict import Predictor, predict
from graphtemper.propagate import Dense, horner, operator
from graphtemper.witness import own_view


class FeatureViews(NamedTuple):
    """The logits (N, K) on one half of the columns and on the other, with and without neighbours.

    The own views are without neighbours, see `witness.own_view`.
    """

    first: FloatArray
    second: FloatArray
    own_first: FloatArray
    own_second: FloatArray


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
) -> Iterator[FeatureViews]:
    """Yield the views of each split.

    The half that is not seen is set to the target's own column mean. Linear models propagate
    projected columns, at the cost of a few passes; any other model runs four times a split on dense
    features.
    """
    if is_linear(predictor):
        yield from _linear_feature_views(predictor, graph, halves, column_mean)
        return
    dense = _dense(graph)
    fill = column_mean.astype(np.float32)
    for half in halves:
        parts = [graph.replace(features=np.where(seen, dense, fill)) for seen in (half, ~half)]
        whole = [predict(predictor, part) for part in parts]
        alone = [own_view(predictor, part) for part in parts]
        yield FeatureViews(*whole, *alone)


def _linear_feature_views(
    model: LinearGNN, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray
) -> Iterator[FeatureViews]:
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
        classes = model.intercept_.size
        yield FeatureViews(
            *(
                np.asarray(part + model.intercept_, dtype=np.float64)
                for part in (
                    both[:, :classes],
                    both[:, classes:],
                    _total(first, graph.num_nodes),
                    _total(second, graph.num_nodes),
                )
            )
        )


def _total(terms: Sequence[Dense], num_nodes: int) -> FloatArray:
    """Return the sum of a linear model's terms: the node in place of its neighbours."""
    classes = max(term.shape[1] for term in terms)
    total = np.zeros((num_nodes, classes))
    for term in terms:
        total += term
    return total


def _with_weights(model: LinearGNN, weights: NDArray[np.float32]) -> LinearGNN:
    """Return a copy of a linear model that reads through other weights."""
    copy = type(model)(**model.get_params())
    copy.weights_, copy.intercept_ = weights.astype(np.float64), model.intercept_
    return copy


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
    """Return each node's share of the cross-covariance, (N,); their mean is the covariance.

    Their spread over nodes gives its standard error. Views are of the whole graph and centred
    there, so that the products of some nodes do not depend on which others are looked at.
    """
    u, v = (centred(view) for view in (first, second))
    return np.asarray(((u - u.mean(axis=0)) * (v - v.mean(axis=0))).sum(axis=1))


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _dense(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()
