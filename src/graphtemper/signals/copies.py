"""Whether a model's logits stay as they are when copies of nodes join the graph."""

from __future__ import annotations

import numpy as np

from graphtemper.graph.graph import Graph
from graphtemper.models.predictor import dense_features, predict
from graphtemper.signals.observation import Observation

# Sums in another order change float32 logits by about 1e-6 of their size per layer.
_TOLERANCE = 1e-4


def reads_copies(observation: Observation) -> bool:
    """Return whether copies of the nodes without edges leave the logits of the nodes as they are.

    That is so for models that pass messages along edges; not for those that average over the whole
    graph or know every node. Takes one pass.

    Examples
    --------
    >>> g = Graph(features=[[0.0, 1.0], [3.0, -2.0]], edges=[[0, 1]])
    >>> reads_copies(Observation(lambda graph: graph.features, g))
    True
    >>> reads_copies(Observation(lambda graph: graph.features - graph.features[-1], g))
    False
    """
    graph = observation.graph
    if not graph.is_plain or not graph.num_nodes:
        return False
    known = dense_features(graph)
    # The copies are changed, so that no average over the graph stays the same.
    extra = known[: max(graph.num_nodes // 2, 1)] * np.float32(1.5) + np.float32(0.5)
    clean = observation.all_logits * observation.temperature
    try:
        joined = Graph(features=np.vstack([known, extra]), edges=graph.edges)
        both = predict(observation.predictor, joined)
    except Exception:  # the user's code, which may refuse more nodes for any reason
        return False
    size = np.abs(clean).max(axis=1)
    gap = np.abs(both[: graph.num_nodes] - clean).max(axis=1)
    return bool((gap <= _TOLERANCE * (size + np.median(size))).all())
