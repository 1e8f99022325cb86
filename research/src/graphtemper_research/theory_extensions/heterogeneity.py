"""Nodes that differ: temperatures by degree, mixed homophily, and what per-node ones gain.

``cor:global`` says that one temperature suffices. It assumes one slope for all nodes. In the block
model itself degrees differ, and a node of degree d averages d neighbours: its slope is proportional
to d. Where homophily differs from node to node, so does the slope. Everything here is exact: sums
over degrees, Binomial neighbour counts and a trapezoid rule over the Gaussian noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, roots_jacobi, xlog1py, xlogy

from graphtemper._core.numerics import binary_scale
from graphtemper.errors import RangeError, ShapeError
from graphtemper.theory import domain
from graphtemper.theory.aggregated_law import Degrees, read_degrees
from graphtemper.theory.finite_degree import optimal_scale

Floats = NDArray[np.float64]

__all__ = [
    "Gain",
    "beta_homophily",
    "degree_gain",
    "degree_temperature",
    "mixed_homophily_gain",
    "mixed_homophily_temperature",
]

# The loss of a scale a is analytic up to pi/a from the real line: this step times 1/a errs by
# exp(-30); a standard normal on a step of 0.7 by exp(-40).
_LOGIT_STEP, _NORMAL_STEP, _DEVIATIONS = 0.65, 0.7, 9.0
_LARGEST_DEGREE = 400
# Degrees and neighbour counts below this probability do not move the loss by its rounding.
_NEGLIGIBLE = 1e-17


class Gain(NamedTuple):
    """Expected loss (nats per node) with one temperature and with one per node."""

    single: float
    per_node: float

    @property
    def share(self) -> float:
        """Share of the loss that per-node temperatures remove."""
        return 1.0 - self.per_node / self.single


class _Table(NamedTuple):
    """Points and weights that integrate a function of the aggregated coordinate given class +1."""

    values: Floats
    weights: Floats


def degree_temperature(
    node_degree: ArrayLike,
    h_target: float,
    h_source: float,
    snr: float,
    degree: ArrayLike,
    *,
    self_loop: bool = False,
) -> float | Floats:
    """NLL-optimal temperature of target nodes with a given degree (against ``cor:global``).

    Formula: optimal_scale(h_source, degree) / optimal_scale(h_target, node_degree), where the first
    is the one scale that was fitted at the source over all its degrees, and the second belongs to
    nodes with exactly ``node_degree`` neighbours. ``degree`` describes the source: a Poisson mean
    or a histogram.

    Derivation: given its degree a node's loss depends on a / T_d alone, so the best T_d puts its
    scale at the optimum of that degree. Assumptions: those of ``finite_degree.optimal_scale``.
    Limits: T_d d tends to a constant, because the optimal scale grows like d (2 d (2h-1) sqrt(snr)
    / (1 + 4 h (1-h) snr) near h = 1/2): T is inversely proportional to the degree. Without
    neighbours the logit is zero and no temperature matters, so degree 0 raises `InputError` unless
    ``self_loop``; so does a target beyond the zero crossing.

    Examples
    --------
    >>> degree_temperature([5, 10, 20, 40], 0.8, 0.8, snr=1.0, degree=20.0).round(3).tolist()
    [3.541, 1.783, 0.896, 0.449]
    """
    wanted = domain.non_negative("node_degree", node_degree)
    least = 0.0 if self_loop else 1.0
    domain.require(
        "node_degree",
        wanted,
        (wanted == np.floor(wanted)) & (wanted >= least),
        f"an integer of at least {least:g}",
    )
    target = domain.one("h_target", domain.homophily("h_target", h_target))
    reference = float(optimal_scale(h_source, snr, degree, self_loop=self_loop))
    distinct, place = np.unique(wanted.ravel(), return_inverse=True)
    scales = np.array(
        [optimal_scale(target, snr, _only(int(d)), self_loop=self_loop) for d in distinct]
    )
    domain.require(
        "h_target",
        np.full(scales.shape, target),
        scales * reference > 0.0,
        "on the source's side of the zero crossing, where a positive temperature exists",
    )
    return domain.plain((reference / scales)[place].reshape(wanted.shape))


def degree_gain(h: float, snr: float, degree: ArrayLike) -> Gain:
    """Loss with one temperature for all nodes, and with one per degree.

    Formula: min_a E log(1 + exp(-a g)) against E_d min_a E[log(1 + exp(-a g)) given d]. The source
    does not matter, because every source scale is undone by the temperature. Nodes without
    neighbours cost log 2 in both.

    Assumptions: those of ``finite_degree.optimal_scale``, mean aggregation, degrees up to 400.
    Limits: equal where all degrees are, which is where ``cor:global`` holds; 1 to 7 % of the loss
    with Poisson degrees of mean 10 to 25.

    Examples
    --------
    >>> round(degree_gain(0.8, 1.0, 10.0).share, 4)
    0.0678
    """
    ratio, degrees = domain.one("snr", domain.positive("snr", snr)), _present("degree", degree)
    homophily = domain.one("h", domain.homophily("h", h))
    count = np.flatnonzero(degrees.histogram > _NEGLIGIBLE)
    own = [float(optimal_scale(homophily, ratio, _only(int(d)))) if d else 0.0 for d in count]
    largest = float(np.max(np.abs(own)))
    tables = [_one_degree(homophily, ratio, int(d), largest) for d in count]
    return _gain(tables, degrees.histogram[count], own)


def mixed_homophily_temperature(
    h_target: ArrayLike,
    h_source: float,
    snr: float,
    degree: ArrayLike,
    *,
    weights: ArrayLike | None = None,
) -> float:
    """NLL-optimal single temperature where every target node has a homophily of its own.

    Formula: optimal_scale(source) / argmin_a E_h E[log(1 + exp(-a g)) given h]. ``h_target`` are
    the values that homophily takes and ``weights`` their probabilities (default: equal);
    `beta_homophily` gives both for a Beta law.

    Assumptions: those of ``finite_degree.optimal_scale`` for every h; degrees, up to 400, are
    independent of homophily. Limits: `finite_degree_temperature` for one value. The mixture is not
    its mean: nodes of low homophily are wrong with confidence, and a spread of h raises the
    temperature above that of the mean. A mixture without signal raises `InputError`.

    Examples
    --------
    >>> round(mixed_homophily_temperature([0.7], 0.8, 1.0, 10.0), 3)
    1.562
    >>> round(mixed_homophily_temperature([0.5, 0.9], 0.8, 1.0, 10.0), 3)
    2.762
    """
    reference = float(optimal_scale(h_source, snr, degree))
    _, tables, shares = _mixture(h_target, weights, snr, degree)
    scale = _best(_joined(tables, shares))
    if scale * reference <= 0.0:
        raise RangeError(
            "h_target must have more weight on the source's side of 1/2: on this mixture no "
            "positive temperature is better than an infinite one."
        )
    return float(reference / scale)


def mixed_homophily_gain(
    h_target: ArrayLike, snr: float, degree: ArrayLike, *, weights: ArrayLike | None = None
) -> Gain:
    """Loss under mixed homophily with one temperature, and with the best one for each homophily.

    Formula: min_{a >= 0} E_h L(a, h) against E_h min_{a >= 0} L(a, h), L(a, h) = E[log(1 +
    exp(-a g)) given h]; a >= 0 because a temperature is positive (for a source above 1/2). A node
    whose h is below 1/2 is best left at an infinite temperature, loss log 2.

    Assumptions: those of `mixed_homophily_temperature`. Limits: zero for one value; for a small
    variance v of h about h0 the gain tends to v a'(h0)^2 L''(a(h0)) / 2. No method without labels
    knows h_i exactly, so this bounds what it can gain from local homophily alone.

    Examples
    --------
    >>> round(mixed_homophily_gain([0.5, 0.9], 1.0, 10.0).share, 3)
    0.251
    """
    own, tables, shares = _mixture(h_target, weights, snr, degree)
    return _gain(tables, shares, [max(scale, 0.0) for scale in own])


def beta_homophily(mean: float, concentration: float, points: int = 24) -> tuple[Floats, Floats]:
    """Values and probabilities that integrate over a Beta law of homophily (Gauss-Jacobi).

    Formula: h ~ Beta(mean c, (1 - mean) c), variance mean (1 - mean) / (1 + c). Assumptions: mean
    strictly between 0 and 1. Limits: exact for polynomials of degree 2 points - 1; one value as the
    concentration grows.

    Examples
    --------
    >>> h, weights = beta_homophily(0.7, 9.0)
    >>> round(float(weights @ h), 6), round(float(weights @ (h - 0.7) ** 2), 6)
    (0.7, 0.021)
    """
    centre = domain.one("mean", domain.homophily("mean", mean))
    domain.require("mean", np.asarray(centre), np.asarray(0.0 < centre < 1.0), "inside (0, 1)")
    size = domain.one("concentration", domain.positive("concentration", concentration))
    nodes, weights = roots_jacobi(points, (1.0 - centre) * size - 1.0, centre * size - 1.0)
    return np.asarray(0.5 * (1.0 + nodes)), np.asarray(weights / weights.sum())


def _mixture(
    h: ArrayLike, weights: ArrayLike | None, snr: float, degree: ArrayLike
) -> tuple[list[float], list[_Table], Floats]:
    """Optimal scales of the values of homophily, their tables and their probabilities."""
    values = np.atleast_1d(domain.homophily("h_target", h))
    shares = domain.non_negative("weights", np.ones(values.shape) if weights is None else weights)
    if values.ndim != 1 or shares.shape != values.shape or shares.sum() <= 0.0:
        raise ShapeError(
            "h_target and weights must be one-dimensional, equally long and not all zero; "
            f"got {values.shape} and {shares.shape}."
        )
    ratio, degrees = domain.one("snr", domain.positive("snr", snr)), _present("degree", degree)
    own = [float(optimal_scale(value, ratio, degree)) for value in values]
    largest = max(float(np.max(np.abs(own))), 1.0)
    count = np.flatnonzero(degrees.histogram > _NEGLIGIBLE)
    tables = [
        _joined(
            [_one_degree(float(value), ratio, int(d), largest) for d in count],
            degrees.histogram[count],
        )
        for value in values
    ]
    return own, tables, shares / shares.sum()


def _present(name: str, degree: ArrayLike) -> Degrees:
    degrees = read_degrees(name, degree)
    largest = int(np.flatnonzero(degrees.histogram > _NEGLIGIBLE)[-1])
    if largest > _LARGEST_DEGREE:
        raise RangeError(
            f"{name} must not reach beyond {_LARGEST_DEGREE} neighbours for an exact loss; got "
            f"{largest}; use a smaller mean or histogram."
        )
    if largest == 0:
        raise RangeError(
            f"{name} describes only isolated nodes, which carry no signal; "
            "give a histogram with some degrees above 0."
        )
    return degrees


def _only(degree: int) -> Floats:
    histogram = np.zeros(degree + 1)
    histogram[degree] = 1.0
    return histogram


def _one_degree(h: float, snr: float, degree: int, largest_scale: float) -> _Table:
    """Tabulate the coordinate of nodes with one degree, finely enough for a scale of the loss."""
    if degree == 0:
        return _Table(np.zeros(1), np.ones(1))
    same = np.arange(degree + 1.0)
    logs = gammaln(degree + 1.0) - gammaln(same + 1.0) - gammaln(degree - same + 1.0)
    chance = np.exp(logs + xlogy(same, h) + xlog1py(degree - same, -h))
    same, chance = same[chance > 0.0], chance[chance > 0.0]
    step = min(_NORMAL_STEP, _LOGIT_STEP * np.sqrt(degree) / largest_scale)
    half = int(np.ceil(_DEVIATIONS / step))
    noise = step * np.arange(-half, half + 1)
    density = np.exp(-0.5 * noise**2)
    centre = np.sqrt(snr) * (2.0 * same - degree) / degree
    values = np.add.outer(centre, noise / np.sqrt(degree))
    weights = np.multiply.outer(chance / chance.sum(), density / density.sum())
    return _Table(values.ravel(), weights.ravel())


def _joined(tables: list[_Table], shares: Floats) -> _Table:
    values = np.concatenate([table.values for table in tables])
    parts = zip(tables, shares, strict=True)
    return _Table(values, np.concatenate([table.weights * share for table, share in parts]))


def _best(table: _Table) -> float:
    return float(binary_scale(table.values, 1.0, table.weights))


def _gain(tables: list[_Table], shares: Floats, own: list[float]) -> Gain:
    """Compare the best single scale of all groups with the scale of each."""
    single = _best(_joined(tables, shares))
    if min(own) >= 0.0:  # a temperature is positive
        single = max(single, 0.0)
    single_losses = [_loss(table, single) for table in tables]
    own_losses = [_loss(table, scale) for table, scale in zip(tables, own, strict=True)]
    return Gain(float(np.dot(shares, single_losses)), float(np.dot(shares, own_losses)))


def _loss(table: _Table, scale: float) -> float:
    return float(np.dot(table.weights, np.logaddexp(0.0, -scale * table.values)))
