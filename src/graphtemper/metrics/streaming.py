"""Binned statistics of data in chunks or on several machines."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from graphtemper.errors import EmptyError
from graphtemper.metrics.binned import BinnedStatistics, Closed, bin_probabilities


def accumulate(
    chunks: Iterable[tuple[ArrayLike, ArrayLike]],
    bins: int = 15,
    *,
    closed: Closed = "right",
    edges: ArrayLike | None = None,
) -> BinnedStatistics:
    """Sum binned statistics over (probabilities, labels) chunks, holding one chunk at a time.

    The result equals `bin_probabilities` on all rows at once, up to rounding of the sums. On a
    cluster, call `bin_probabilities` on each machine and add up the results with ``+``.

    Parameters
    ----------
    chunks : iterable of ((n_i, K) array, (n_i,) integer array)
    bins, closed, edges
        As in `bin_probabilities`. Equal-mass bins need all confidences at once; pass their
        ``edges``, for example from a first chunk binned with ``scheme="mass"``.

    Returns
    -------
    BinnedStatistics

    Examples
    --------
    >>> chunks = (([[0.2, 0.8]] * 5, [label] * 5) for label in (0, 1))
    >>> round(accumulate(chunks).ece, 4)
    0.3
    """
    total: BinnedStatistics | None = None
    for probabilities, labels in chunks:
        part = bin_probabilities(probabilities, labels, bins, closed=closed, edges=edges)
        total = part if total is None else total + part
    if total is None:
        raise EmptyError("chunks is empty; pass at least one (probabilities, labels) pair.")
    return total
