r"""The response: accuracy as a function of signals, learned from the atlas.

A Gaussian process on the log-odds of accuracy. Its mean is the leading signal, which is an estimate
by itself; the residual is learned with a linear and a smooth part,

.. math:: k(x, x') = a\,x^\top x' + b\,\exp(-|M^\top(x-x')|^2 / 2\ell^2),

both zero at the source, so that a target that looks like the source gets the source's accuracy. The
linear part extrapolates, the smooth part corrects near the environments of the atlas, and the
variance grows with the distance from all of them. Hyper-parameters maximise the marginal
likelihood; how far the stated variance can be trusted is measured by leaving out whole families of
shifts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds, log_odds_variance, normal_quantile
from graphtemper._core.reproducible import one_blas_thread
from graphtemper.card.atlas import AtlasPoint
from graphtemper.signals.evidence import LEAD, LOGIT_SIGNALS, Reference

# A signal that varies less than this in the atlas, in log-odds, is constant up to rounding.
_LEAST_SIZE = 1e-4
# Share of a signal's variance in the atlas that counts as its error; see `_metric`.
_RIDGE = 0.03
# Environments nearer than this, in atlas standard deviations, are indistinguishable.
_LEAST_REACH = 0.05


@dataclass(frozen=True, eq=False)
class Kernel:
    """Variances of the linear part, the smooth part and the noise, and the smooth part's length."""

    linear: float
    smooth: float
    length: float
    noise: float

    def __call__(self, x: FloatArray, y: FloatArray, metric: FloatArray) -> FloatArray:
        """Return the prior covariance of the response between two sets of points."""
        straight = self.linear * (x @ y.T)
        x, y = x @ metric, y @ metric
        distance = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
        near = np.exp(-0.5 * distance / self.length**2)
        # Subtracting the value at the origin keeps the response at the source fixed.
        at_x = np.exp(-0.5 * (x**2).sum(axis=1) / self.length**2)[:, None]
        at_y = np.exp(-0.5 * (y**2).sum(axis=1) / self.length**2)[None, :]
        return np.asarray(straight + self.smooth * (near - at_x * at_y))


def _metric(points: FloatArray) -> FloatArray:
    r"""Return the matrix M by which the smooth part measures distances, as \|M'(x - x')\|.

    Most shifts move all signals together. Two shifts that differ in accuracy may differ in signals
    by little else than how these go together, so distances are those of Mahalanobis:
    :math:`M M^\top = (S + \rho I)^{-1}` with the mean products S of the signals in the atlas.
    """
    together = points.T @ points / len(points) + _RIDGE * np.eye(points.shape[1])
    return np.asarray(np.linalg.inv(np.linalg.cholesky(together)).T)


