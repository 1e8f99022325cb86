"""A digest of a graph's content, by which results of one graph are never taken for another's."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import fields

import numpy as np

from graphtemper.graph.graph import Graph


def content_digest(graph: Graph, exclude: Collection[str] = ()) -> str:
    """Return the SHA-256 of the fields of a graph that are set.

    Parameters
    ----------
    graph
        The graph.
    exclude
        Fields to leave out.

    Examples
    --------
    >>> g = Graph(features=[[1.0], [2.0]], edges=[[0, 1]], labels=[0, 1])
    >>> content_digest(g) == content_digest(g.replace(labels=None))
    False
    >>> content_digest(g, ["labels"]) == content_digest(g.replace(labels=None))
    True
    """
    digest = hashlib.sha256()
    for item in fields(graph):
        value = getattr(graph, item.name)
        if item.name in exclude or value is None or value is False:
            continue
        sparse = hasattr(value, "indptr")
        for part in (value.data, value.indices, value.indptr) if sparse else (value,):
            array = np.ascontiguousarray(part)
            shape = value.shape if sparse else array.shape
            digest.update(f"{item.name} {array.dtype.str} {array.size} {shape}\n".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
