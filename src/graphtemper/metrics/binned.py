r"""Binned calibration: sums of confidence and correctness per bin, and the metrics they give.

With :math:`n_b` nodes, mean confidence :math:`\bar c_b` and accuracy :math:`a_b` in bin b,

.. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} |\bar c_b - a_b|.

The sums of each bin add up across arrays, chunks of a stream, and machines.

Conventions. Equal-width edges are the float64 numbers b / bins, and a confidence, converted to
float64, is compared with them exactly. ``closed="right"`` (default): bins (lo, hi], with 0 in the
first bin. ``closed="left"``: bins [lo, hi), with 1 in the last bin. Both are in use; they
differ only for confidences that equal an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    as_array,
    check_choice,
    check_count,
    check_pair,
    probability_columns,
)
from graphtemper._core.reproducible import map_blocks
from graphtemper.metrics.top_label import confidence_and_correct, top_label

Closed = Literal["right", "left"]
Scheme = Literal["width", "mass"]

# Products confidence * bins closer to an integer than this are compared with the edges themselves;
# rounding cannot move the others across an edge.
EDGE_GUARD = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class BinnedStatistics:
    """Sums per bin; statistics with the same bins add up with ``+`` and ``sum``.

    Attributes
    ----------
    edges : (B + 1,) float64 array
        Increasing bin edges.
    closed : {"right", "left"}
        Which edge belongs to a bin.
    count : (B,) int64 array
        Nodes in each bin.
    confidence_sum, correct_sum : (B,) float64 arrays
        Sums of confidence and of correctness (0 or 1).
    variance_sum : (B,) float64 array
        Sum of c (1 - c): the variance of ``correct_sum`` if the confidences are calibrated.

    Examples
    --------
    >>> left = bin_probabilities([[0.2, 0.8]], [1], bins=5)
    >>> right = bin_probabilities([[0.3, 0.7]], [0], bins=5)
    >>> round((left + right).ece, 3), round(sum([left, right]).ece, 3)
    (0.25, 0.25)
    """

    edges: FloatArray
    closed: Closed
    count: NDArray[np.int64]
    confidence_sum: FloatArray
    correct_sum: FloatArray
    variance_sum: FloatArray

    def __add__(self, other: BinnedStatistics) -> BinnedStatistics:
        """Pool the nodes of both."""
        if not isinstance(other, BinnedStatistics):
            return NotImplemented
        if self.closed != other.closed or not np.array_equal(self.edges, other.edges):
            raise errors.conflict("binned statistics with different bins cannot be added up.")
        return BinnedStatistics(
            self.edges,
            self.closed,
            self.count + other.count,
            self.confidence_sum + other.confidence_sum,
            self.correct_sum + other.correct_sum,
            self.variance_sum + other.variance_sum,
        )

    def __radd__(self, other: int) -> BinnedStatistics:
        """Start from nothing, so that the built-in ``sum`` works."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def total(self) -> int:
        """Number of nodes."""
        return int(self.count.sum())

    @property
    def gap(self) -> FloatArray:
        """Mean confidence minus accuracy per bin; 0 for an empty bin."""
        return (self.confidence_sum - self.correct_sum) / np.maximum(self.count, 1)

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over nodes of the absolute gap of their bin."""
        return float(np.abs(self.confidence_sum - self.correct_sum).sum() / self._nodes())

    @property
    def mce(self) -> float:
        """Maximum calibration error: the largest absolute gap of any bin."""
        self._nodes()
        return float(np.abs(self.gap).max())

    @property
    def debiased_ece(self) -> float:
        """Root-mean-square calibration error without its sampling bias; see `debiased_ece`."""
        accuracy = self.correct_sum / np.maximum(self.count, 1)
        # A bin with one node has no variance estimate; its squared gap stays uncorrected.
        noise = accuracy * (1.0 - accuracy) / np.maximum(self.count - 1, 1)
        square = float((self.count * (self.gap**2 - noise)).sum() / self._nodes())
        return float(np.sqrt(max(square, 0.0)))

    @property
    def noise_floor(self) -> float:
        """Expected ECE of a perfectly calibrated model with these confidences."""
        return float(np.sqrt(2.0 / np.pi * self.variance_sum).sum() / self._nodes())

    def _nodes(self) -> int:
        if self.total == 0:
            raise errors.empty(
                "binned statistics hold no nodes; add some before computing a metric."
            )
        return self.total


def bin_probabilities(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = 15,
    *,
    scheme: Scheme = "width",
    closed: Closed = "right",
    edges: ArrayLike | None = None,
) -> BinnedStatistics:
    """Sum top-label confidence and correctness per bin: the kernel of every binned metric.

    Parameters
    ----------
    probabilities : (n, K) array
    labels : (n,) integer array
    bins : int
        Number of bins, at most 100,000.
    scheme : {"width", "mass"}
        Bins of equal width, or bins that hold (as nearly as ties allow) equally many nodes.
    closed : {"right", "left"}
        Bins (lo, hi] or [lo, hi).
    edges : (B + 1,) array, optional
        Explicit increasing edges from 0 to 1; they replace ``bins`` and ``scheme``. Equal-mass
        statistics of several chunks add up only when they share edges.

    Returns
    -------
    BinnedStatistics

    Examples
    --------
    >>> bin_probabilities([[0.2, 0.8], [0.6, 0.4]], [1, 1], bins=5).count
    array([0, 0, 1, 1, 0])
    """
    p, y = check_pair(probabilities, labels, "probabilities")
    bins = check_count(bins, "bins")
    check_choice(scheme, ("width", "mass"), "scheme")
    check_choice(closed, ("right", "left"), "closed")
    if edges is not None:
        grid = _check_edges(edges)
    elif scheme == "mass":
        confidence, correct = top_label(p, y)
        return sum_in_bins(confidence, correct, _equal_mass_edges(confidence, bins), closed)
    else:
        grid = equal_width_edges(bins)

    def part(rows: slice) -> BinnedStatistics:
        return sum_in_bins(
            *confidence_and_correct(probability_columns(p, rows), y[rows]), grid, closed
        )

    return reduce(add, map_blocks(part, *p.shape))


def sum_in_bins(
    confidence: FloatArray, correct: NDArray[np.bool_], edges: FloatArray, closed: Closed
) -> BinnedStatistics:
    """Return the statistics of confidences (n,) and correctness (n,) for these bins."""
    bins = len(edges) - 1
    index = bin_index(confidence, edges, closed)
    # Wrong nodes in the first half, correct ones in the second: one count serves both sums.
    cell = index + bins * correct
    wrong, right = np.bincount(cell, minlength=2 * bins).reshape(2, -1)
    total = weighted_count(index, confidence, bins)
    squares = weighted_count(index, confidence * confidence, bins)
    variance = np.maximum(total - squares, 0.0)
    return BinnedStatistics(edges, closed, wrong + right, total, right.astype(np.float64), variance)


def weighted_count(index: NDArray[np.intp], weight: FloatArray, size: int) -> FloatArray:
    """Sum the weights that share an index."""
    return np.asarray(np.bincount(index, weight, size), dtype=np.float64)


def bin_index(confidence: FloatArray, edges: FloatArray, closed: Closed) -> NDArray[np.intp]:
    """Return the bin of each value in [0, 1], (n,).

    Examples
    --------
    >>> values, edges = np.array([0.0, 0.2, 0.5, 1.0]), equal_width_edges(2)
    >>> bin_index(values, edges, "right").tolist(), bin_index(values, edges, "left").tolist()
    ([0, 0, 0, 1], [0, 0, 1, 1])
    """
    bins = len(edges) - 1
    if not np.array_equal(edges, equal_width_edges(bins)):
        return _search_index(confidence, edges, closed)
    position = confidence * bins
    index = position.astype(np.intp)  # right for both conventions, unless close to an edge
    position -= np.rint(position)
    unsure = np.abs(position) < EDGE_GUARD * bins
    if unsure.any():
        index[unsure] = _search_index(confidence[unsure], edges, closed)
    return index


def _search_index(confidence: FloatArray, edges: FloatArray, closed: Closed) -> NDArray[np.intp]:
    # Only inner edges separate bins, so 0 falls in the first bin and 1 in the last either way.
    return np.searchsorted(edges[1:-1], confidence, side="left" if closed == "right" else "right")


def equal_width_edges(bins: int) -> FloatArray:
    """Return the edges b / bins, b = 0 ... bins."""
    return np.arange(bins + 1) / bins


def _equal_mass_edges(confidence: FloatArray, bins: int) -> FloatArray:
    # Inner edges are observed confidences; equal ones would make empty bins, so they merge.
    inner = np.quantile(confidence, np.arange(1, bins) / bins, method="inverted_cdf")
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _check_edges(edges: ArrayLike) -> FloatArray:
    array = as_array(edges, "edges")
    if array.dtype.kind not in "fiu":
        raise errors.wrong_type(f"edges must hold real numbers, but their type is {array.dtype}.")
    grid = array.astype(np.float64)
    if grid.ndim != 1 or len(grid) < 2 or grid[0] != 0.0 or grid[-1] != 1.0:
        raise errors.wrong_type("edges must be a list of numbers that starts at 0 and ends at 1.")
    if not (np.diff(grid) > 0.0).all():
        raise errors.range("edges must increase strictly from 0 to 1.")
    return grid