@dataclass(frozen=True, eq=False)
class Response:
    """A fitted response surface: plain arrays, nothing that belongs to a node.

    ``points`` are the environments' signals relative to the source's, divided by ``scale``;
    ``values`` are log-odds of their accuracy relative to the source's, with sampling variances
    ``noise``. ``prior`` are the weights of the signals in the prior mean. ``widening`` is the
    factor by which the stated standard deviation has to grow for intervals to cover left-out
    families. ``reach`` is the usual distance of an environment from the nearest one of other
    families, and the unit of `novelty`.
    """

    names: tuple[str, ...]
    points: FloatArray
    values: FloatArray
    noise: FloatArray
    origin: FloatArray
    scale: FloatArray
    prior: FloatArray
    kernel: Kernel
    widening: float = 1.0
    reach: float = 1.0

    def predict(self, signals: dict[str, float]) -> tuple[float, float]:
        """Return mean and standard deviation of the log-odds of accuracy relative to the source."""
        x = self.coordinates(signals)
        missed = self.values - self.points @ self.prior
        mean, variance = _condition(self.kernel, self.points, missed, self.noise, x[None, :])
        return float(mean[0] + x @ self.prior), float(np.sqrt(variance[0]))

    def coordinates(self, signals: dict[str, float]) -> FloatArray:
        """Return the signals' position relative to the source, in atlas standard deviations."""
        missing = [name for name in self.names if name not in signals]
        if missing:
            raise errors.missing(f"signal {missing[0]!r} is missing; measure it first.")
        raw = np.array([signals[name] for name in self.names])
        return np.asarray((raw - self.origin) / self.scale)

    def novelty(self, signals: dict[str, float]) -> float:
        """Return the distance to the nearest environment or the source, in units of ``reach``."""
        x = self.coordinates(signals)
        nearest = min(float(((self.points - x) ** 2).sum(axis=1).min()), float(x @ x))
        return float(np.sqrt(nearest)) / self.reach


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a card holds of a response: its signals, its kernel and the widening of intervals."""

    names: tuple[str, ...]
    kernel: Kernel
    widening: float

    def over(self, atlas: Sequence[AtlasPoint], reference: Reference, num_nodes: int) -> Response:
        """Return the response over an atlas that was scored on n labelled nodes."""
        points, start, scale = standardise(
            self.names, [item.signals for item in atlas], reference.signals
        )
        values, noise = _accuracies(atlas, reference, num_nodes)
        return Response(
            names=self.names,
            points=points,
            values=values,
            noise=noise,
            origin=start,
            scale=scale,
            prior=prior_weights(self.names, scale, LEAD),
            kernel=self.kernel,
            widening=self.widening,
            reach=reach(points, [item.families for item in atlas]),
        )


def _accuracies(
    atlas: Sequence[AtlasPoint], reference: Reference, num_nodes: int
) -> tuple[FloatArray, FloatArray]:
    """Return log-odds of accuracy relative to the source's, and their sampling variance.

    Two thirds of n labelled nodes are scored under each shift. Their accuracy differs from that of
    all n by chance, with variance (3/2 - 1) p (1 - p) / n; that of the n nodes from all others is
    common to all shifts, and `graphtemper.card.reading` adds it.
    """
    accuracy = np.array([item.accuracy for item in atlas])
    values = np.array([log_odds(value) for value in accuracy]) - log_odds(reference.accuracy)
    return values, log_odds_variance(accuracy, 2 * num_nodes)


def fit_atlas(
    atlas: Sequence[AtlasPoint], reference: Reference, num_nodes: int
) -> dict[str, Fitted]:
    """Fit the response for targets with a model and for targets with logits alone."""
    values, noise = _accuracies(atlas, reference, num_nodes)
    fitted = {}
    for kind, names in {"model": reference.readable, "logits": LOGIT_SIGNALS}.items():
        with one_blas_thread():
            surface = fit(
                names,
                [item.signals for item in atlas],
                values,
                noise,
                reference.signals,
                [item.families for item in atlas],
                lead=LEAD,
            )
        fitted[kind] = Fitted(names, surface.kernel, surface.widening)
    return fitted


def fit(
    names: Sequence[str],
    signals: Sequence[dict[str, float]],
    values: FloatArray,
    noise: FloatArray,
    origin: dict[str, float],
    families: Sequence[frozenset[str]],
    *,
    lead: str | None = None,
    level: float = 0.90,
) -> Response:
    """Fit a response, and widen its intervals until they cover left-out families.

    Parameters
    ----------
    names
        The signals to read.
    signals, values
        One dict and one value (log-odds of accuracy relative to the source's) per environment.
    noise
        Sampling variance of each value.
    origin
        The source's own signals.
    families
        The shift families that each environment contains.
    lead
        The signal that is an estimate by itself.
    level
        Coverage that the widened intervals have on left-out families.
    """
    points, start, scale = standardise(names, signals, origin)
    prior = prior_weights(names, scale, lead)
    missed = values - points @ prior
    kernel = _likely_kernel(points, missed, noise)
    _, residuals = _left_out(kernel, points, missed, noise, families)
    if not residuals.size:
        raise errors.too_few("a response needs at least two families of shifts, to leave one out.")
    widening = max(1.0, float(np.quantile(residuals, level)) / normal_quantile(level))
    known = points, values, noise, start, scale, prior, kernel
    return Response(tuple(names), *known, widening, reach(points, families))


def prior_weights(names: Sequence[str], scale: FloatArray, lead: str | None) -> FloatArray:
    """Return the weights of standardised signals that reproduce the leading signal.

    Examples
    --------
    >>> prior_weights(("a", "b"), np.array([2.0, 3.0]), "b").tolist()
    [0.0, 3.0]
    """
    return np.where([name == lead for name in names], scale, 0.0)


def reach(points: FloatArray, families: Sequence[frozenset[str]]) -> float:
    """Return the distance within which 90 % of environments have a neighbour of another family."""
    distance = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    for row, own in enumerate(families):
        distance[row, [bool(own & other) for other in families]] = np.inf
    np.fill_diagonal(distance, np.inf)
    nearest = distance.min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return max(float(np.quantile(nearest, 0.9)), _LEAST_REACH) if nearest.size else 1.0


def standardise(
    names: Sequence[str], signals: Sequence[dict[str, float]], origin: dict[str, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the environments' coordinates, the source's signals and the unit of each signal."""
    missing = [name for name in names for row in (origin, *signals) if name not in row]
    if missing:
        raise errors.missing(f"signal {missing[0]!r} is missing; measure it first.")
    start = np.array([origin[name] for name in names])
    raw = np.array([[row[name] for name in names] for row in signals]) - start
    size = np.sqrt((raw**2).mean(axis=0))
    scale = np.where(size > _LEAST_SIZE, size, 1.0)
    return raw / scale, start, scale


def _likely_kernel(points: FloatArray, values: FloatArray, noise: FloatArray) -> Kernel:
    """Maximise the marginal likelihood from two starts, on the scale of the data."""
    from scipy.optimize import minimize

    spread = float(values.var()) + 1e-6
    width = float(np.sqrt(points.shape[1]))
    loss = _Likelihood(points, values, noise)
    bounds = [
        (np.log(1e-4 * spread), np.log(1e2 * spread)),
        (np.log(1e-4 * spread), np.log(1e1 * spread)),
        (np.log(0.3 * width), np.log(10.0 * width)),
        (np.log(1e-4 * spread), np.log(spread)),
    ]
    best: Any = None
    for linear, smooth, length in ((1.0, 0.3, 1.0), (0.1, 1.0, 2.0)):
        first = np.log([linear * spread / width, smooth * spread, length * width, 0.02 * spread])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            optimum = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds)
        if best is None or optimum.fun < best.fun:
            best = optimum
    return Kernel(*(float(value) for value in np.exp(best.x)))


