"""Whether a label-free fit is precise enough, by its expected and not by its fitted error.

The standard error of a fit falls as its modes separate, so a fit that is too separated by chance
(its temperature too low) also has a small fitted error, and a limit on that error would select such
fits. The standard error that the model expects at a separation depends only on the number of nodes
and their degrees. The limit becomes a separation that does not depend on the draw, and a fit must
exceed it by a margin that chance seldom bridges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper_research.theory_extensions.label_free.neighbour_likelihood import Evaluation

Floats = NDArray[np.float64]

# Number of standard errors by which a fit must exceed the separation at the limit.
MARGIN = 3.0
_BISECTIONS = 8
# Largest number of grid points per degree, and of degrees, in an expectation.
_LARGEST_GRID, _LARGEST_DEGREES = 400, 16
_DEVIATIONS, _POINTS_PER_SD = 6.5, 2.5


class Nodes(NamedTuple):
    """Decision values, degrees and multiplicities: observed, or a grid weighted by the model."""

    values: Floats
    degrees: Floats
    weights: Floats


class Expected(NamedTuple):
    """Standard errors that the model expects at one separation."""

    log_temperature: float
    separation: float


def sharp_enough(
    expected: Callable[[float], Expected], separation: float, largest_log_error: float
) -> bool:
    """Return whether a fit's separation exceeds the limit on the expected error by `MARGIN`.

    With s* the separation at which the expected error equals the limit, the condition is
    separation >= s* + MARGIN x (standard error of the separation at s*): a graph that really is at
    the limit passes in about 1 draw of 1000 (were the estimate Gaussian), one beyond it less
    often. An infinite limit always passes.

    Examples
    --------
    >>> def expected(separation):
    ...     return Expected(0.1 / separation, 0.05)
    >>> sharp_enough(expected, 1.1, 0.1), sharp_enough(expected, 1.2, 0.1)
    (False, True)
    """
    if np.isinf(largest_log_error):
        return True
    if not expected(separation).log_temperature <= largest_log_error:
        return False
    low, high = 0.0, separation
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if expected(middle).log_temperature <= largest_log_error:
            high = middle
        else:
            low = middle
    return separation >= high + MARGIN * expected(high).separation


def grid_nodes(
    likelihood: Callable[[Floats, Floats], Evaluation],
    degrees: Floats,
    counts: Floats,
    reach: Floats,
    narrowest: Floats,
) -> Nodes:
    """Grid over +-reach for every degree, weighted by the model's density times the node count.

    ``narrowest`` is the standard deviation of the narrowest component, which the step resolves;
    ``likelihood`` evaluates the model at values and degrees.
    """
    sizes = np.clip(2.0 * reach / narrowest * _POINTS_PER_SD, 16.0, _LARGEST_GRID).astype(np.int64)
    values = np.concatenate(
        [np.linspace(-half, half, size) for half, size in zip(reach, sizes, strict=True)]
    )
    groups = np.repeat(np.arange(sizes.size), sizes)
    density = np.exp(likelihood(values, degrees[groups]).log_likelihood)
    total = np.bincount(groups, density)
    return Nodes(values, degrees[groups], density * (counts / total)[groups])


def reach_of(mean: float, deviation: Floats | float) -> Floats:
    """Return the half-width of a grid that covers both modes."""
    return np.atleast_1d(np.asarray(abs(mean) + _DEVIATIONS * deviation, dtype=np.float64))


def degree_sample(degrees: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return distinct degrees and node counts; many degrees are merged into equal portions."""
    distinct, inverse = np.unique(degrees, return_inverse=True)
    counts = np.bincount(inverse, weights).astype(np.float64)
    if distinct.size <= _LARGEST_DEGREES:
        return distinct, counts
    middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    portion = np.minimum((middle * _LARGEST_DEGREES).astype(np.int64), _LARGEST_DEGREES - 1)
    used, index = np.unique(portion, return_inverse=True)
    mass = np.bincount(index, counts, minlength=used.size).astype(np.float64)
    mean = np.bincount(index, counts * distinct, minlength=used.size) / mass
    return np.maximum(np.round(mean).astype(np.float64), 1.0), mass
