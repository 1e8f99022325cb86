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

from graphtemper._core.arrays import FloatArray
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import COLUMNS_AT_ONCE, Dense, horner, operator
from graphtemper.models.first_layer import half_passes, has_first_layer
from graphtemper.models.linear import LinearGNN
from graphtemper.models.predictor import Predictor, predict
from graphtemper.signals.neighbours import own_view
from graphtemper.signals.passes import is_linear

Rows = NDArray[np.int64] | None


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
    predictor: Predictor,
    graph: Graph,
    halves: NDArray[np.bool_],
    column_mean: FloatArray,
    rows: Rows = None,
) -> Iterator[FeatureViews]:
    """Yield the views of each split, at the given rows (default all nodes).

    The half that is not seen is set to the target's own column mean. Linear models and GCNs
    propagate projected columns; any other model runs four times a split on dense features.
    """
    if is_linear(predictor):
        yield from _linear_feature_views(predictor, graph, halves, column_mean, rows)
        return
    views = (
        half_passes(predictor, graph, halves, column_mean)
        if has_first_layer(predictor)
        else _real_views(predictor, graph, halves, column_mean)
    )
    for whole in views:
        yield FeatureViews(*(view if rows is None else view[rows] for view in whole))


def _real_views(
    predictor: Predictor, graph: Graph, halves: NDArray[np.bool_], column_mean: FloatArray
) -> Iterator[tuple[FloatArray, ...]]:
    dense = _dense(graph)
    fill = column_mean.astype(np.float32)
    for half in halves:
        parts = [graph.replace(features=np.where(seen, dense, fill)) for seen in (half, ~half)]
        whole = [predict(predictor, part) for part in parts]
        yield (*whole, *(own_view(predictor, part) for part in parts))


def _linear_feature_views(
    model: LinearGNN,
    graph: Graph,
    halves: NDArray[np.bool_],
    column_mean: FloatArray,
    rows: Rows,
) -> Iterator[FeatureViews]:
    r"""Propagate the first halves of several splits at once; the second halves follow.

    The model is linear, so the views of two halves sum to the view of all columns plus that of the
    column means alone, and so do their own views.
    """
    matrix = operator(graph, model.operator)
    mean = column_mean.astype(np.float32)[None, :]
    classes = model.intercept_.size
    everything, nothing = model.project(graph.features), model.project(mean)
    whole: list[Dense] = [x + c for x, c in zip(everything, nothing, strict=True)]
    both, own_both = horner(matrix, whole, rows), _total(whole, rows)
    step = max(COLUMNS_AT_ONCE // classes, 1)
    for start in range(0, len(halves), step):
        some = halves[start : start + step]
        reader = _through_halves(model, some)
        first, inside = reader.project(graph.features), reader.project(mean)
        for seen, mean_seen, mean_whole in zip(first, inside, nothing, strict=True):
            seen += np.tile(mean_whole, len(some)) - mean_seen  # in place: the widest array here
        views, own_views = horner(matrix, first, rows), _total(first, rows)
        for position in range(len(some)):
            part = slice(position * classes, (position + 1) * classes)
            view, own = views[:, part], own_views[:, part]
            yield FeatureViews(
                *(
                    np.asarray(values + model.intercept_, dtype=np.float64)
                    for values in (view, both - view, own, own_both - own)
                )
            )


def _total(terms: Sequence[Dense], rows: Rows) -> Dense:
    """Return the sum of a linear model's terms: the node in place of its neighbours."""
    some = terms if rows is None else [term[rows] for term in terms]
    return np.asarray(sum(some[1:], start=some[0]))


def _through_halves(model: LinearGNN, halves: NDArray[np.bool_]) -> LinearGNN:
    """Return the model that reads each half of the columns into K logits of its own."""
    copy = type(model)(**model.get_params())
    copy.weights_ = np.concatenate(
        [model.weights_ * half[None, :, None] for half in halves], axis=2
    )
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


def node_products(first: FloatArray, second: FloatArray, centre: Rows = None) -> FloatArray:
    """Return each node's share of the cross-covariance, (N,); their mean is the covariance.

    Their spread over nodes gives its standard error. Views are of the whole graph and centred
    there, or over ``centre``, a fair sample of it, so that the products of some nodes do not depend
    on which others are looked at.
    """
    u, v = (centred(view) for view in (first, second))
    middle = [view.mean(axis=0) if centre is None else view[centre].mean(axis=0) for view in (u, v)]
    return np.asarray(np.einsum("ik,ik->i", u - middle[0], v - middle[1]))


def centred(logits: FloatArray) -> FloatArray:
    """Return logits with mean zero at every node."""
    values = np.asarray(logits, dtype=np.float64)
    share = np.full((values.shape[1], 1), 1.0 / values.shape[1])
    return np.asarray(values - values @ share)  # a product is faster than a mean of short rows


def _dense(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()
