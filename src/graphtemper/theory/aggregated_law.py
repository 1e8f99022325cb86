"""The exact law of the aggregated coordinate, tabulated on a grid that resolves it to rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from graphtemper import errors
from graphtemper.theory import domain

Floats = NDArray[np.float64]

# Tables are cut where they fall below this fraction of their largest entry.
_NEGLIGIBLE, _DEVIATIONS = 1e-16, 9.0
# Smooth probability tables are summed on every n-th entry, n about a quarter of their standard
# deviation: the error of that rule is far below rounding, and the cost stops growing with degree.
_POINTS_PER_SD = 4.0
# Grid step in units of the narrowest component that matters: the trapezoid rule errs by exp(-40).
_STEP = 0.7
# The NLL is decided by nodes near the decision boundary. Beyond this (negative log) chance of being
# there, double precision cannot represent their fraction.
_LARGEST_RATE = 600.0
# Longest tables: Poisson mean degree, and grid points on each side of zero.
_LARGEST_MEAN_DEGREE, _LARGEST_GRID = 1e6, 50_000


class Degrees(NamedTuple):
    """Distribution of the degrees."""

    histogram: Floats
    smooth: bool
    """True for a Poisson, whose table may be summed with a stride."""


class AggregatedLaw(NamedTuple):
    """Law of the aggregated coordinate given class +1, on a grid symmetric about zero."""

    values: Floats
    weights: Floats
    """Probability of each grid cell; with ``isolated`` they sum to one."""
    isolated: float
    """Probability of a node without neighbours, whose coordinate is exactly zero."""
    accuracy: float
    """Probability that the sign is correct, isolated nodes counting one half."""


def read_degrees(name: str, degree: ArrayLike) -> Degrees:
    """Return the probabilities of degree 0, 1, 2, ... from a Poisson mean or a histogram."""
    values = domain.finite(name, degree)
    if values.ndim == 0:
        mean = float(domain.positive(name, values))
        if mean > _LARGEST_MEAN_DEGREE:
            raise errors.range(
                f"{name} must be a mean of at most {_LARGEST_MEAN_DEGREE:g} for an exact table; "
                f"got {mean:g}; use theory.slope, the closed form for large degrees."
            )
        count = np.arange(np.ceil(mean + 10.0 * np.sqrt(mean) + 20.0))
        return Degrees(np.exp(xlogy(count, mean) - mean - gammaln(count + 1.0)), smooth=True)
    if values.ndim != 1 or values.size == 0 or np.any(values < 0.0) or values.sum() <= 0.0:
        raise errors.shape(
            f"{name} must be a mean degree, or a one-dimensional histogram of non-negative "
            "probabilities of degree 0, 1, 2, ... with a positive sum."
        )
    return Degrees(values / values.sum(), smooth=False)


class Mixture(NamedTuple):
    """The same law as a sum of Gaussians, one row per degree."""

    rows: list[Row]
    isolated: float
    tilt: float
    typical_degree: float
    """Mean degree of the rows, own loops not counted."""
    finest: float
    """Inverse width of the narrowest Gaussian that matters."""
    loops: int

    @property
    def reach(self) -> float:
        """Distance from zero beyond which no Gaussian has mass."""
        return max((row.reach for row in self.rows), default=0.0)

    def density(self, points: Floats) -> Floats:
        """Density at points; isolated nodes, all at zero, are not part of it."""
        result = np.zeros(points.shape)
        for row in self.rows:
            near = np.abs(points) <= row.reach
            kernel = np.subtract.outer(points[near] * row.precision, row.centres * row.precision)
            result[near] += np.exp(-0.5 * kernel * kernel) @ row.masses * row.precision
        return np.asarray(result / np.sqrt(2.0 * np.pi))


class Row(NamedTuple):
    """The Gaussians of one degree, all of the same width."""

    centres: Floats
    masses: Floats
    """Their probabilities; over all rows, and with ``isolated``, they sum to one."""
    precision: float
    """Inverse standard deviation."""

    @property
    def reach(self) -> float:
        """Distance from zero beyond which these Gaussians have no mass."""
        return float(np.max(np.abs(self.centres))) + _DEVIATIONS / self.precision


def mixture(h: float, snr: float, degrees: Degrees, *, self_loop: bool = False) -> Mixture:
    """Return the Gaussians whose sum is the law of g given class +1.

    The optimal scale is decided by the few nodes near g = 0, however rare they are, so the rows
    cover the bulk and the region around zero; the second is located by exponential tilting,
    the change of measure under which g has mean zero.
    """
    signal, loops = np.sqrt(snr), int(self_loop)
    tilt, rate = _tilt(h, signal)
    # The node's own features, when they join the mean, are tilted with the rest.
    own = max(0.0, tilt * signal - 0.5 * tilt**2) if self_loop else np.inf
    count, mass = _degree_window(degrees, rate, own)
    isolated = 0.0
    if count[0] + loops == 0:
        isolated, count, mass = float(mass[0]), count[1:], mass[1:]
    rows = []
    for degree, share in zip(count, mass, strict=True):
        same, chance = _binomial(int(degree), h, 0.5 * (1.0 + tilt / signal), signal)
        centres = signal * (loops + 2.0 * same - degree) / (degree + loops)
        rows.append(Row(centres, chance * share, float(np.sqrt(degree + loops))))
    typical = float(np.dot(count, mass) / mass.sum()) if rows else 0.0
    finest = np.sqrt(typical + 3.0 * np.sqrt(typical) + loops)
    finest = min(rows[-1].precision, float(finest)) if rows else 0.0
    return Mixture(rows, isolated, tilt, typical, finest, loops)


def aggregated_law(
    h: float, snr: float, degrees: Degrees, *, self_loop: bool = False
) -> AggregatedLaw:
    """Tabulate the law of g given class +1 on a grid."""
    law = mixture(h, snr, degrees, self_loop=self_loop)
    if not law.rows:
        return AggregatedLaw(np.zeros(0), np.zeros(0), law.isolated, 0.5)
    # The sigmoid must be resolved as well; near the optimum its scale is 2 d tilt.
    steep = 2.0 * (law.typical_degree + law.loops) * max(abs(law.tilt), 1e-6)
    step = min(_STEP / law.finest, 1.0 / steep)
    if law.reach / step > _LARGEST_GRID:
        raise errors.range(
            "snr (or degree) is so large that no table resolves the aggregated coordinate; use a "
            "smaller one, or theory.slope_limit_high_snr."
        )
    half = np.arange(0.5, np.ceil(law.reach / step)) * step
    values = np.concatenate([-half[::-1], half])
    weights = np.zeros(values.size)
    for row in law.rows:
        # Only cells within reach of this degree's components: only rare low degrees are wide.
        edge = row.reach / step
        inner = slice(max(0, half.size - int(edge) - 1), half.size + int(edge) + 1)
        kernel = np.subtract.outer(values[inner] * row.precision, row.centres * row.precision)
        weights[inner] += np.exp(-0.5 * kernel * kernel) @ (row.masses * row.precision)
    weights *= (1.0 - law.isolated) / np.sum(weights)
    right = 0.5 * law.isolated
    for row in law.rows:
        right += float(np.dot(row.masses, ndtr(row.centres * row.precision)))
    return AggregatedLaw(values, weights, law.isolated, right)


def _tilt(h: float, signal: float) -> tuple[float, float]:
    """Tilt that centres one neighbour's contribution at zero, and its (Chernoff) rate.

    The tilt minimises log E exp(-tilt x) of one neighbour's contribution x: it solves
    tilt = signal tanh(atanh(2h - 1) - tilt signal), whose right side decreases in the tilt.
    """
    if h in (0.0, 1.0):
        tilt = signal if h == 1.0 else -signal
    else:
        lean = np.arctanh(2.0 * h - 1.0)
        tilt = brentq(
            lambda t: t - signal * np.tanh(lean - t * signal), -signal, signal, xtol=1e-13 * signal
        )
    log_mean = np.logaddexp(
        np.log(h) - tilt * signal if h > 0.0 else -np.inf,
        np.log1p(-h) + tilt * signal if h < 1.0 else -np.inf,
    )
    return float(tilt), max(0.0, float(-log_mean - 0.5 * tilt**2))


def _degree_window(degrees: Degrees, rate: float, own: float) -> tuple[Floats, Floats]:
    """Return degrees that matter and their masses: the bulk, and those near the boundary.

    ``own`` is the rate of the node's own features, infinite when they do not join the mean: then
    a node without neighbours is at zero for every scale and carries no information about it.
    """
    histogram = degrees.histogram
    count = np.arange(float(histogram.size))
    present = histogram > 0.0
    logs = np.where(present, np.log(np.where(present, histogram, 1.0)), -np.inf)
    tilted = logs - rate * count
    if np.isfinite(own):
        tilted -= own
    else:
        tilted[0] = -np.inf
    if np.any(np.isfinite(tilted)) and np.max(tilted) < -_LARGEST_RATE:
        raise errors.range(
            "degree or snr is so large that practically no prediction is wrong and no "
            "finite-degree scale can be computed; use a smaller one, or theory.slope, the closed "
            "form."
        )
    cut = np.log(_NEGLIGIBLE)
    selected = np.flatnonzero((logs > logs.max() + cut) | (tilted > tilted.max() + cut))
    if degrees.smooth:
        mean = float(np.dot(count, histogram))
        stride = max(1, int(np.sqrt(mean * np.exp(-rate)) / _POINTS_PER_SD))
        selected = np.arange(selected[0], selected[-1] + 1, stride)
    mass = histogram[selected]
    return count[selected], mass / mass.sum()


def _binomial(degree: int, h: float, tilted: float, signal: float) -> tuple[Floats, Floats]:
    """Tabulate same-class neighbour counts and probabilities, thinned when the law is wide.

    Never so thin that single Gaussians show: their distance is at most their width.
    """
    deviations = [np.sqrt(degree * p * (1.0 - p)) for p in (h, tilted)]
    windows = [
        (degree * p - _DEVIATIONS * s - 2.0, degree * p + _DEVIATIONS * s + 2.0)
        for p, s in zip((h, tilted), deviations, strict=True)
    ]
    low = max(0, int(min(a for a, _ in windows)))
    high = min(degree, int(max(b for _, b in windows)))
    stride = max(1, int(min(*deviations, 2.0 * np.sqrt(degree) / signal) / _POINTS_PER_SD))
    same = np.arange(low, high + 1, stride, dtype=np.float64)
    other = degree - same
    logs = gammaln(degree + 1.0) - gammaln(same + 1.0) - gammaln(other + 1.0)
    chance = np.exp(logs + xlogy(same, h) + xlog1py(other, -h))
    return same, chance / chance.sum()
