"""Means and standard deviations of sharded features."""

from __future__ import annotations

from functools import partial

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper.errors import DamagedError
from graphtemper.graph.operators import column_moments
from graphtemper.scale.engine import Engine
from graphtemper.scale.evidence.sums import Moments, total
from graphtemper.scale.storage.shards import ShardedGraph


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
    moments = total(engine.map(partial(_moments, graph=graph), range(len(graph.shards))))
    return moments.mean, np.sqrt(moments.covariance)


def _moments(shard: int, *, graph: ShardedGraph) -> Moments:
    features = graph.features(shard)
    mean, std = column_moments(features)
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise DamagedError(f"shard-{shard:05d}: its features are not all finite; convert again.")
    return Moments(features.shape[0], mean, std**2 * features.shape[0])
