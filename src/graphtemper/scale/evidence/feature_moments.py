"""Column means and deviations of sharded features, and their signal-to-noise ratio."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper.errors import FileError, InputError
from graphtemper.graph.moments import column_moments
from graphtemper.graph.operators import multiply
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
    found: Moments = total(engine.map(partial(_moments, graph=graph), range(len(graph.shards))))
    return found.mean, np.sqrt(found.covariance)


def _moments(shard: int, *, graph: ShardedGraph) -> Moments:
    features = graph.features(shard)
    mean, std = column_moments(features)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise FileError(f"shard-{shard:05d}: its features are not all finite; convert again.")
    return Moments(features.shape[0], mean, std**2 * features.shape[0])


@dataclass(frozen=True)
class _ClassSums(Sums):
    """Sums of the deviations of each class from the mean row, of all squares, and of nodes."""

    sizes: NDArray[np.int64]
    sums: FloatArray
    square: float


def feature_snr(
    engine: Engine, graph: ShardedGraph, classes: Columns, num_classes: int, mean: FloatArray
) -> float | None:
    """Return `graphtemper.signals.snr_estimate` of the predicted classes; None where undefined."""
    work = partial(_class_sums, graph=graph, classes=classes, num_classes=num_classes, mean=mean)
    found: _ClassSums = total(engine.map(work, range(len(graph.shards))))
    here = found.sizes > 0
    try:
        return signals.snr_from_sums(found.sizes[here], found.sums[here], found.square)
    except InputError:  # one predicted class, as many as nodes, or features that do not vary
        return None


def _class_sums(
    shard: int, *, graph: ShardedGraph, classes: Columns, num_classes: int, mean: FloatArray
) -> _ClassSums:
    first, last, _ = graph.shards[shard]
    features, predicted = graph.features(shard), classes.open()[first:last, 0]
    found = _ClassSums(np.bincount(predicted, minlength=num_classes), np.zeros(()), 0.0)
    step = max(VALUES_AT_ONCE // graph.num_features, 1)
    for start in range(0, last - first, step):
        some, here = features[start : start + step], predicted[start : start + step]
        rows = np.arange(len(here))
        members = sp.csr_matrix((np.ones(len(here)), (here, rows)), (num_classes, len(here)))
        if isinstance(some, np.ndarray):
            deviation = some - mean
            sums, square = multiply(members, deviation), float(np.vdot(deviation, deviation))
        else:
            wide = some.astype(np.float64)
            plain = np.asarray(multiply(members, wide).toarray())
            sums = plain - np.bincount(here, minlength=num_classes)[:, None] * mean
            # |x - m|^2 summed without filling the zeros in.
            cross = float(plain.sum(axis=0) @ mean)
            square = float((wide.data**2).sum()) - 2.0 * cross + len(here) * float(mean @ mean)
        found += _ClassSums(np.zeros(num_classes, np.int64), np.asarray(sums, np.float64), square)
    return found
