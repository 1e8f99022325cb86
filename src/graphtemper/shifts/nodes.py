"""Shifts of *which* nodes are evaluated: the graph stays, the node indices change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.random_streams import Seed, stream
from graphtemper.errors import InputError
from graphtemper.graph.graph import Nodes, select_nodes


def resample_classes(
    labels: ArrayLike, nodes: Nodes, shares: ArrayLike, seed: Seed = 0
) -> NDArray[np.int64]:
    """Return the largest random subset of ``nodes`` whose class shares are ``shares``.

    Without replacement: class k keeps round(n s_k) of its nodes, with the largest n that every
    class can serve. Uses labels, so it is for the source graph only.

    Parameters
    ----------
    labels : (N,) int array
        Class of every node of the graph; -1 = unlabelled, such nodes are left out.
    nodes : mask, indices or None
    shares : (K,) array
        Non-negative weights, normalised here.
    seed : int or Generator

    Examples
    --------
    >>> labels = np.array([0] * 50 + [1] * 50)
    >>> kept = resample_classes(labels, None, [0.8, 0.2])
    >>> np.bincount(labels[kept]).tolist()
    [50, 12]
    """
    y = np.asarray(labels)
    rows = select_nodes(nodes, y.size)
    rows = rows[y[rows] >= 0]
    wanted = np.asarray(shares, dtype=np.float64)
    if wanted.ndim != 1 or not np.isfinite(wanted).all() or wanted.min(initial=0.0) < 0.0:
        raise InputError("shares must be one-dimensional, finite and non-negative.")
    if not wanted.sum() > 0.0:
        raise InputError("shares are all zero; at least one class must stay.")
    if rows.size and y[rows].max() >= wanted.size:
        raise InputError(f"shares has {wanted.size} entries but class {y[rows].max()} occurs.")
    wanted = wanted / wanted.sum()
    counts = np.bincount(y[rows], minlength=wanted.size)
    asked = wanted > 0
    total = float((counts[asked] / wanted[asked]).min())
    keep = np.minimum(np.round(total * wanted).astype(np.int64), counts)
    if keep.sum() == 0:
        raise InputError(
            f"class {int(np.flatnonzero(asked & (counts == 0))[0])} has no labelled node among "
            "those given; set its share to zero."
        )
    shuffled = stream(seed, "resample_classes").permutation(rows)
    # Rank of each node within its class, in the shuffled order.
    order = np.argsort(y[shuffled], kind="stable")
    rank = np.empty(rows.size, dtype=np.int64)
    rank[order] = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(shuffled[rank < keep[y[shuffled]]])


def subpopulation(
    values: ArrayLike, nodes: Nodes, share: float, seed: Seed = 0, *, largest: bool = True
) -> NDArray[np.int64]:
    """Return the ``share`` of ``nodes`` with the largest (or smallest) value, ties at random.

    ``values`` is any number a node: its degree, a feature, a predicted probability, its time.

    Examples
    --------
    >>> subpopulation([5, 1, 4, 2], None, 0.5).tolist()
    [0, 2]
    >>> subpopulation([5, 1, 4, 2], None, 0.5, largest=False).tolist()
    [1, 3]
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise InputError("values must be one finite number a node.")
    if not 0.0 < share <= 1.0:
        raise InputError(f"share must be above 0 and at most 1, not {share!r}.")
    rows = select_nodes(nodes, x.size)
    key = -x[rows] if largest else x[rows]
    order = np.lexsort((stream(seed, "subpopulation").random(rows.size), key))
    return np.sort(rows[order[: max(round(share * rows.size), 1)]])
