"""Means and standard deviations of sharded features, and their signal-to-noise ratio."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import FileError, InputError
from graphtemper.graph.operators import column_moments, multiply
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.sums import Moments, Sums, total
from graphtemper.scale.storage.array_files import Columns
from graphtemper.scale.storage.shards import VALUES_AT_ONCE, ShardedGraph
from graphtemper.signals import pointwise as signals


def feature_moments(engine: Engine, graph: ShardedGraph) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each feature column.

    Examples
    --------
    >>> import tempfile
    >>> from graphtemper import csbm
    >>> from graphtemper.scale.conversion.convert import convert_graph
    >>> from graphtemper.scale.engine import Serial
    >>> g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=3, seed=1)
    >>> sharded = convert_graph(g, tempfile.mkdtemp() + "/g", rows_per_shard=100)
    >>> mean, std = feature_moments(Serial(), sharded)
    >>> bool(np.allclose(std, g.features.std(axis=0)))
    True
    """
    parts = engine.map(partial(_moments, graph=graph), range(len(graph.shards)))
    moments: Moments = total(parts)
    return moments.mean, np.sqrt(moments.covariance)


def _moments(shard: int, *, graph: ShardedGraph) -> Moments:
    features = graph.features(shard)
    mean, std = column_moments(features)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise FileError(f"shard-{shard:05d}: its features are not all finite; convert again.")
    return Moments(features.shape[0], mean, std**2 * features.shape[0])


@dataclass(frozen=True)
class _ClassSums(Sums):
    """Class sizes, sums of deviations from the mean row by class, and the sum of all squares."""

    sizes: NDArray[np.int64]
    sums: FloatArray
    square: float


def feature_snr(
    engine: Engine, graph: ShardedGraph, classes: Columns, num_classes: int, mean: FloatArray
) -> float | None:
    """Return `graphtemper.signals.snr_estimate` of the predicted classes, None if undefined."""
    work = partial(_class_sums, graph=graph, classes=classes, num_classes=num_classes, mean=mean)
    sums: _ClassSums = total(engine.map(work, range(len(graph.shards))))
    occupied = sums.sizes > 0
    try:
        return signals.snr_from_sums(sums.sizes[occupied], sums.sums[occupied], sums.square)
    except InputError:  # one predicted class, one per node, or constant features
        return None


def _class_sums(
    shard: int, *, graph: ShardedGraph, classes: Columns, num_classes: int, mean: FloatArray
) -> _ClassSums:
    first, last, _ = graph.shards[shard]
    features, predicted = graph.features(shard), classes.open()[first:last, 0]
    result = _ClassSums(np.bincount(predicted, minlength=num_classes), np.zeros(()), 0.0)
    step = max(VALUES_AT_ONCE // graph.num_features, 1)
    for start in range(0, last - first, step):
        block, classes_here = features[start : start + step], predicted[start : start + step]
        count = len(classes_here)
        members = sp.csr_matrix(
            (np.ones(count), (classes_here, np.arange(count))), (num_classes, count)
        )
        if isinstance(block, np.ndarray):
            deviation = block - mean
            sums, square = multiply(members, deviation), float(np.vdot(deviation, deviation))
        else:
            wide = block.astype(np.float64)
            raw = np.asarray(multiply(members, wide).toarray())
            sums = raw - np.bincount(classes_here, minlength=num_classes)[:, None] * mean
            # The sum of |x - m|^2, without making the matrix dense.
            cross = float(raw.sum(axis=0) @ mean)
            square = float((wide.data**2).sum()) - 2.0 * cross + count * float(mean @ mean)
        result += _ClassSums(np.zeros(num_classes, np.int64), np.asarray(sums, np.float64), square)
    return result
