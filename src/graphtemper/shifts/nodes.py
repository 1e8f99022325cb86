"""Shifts of the nodes that are evaluated; the graph itself does not change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.reproducible import Seed, stream
from graphtemper.graph.graph import Nodes, select_nodes


def resample_classes(
    labels: ArrayLike, nodes: Nodes, shares: ArrayLike, seed: Seed = 0
) -> NDArray[np.int64]:
    """Return the largest random subset of ``nodes`` whose class shares are ``shares``.

    Nodes are drawn without replacement: class k keeps round(n s_k) of its nodes, with the largest
    possible n. Uses labels, so it is for the source graph only.

    Parameters
    ----------
    labels : (N,) int array
        Class of every node of the graph; unlabelled nodes (-1) are left out.
    nodes : mask, indices or None
    shares : (K,) array
        Non-negative weights, normalised here.
    seed : int or Generator

    Examples
    --------
    >>> labels = np.array([0] * 50 + [1] * 50)
    >>> subset = resample_classes(labels, None, [0.8, 0.2])
    >>> np.bincount(labels[subset]).tolist()
    [50, 12]
    """
    y = np.asarray(labels)
    rows = select_nodes(nodes, y.size)
    rows = rows[y[rows] >= 0]
    target = np.asarray(shares, dtype=np.float64)
    if target.ndim != 1 or not np.isfinite(target).all() or target.min(initial=0.0) < 0.0:
        raise errors.shape("shares must be one-dimensional, finite and non-negative.")
    if not target.sum() > 0.0:
        raise errors.empty("shares are all zero; at least one class must stay.")
    if rows.size and y[rows].max() >= target.size:
        raise errors.range(f"shares has {target.size} entries but class {y[rows].max()} occurs.")
    target = target / target.sum()
    counts = np.bincount(y[rows], minlength=target.size)
    needed = target > 0
    total = float((counts[needed] / target[needed]).min())
    keep = np.minimum(np.round(total * target).astype(np.int64), counts)
    if keep.sum() == 0:
        raise errors.no_labels(
            f"class {int(np.flatnonzero(needed & (counts == 0))[0])} has no labelled node among "
            "the nodes; set its share to zero."
        )
    shuffled = stream(seed, "resample_classes").permutation(rows)
    # Rank of each node within its class, in the shuffled order.
    order = np.argsort(y[shuffled], kind="stable")
    rank = np.empty(rows.size, dtype=np.int64)
    rank[order] = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(shuffled[rank < keep[y[shuffled]]])
