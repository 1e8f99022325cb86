"""Shifts that mix the features of nodes with each other: records that leak into one another.

Sparse features stay sparse; a mixed row holds the entries of all rows it was mixed from.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import multiply, operator
from graphtemper.shifts.base import Shift, checked_level

Generator = np.random.Generator


def blend(level: float) -> Shift:
    r"""Blend with strangers: :math:`x_i \leftarrow (1-l)\,x_i + l\,x_{\sigma(i)}`.

    :math:`\sigma` is one random permutation of the nodes.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0], [3.0]], edges=[[0, 1]])
    >>> float(blend(0.5)(g).features.mean())
    2.0
    """
    return Shift("blend", checked_level("blend", level, 0.0, 1.0), _blend)


def smooth(level: float) -> Shift:
    r"""Blend with neighbours: :math:`x_i \leftarrow (1-l)\,x_i + l\,\bar x_{N(i)}`; not random.

    Nodes without neighbours stay as they are. Noise is then shared between neighbours, as when
    missing records are filled in from those next to them.

    Examples
    --------
    >>> g = Graph(features=[[0.0], [2.0], [4.0]], edges=[[0, 1], [1, 2]])
    >>> smooth(0.5)(g).features.ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    return Shift("smooth", checked_level("smooth", level, 0.0, 1.0), _smooth)


def _blend(graph: Graph, level: float, rng: Generator) -> Graph:
    own, other = np.float32(1.0 - level), np.float32(level)
    features = graph.features
    mixed = features * own + features[rng.permutation(graph.num_nodes)] * other
    return graph.replace(features=mixed)


def _smooth(graph: Graph, level: float, rng: Generator) -> Graph:
    # A node without neighbours keeps its whole weight.
    share = np.where(graph.degrees > 0, level, 0.0).astype(np.float32)
    around = multiply(operator(graph, "mean"), graph.features)
    if not isinstance(graph.features, np.ndarray):
        own, other = (sp.diags(part, format="csr") for part in (1.0 - share, share))
        return graph.replace(features=multiply(own, graph.features) + multiply(other, around))
    return graph.replace(features=graph.features * (1.0 - share)[:, None] + share[:, None] * around)
