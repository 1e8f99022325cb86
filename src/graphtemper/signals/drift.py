r"""Drift: how far class shares may have moved unnoticed, judging by the means of the features.

Signals cannot show everything. Accuracy is :math:`\sum_k \pi_k r_k` with the class shares
:math:`\pi` and the recalls r. A model that always predicts the majority class is right as often as
that class occurs, and its logits do not show when the class becomes rarer. Feature means do: if the
shares change by :math:`\delta`, the column means change by :math:`\sum_k \delta_k \mu_k`. If the
column means have not changed, neither have the shares; if they have changed by as much as the
classes differ, any shares are possible. `DriftBaseline` expresses this as a standard deviation of
the shares,

.. math:: s = \min\Bigl(s_{max},\; \frac{|\Delta\mu|}{\sqrt{K/(K-1) \sum_k |\mu_k-\bar\mu|^2}}
              \Bigr),

with distances as root mean squares over columns in source standard deviations, minus the expected
sampling error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper._core.checks import FloatArray
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments, multiply

SKETCH_SIZE = 128
"""Most random combinations of column means that a card holds in place of the columns."""
# An unknown share, uniform between 0 and 1, has a standard deviation of 0.29.
LARGEST_DRIFT = 0.25
_LEAST_SEPARATION = 1e-3
# Share of nodes without a label up to which the accuracy of the others is that of all.
_MOST_UNLABELLED = 0.2
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class DriftBaseline:
    """What the drift of class shares is measured against: the source's column means and classes.

    Attributes
    ----------
    sketch
        Random combinations of the column means, see `column_sketch`.
    num_nodes
        Number of source nodes with the sampling error of the sketch.
    separation
        Distance of the class means, see `class_separation`.
    recalls
        Accuracy within each class, (K,).
    apart
        How far nodes without a label move the sketch, if they are as many among the target's nodes
        as at the source, or a fifth of them if they are more. None in older cards.
    """

    sketch: FloatArray
    num_nodes: int
    separation: float
    recalls: FloatArray
    apart: FloatArray | None = None

    @classmethod
    def measure(
        cls,
        graph: Graph,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64],
        predictions: NDArray[np.intp],
        num_classes: int,
        column_std: FloatArray,
    ) -> DriftBaseline:
        """Measure labelled nodes of the source graph."""
        counts = np.bincount(labels, minlength=num_classes)
        right = np.bincount(labels[predictions == labels], minlength=num_classes)
        overall = float((predictions == labels).mean())
        own = column_sketch(column_moments(graph.features[nodes])[0], column_std)
        return cls(
            sketch=own,
            num_nodes=int(nodes.size),
            separation=class_separation(graph.features[nodes], labels, num_classes, column_std),
            recalls=np.where(counts > 0, right / np.maximum(counts, 1), overall),
            apart=_apart(graph, own, int(nodes.size), column_std),
        )

    def drift(
        self, mean: FloatArray, spread: FloatArray, num_nodes: int, column_std: FloatArray
    ) -> float:
        """Return the standard deviation of class shares that the target's column means allow.

        ``mean`` and ``spread`` are the mean and the standard deviation of the target's columns over
        its observed nodes. Nodes without a label are a part of the source as well: the target is
        compared with the nearest mixture of these and of the card's nodes.
        """
        used = column_std > 0.0
        if not used.any():
            return 0.0
        change = column_sketch(mean, column_std, self.sketch.size) - self.sketch
        if self.apart is not None and self.apart.any():
            share = float(change @ self.apart) / float(self.apart @ self.apart)
            change = change - np.clip(share, 0.0, 1.0) * self.apart
        # A few nodes have a smaller spread than their population.
        ratio = float(np.maximum(spread[used] ** 2 / column_std[used] ** 2, 1.0).mean())
        chance = 1.0 / self.num_nodes + ratio / num_nodes
        # A mean of m squared normals has standard deviation sqrt(2 / m); allow three of those.
        chance *= 1.0 + 3.0 * float(np.sqrt(2.0 / min(int(used.sum()), self.sketch.size)))
        excess = max(float((change**2).mean()) - chance, 0.0)
        # If the classes differ by less than chance, they explain no more than chance does.
        return min(float(np.sqrt(excess / (self.separation**2 + chance))), LARGEST_DRIFT)


def _apart(
    graph: Graph, own: FloatArray, num_nodes: int, column_std: FloatArray
) -> FloatArray | None:
    """Return how far nodes without a label move the sketch ``own`` of labelled ones."""
    if graph.labels is None or graph.num_nodes == 0:
        return np.zeros_like(own)
    rows = graph.classified
    rows = rows[graph.labels[rows] < 0]
    if not rows.size:
        return np.zeros_like(own)
    share = min(rows.size / (rows.size + num_nodes), _MOST_UNLABELLED)
    theirs = column_sketch(column_moments(graph.features[rows])[0], column_std)
    return np.asarray(share * (theirs - own))


def column_sketch(mean: FloatArray, column_std: FloatArray, size: int = SKETCH_SIZE) -> FloatArray:
    """Return random signed sums of the standardised column means, over the root of their number.

    The mean square of the difference of two sketches estimates that of the column means, so the
    size of a card does not depend on the number of columns. Columns that are constant at the source
    are ignored.

    Examples
    --------
    >>> mean = np.random.default_rng(0).standard_normal(400)
    >>> change = column_sketch(mean + 0.3, np.ones(400)) - column_sketch(mean, np.ones(400))
    >>> bool(abs(np.sqrt((change**2).mean()) - 0.3) < 0.1)
    True
    """
    used = column_std > 0.0
    scaled = np.where(used, mean, 0.0) / np.where(used, column_std, 1.0)
    total = np.zeros(SKETCH_SIZE)
    for block, start in enumerate(range(0, mean.size, _BLOCK)):
        part = scaled[start : start + _BLOCK]
        signs = np.random.default_rng([2024, block]).choice([-1.0, 1.0], (SKETCH_SIZE, part.size))
        total += signs @ part
    return np.asarray(total[:size] / np.sqrt(max(int(used.sum()), 1)))


def class_separation(
    features: Features, labels: NDArray[np.int64], num_classes: int, column_std: FloatArray
) -> float:
    """Return the distance of class means in standard deviations, minus the sampling error.

    For two classes this is the root mean square over columns of the difference of their means.

    Examples
    --------
    >>> y = np.arange(10_000) % 2
    >>> x = 0.5 * y[:, None] + np.random.default_rng(0).standard_normal((10_000, 5))
    >>> bool(abs(class_separation(x, y, 2, np.ones(5)) - 0.5) < 0.03)
    True
    """
    used = column_std > 0.0
    counts = np.bincount(labels, minlength=num_classes).astype(np.float64)
    present = counts > 0
    if used.sum() == 0 or present.sum() < 2:
        return _LEAST_SEPARATION
    rows = np.arange(labels.size)
    members = sp.csr_matrix((np.ones(labels.size), (labels, rows)), (num_classes, labels.size))
    sums = multiply(members, features)
    dense = sums.toarray() if sp.issparse(sums) else np.asarray(sums)
    means = dense[present][:, used] / counts[present][:, None] / column_std[used]
    offsets = ((means - means.mean(axis=0)) ** 2).mean(axis=1)
    total = float(np.maximum(offsets - 1.0 / counts[present], 0.0).sum())
    size = int(present.sum())
    return max(float(np.sqrt(size / (size - 1) * total)), _LEAST_SEPARATION)