class _Likelihood:
    """Negative log marginal likelihood of the kernel's logarithms, with its gradient."""

    def __init__(self, points: FloatArray, values: FloatArray, noise: FloatArray) -> None:
        self._values, self._noise = values, noise
        self._products = points @ points.T
        turned = points @ _metric(points)
        near = turned @ turned.T
        square = np.diag(near)
        self._from_origin = square[:, None] + square[None, :]
        self._distance = self._from_origin - 2.0 * near

    def __call__(self, log_parameters: FloatArray) -> tuple[float, FloatArray]:
        linear, smooth, length, noise = np.exp(log_parameters)
        near = np.exp(-0.5 * self._distance / length**2)
        origin = np.exp(-0.5 * self._from_origin / length**2)
        matrix = linear * self._products + smooth * (near - origin)
        matrix[np.diag_indices_from(matrix)] += self._noise + noise
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(4)
        half = _solve_lower(factor, np.eye(len(matrix)))
        inverse = half.T @ half
        weights = inverse @ self._values
        slope = 0.5 * (inverse - np.outer(weights, weights))
        stretch = (near * self._distance - origin * self._from_origin) / length**2
        gradient = [
            linear * float((slope * self._products).sum()),
            smooth * float((slope * (near - origin)).sum()),
            smooth * float((slope * stretch).sum()),
            noise * float(np.trace(slope)),
        ]
        value = 0.5 * float(self._values @ weights) + float(np.log(np.diag(factor)).sum())
        return value, np.array(gradient)


def _condition(
    kernel: Kernel, points: FloatArray, values: FloatArray, noise: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and variance at x, with the sampling noise of the values."""
    metric = _metric(points)
    matrix = kernel(points, points, metric) + np.diag(noise + kernel.noise)
    factor = np.linalg.cholesky(matrix + 1e-9 * np.trace(matrix) * np.eye(len(points)))
    half = _solve_lower(factor, kernel(points, x, metric))
    mean = half.T @ _solve_lower(factor, values)
    prior = np.array([kernel(row[None, :], row[None, :], metric)[0, 0] for row in x])
    return mean, np.maximum(prior - (half**2).sum(axis=0), 0.0) + kernel.noise


def _solve_lower(factor: NDArray[np.floating[Any]], right: FloatArray) -> FloatArray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, right, lower=True, check_finite=False))


def _left_out(
    kernel: Kernel,
    points: FloatArray,
    values: FloatArray,
    noise: FloatArray,
    families: Sequence[frozenset[str]],
) -> tuple[NDArray[np.int64], FloatArray]:
    """Predict every environment once per family it contains, from those without that family.

    Returns the environments and the absolute residuals, in stated standard deviations.
    """
    rows, residuals = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for name in sorted(frozenset().union(*families)):
        out = np.array([name in family for family in families])
        if out.all() or not out.any():
            continue
        mean, variance = _condition(kernel, points[~out], values[~out], noise[~out], points[out])
        rows.append(np.flatnonzero(out))
        # The left-out accuracy has a sampling error of its own.
        residuals.append(np.abs(values[out] - mean) / np.sqrt(variance + noise[out]))
    return np.concatenate(rows), np.concatenate(residuals)
