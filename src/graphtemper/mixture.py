"""The label-free inverse: slope and accuracy of a binary model from its unlabelled logits alone.

Under the model the decision values delta = z_1 - z_0 of unlabelled nodes are a mixture of
N(+m, s^2) and N(-m, s^2). Both parameters, hence the slope 2 m / s^2, are determined by the shape
of that mixture: two humps, or failing those a kurtosis below the Gaussian's. When the humps merge
(accuracy near chance) or when hardly any node lies between them (accuracy near one) the shape stops
saying anything about the temperature; then `NotIdentifiableError` is raised instead of a number.

What cannot be seen without labels: which hump is which class. The model is taken to beat chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr

from graphtemper import _domain as domain
from graphtemper._convex import binary_scale
from graphtemper._neighbour_likelihood import (
    Evaluation,
    NeighbourLikelihood,
    gaussian,
    maximise,
)
from graphtemper.class_mixture import ClassMixtureFit, fit_multiclass
from graphtemper.errors import InputError, NotIdentifiableError

Floats = NDArray[np.float64]

__all__ = [
    "ACCURACY_RANGE",
    "LARGEST_LOG_ERROR",
    "ClassMixtureFit",
    "MixtureFit",
    "fit_binary",
    "fit_multiclass",
]

# Where an answer is given. Below, the excess kurtosis is smaller than 0.2 and any slight misfit of
# the model imitates it; above, fewer than 1 node in 100 is wrong and the tails decide.
ACCURACY_RANGE = (0.75, 0.99)
# Standard error of log T up to which an answer is given. In simulation from the model the stated
# error equals the true one up to here; beyond, fits of too wide humps get both T and error too low.
LARGEST_LOG_ERROR = 0.10
# One-sided 1 % level of the test for humps: without them there is nothing to fit.
_SIGNIFICANT = 2.326
_FEWEST_NODES = 50
# Above this size equal values (to 1/200 of a standard deviation) of equal degree are counted once.
_LARGEST_EXACT_SIZE = 20_000


@dataclass(frozen=True)
class MixtureFit:
    """Two classes found in unlabelled decision values.

    ``variance`` is the average over nodes of the class variance (it differs with the degree when
    degrees were given). ``temperature`` minimises the NLL expected under the fitted posterior on
    the observed values; without degrees and offset it is variance / (2 mean). Errors are standard
    errors; ``log_temperature_error`` is that of log(temperature).
    """

    mean: float
    variance: float
    offset: float
    temperature: float
    accuracy: float
    mean_error: float
    variance_error: float
    accuracy_error: float
    log_temperature_error: float
    num_nodes: int
    method: Literal["likelihood", "moments"]

    @property
    def slope(self) -> float:
        """Reciprocal of the temperature."""
        return 1.0 / self.temperature

    def temperature_interval(self, deviations: float = 1.959964) -> tuple[float, float]:
        """Interval of the temperature, symmetric on the log scale (95 % by default)."""
        factor = float(np.exp(deviations * self.log_temperature_error))
        return self.temperature / factor, self.temperature * factor


def fit_binary(
    delta: ArrayLike,
    degrees: ArrayLike | None = None,
    *,
    method: Literal["likelihood", "moments"] = "likelihood",
    snr: float = 1.0,
    accuracy_range: tuple[float, float] = ACCURACY_RANGE,
    largest_log_error: float = LARGEST_LOG_ERROR,
) -> MixtureFit:
    """Slope, temperature and accuracy from unlabelled binary decision values.

    Formula: ``method="moments"`` solves m^4 = (3 mu_2^2 - mu_4) / 2, s^2 = mu_2 - m^2 with central
    moments mu; ``"likelihood"`` maximises the mixture's likelihood. With the target's degrees the
    likelihood is exact for mean aggregation: neighbours Binomial, noise variance proportional to
    1/degree. That removes the bias (about 8 % at degree 20) of calling nodes of different degree
    one Gaussian, and the differing variances are information in themselves.

    Parameters
    ----------
    delta
        Decision values z_1 - z_0, one a node; the scale is free.
    degrees
        Degree of each node, for a mean-aggregating model; isolated nodes are set aside.
    method
        "likelihood" or, without degrees, "moments" (cruder, no iteration).
    snr
        Signal-to-noise ratio of the features, used with degrees only, for the skewness of the
        classes; a factor of two moves the temperature by about 3 %.
    accuracy_range
        Fitted accuracies outside this range are refused.
    largest_log_error
        Fits whose log temperature has a larger standard error than this are refused.

    Raises
    ------
    NotIdentifiableError
        When the excess kurtosis is not significantly negative (one-sided 1 %; with degrees the
        likelihood ratio takes its place), when the standard error of log T exceeds
        ``largest_log_error``, or when the fitted accuracy is outside ``accuracy_range``.

    Notes
    -----
    Assumptions: balanced classes, better than chance, nodes close to independent. Limits: the
    standard error of log T falls as 1/sqrt(N); at accuracy 0.8 it is 0.13 for N = 1500.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> delta = rng.choice([-2.0, 2.0], 5000) + 1.6 * rng.standard_normal(5000)
    >>> fit = fit_binary(delta)
    >>> bool(abs(np.log(fit.slope / (2 * 2.0 / 1.6**2))) < 3 * fit.log_temperature_error)
    True
    """
    values = _values(delta)
    if method not in ("likelihood", "moments"):
        raise InputError(f'method must be "likelihood" or "moments"; got {method!r}.')
    if method == "moments":
        if degrees is not None:
            raise InputError(
                'degrees are used by method="likelihood" only; leave them out for "moments".'
            )
        fit = _fit_moments(values)
    elif degrees is None:
        fit = _fit_gaussian(values)
    else:
        fit = _fit_degrees(
            values,
            _degree_values(degrees, values.size),
            domain.one("snr", domain.positive("snr", snr)),
        )
    _refuse_undetermined(fit, accuracy_range, largest_log_error)
    return fit


def _fit_moments(values: Floats) -> MixtureFit:
    offset = float(values.mean())
    centred = values - offset
    second, fourth = float(np.mean(centred**2)), float(np.mean(centred**4))
    excess = fourth / second**2 - 3.0
    if excess > -_SIGNIFICANT * np.sqrt(24.0 / values.size):
        raise _no_humps(f"the excess kurtosis is {excess:.3f}", values.size)
    # share = m^2 / mu_2; the two moments give it as sqrt(-excess / 2), capped by the two-point law.
    share = min(float(np.sqrt(-0.5 * excess)), 1.0 - 1e-9)
    mean, variance = float(np.sqrt(share * second)), (1.0 - share) * second
    # Delta method through the influence of each value on (mu_2, excess).
    unit = centred / np.sqrt(second)
    by_second = second * (unit**2 - 1.0)
    by_share = -(unit**4 - (excess + 3.0) - 2.0 * (excess + 3.0) * (unit**2 - 1.0)) / (4.0 * share)
    by_mean = 0.5 * mean * (by_second / second + by_share / share)
    by_variance = variance * (by_second / second - by_share / (1.0 - share))
    covariance = np.cov(np.stack([by_mean, by_variance])) / values.size
    return _gaussian_result(values, mean, variance, offset, covariance, "moments")


def _fit_gaussian(values: Floats) -> MixtureFit:
    ones, weights = np.ones(values.size), np.ones(values.size)
    parameters, covariance = _two_gaussians(values, ones, weights)
    mean, variance, offset = abs(parameters[0]), float(np.exp(parameters[1])), parameters[2]
    to_variance = np.array([[1.0, 0.0], [0.0, variance]])
    covariance = to_variance @ covariance[:2, :2] @ to_variance
    return _gaussian_result(values, float(mean), variance, float(offset), covariance, "likelihood")


def _gaussian_result(
    values: Floats,
    mean: float,
    variance: float,
    offset: float,
    covariance: Floats,
    method: Literal["likelihood", "moments"],
) -> MixtureFit:
    """Everything that follows from mean and variance when all nodes share them."""
    posterior = expit(2.0 * mean * (values - offset) / variance)
    deviation = np.sqrt(variance)
    ratio = mean / deviation
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi)
    by_accuracy = density * ratio * np.array([1.0 / mean, -0.5 / variance])
    by_log_slope = np.array([1.0 / mean, -1.0 / variance])
    return MixtureFit(
        mean=mean,
        variance=variance,
        offset=offset,
        temperature=_temperature(values, posterior, np.ones(values.size)),
        accuracy=float(
            0.5 * ndtr((mean + offset) / deviation) + 0.5 * ndtr((mean - offset) / deviation)
        ),
        mean_error=float(np.sqrt(covariance[0, 0])),
        variance_error=float(np.sqrt(covariance[1, 1])),
        accuracy_error=float(np.sqrt(by_accuracy @ covariance @ by_accuracy)),
        log_temperature_error=float(np.sqrt(by_log_slope @ covariance @ by_log_slope)),
        num_nodes=values.size,
        method=method,
    )


def _fit_degrees(values: Floats, degrees: Floats, snr: float) -> MixtureFit:
    linked = degrees > 0
    isolated = int(values.size - linked.sum())
    kept, counts, weights = _compressed(values[linked], degrees[linked])
    if int(weights.sum()) < _FEWEST_NODES:
        raise InputError(
            f"degrees leave only {int(weights.sum())} nodes with neighbours; at least "
            f"{_FEWEST_NODES} are needed for a fit."
        )
    start, _ = _two_gaussians(kept, counts, weights)
    mean, variance = abs(start[0]), float(np.exp(start[1]))
    signal = np.sqrt((variance + mean**2) / (1.0 + 1.0 / snr))
    first = np.array(
        [np.log(signal), logit(np.clip(mean / signal, 0.02, 0.98)), start[2]], dtype=np.float64
    )
    likelihood = NeighbourLikelihood(kept, counts, snr)
    parameters, evaluation, covariance = maximise(likelihood, first, weights)

    def summary(point: Floats, found: Evaluation) -> Floats:
        """(mean, average variance, accuracy, log temperature) at one parameter value."""
        size, excess = float(np.exp(point[0])), float(expit(point[1]))
        spread = (
            size**2
            * (1.0 - excess**2 + 1.0 / snr)
            * float(np.average(1.0 / counts, weights=weights))
        )
        right = np.where(kept > 0.0, found.posterior, 1.0 - found.posterior)
        correct = float(np.dot(weights, right) + 0.5 * isolated) / values.size
        cooled = np.log(_temperature(kept, found.posterior, weights))
        return np.array([size * excess, spread, correct, cooled])

    centre = summary(parameters, evaluation)
    moves = np.diag(np.full(3, 1e-4))
    jacobian = np.stack(
        [(summary(parameters + m, likelihood(parameters + m)) - centre) / 1e-4 for m in moves],
        axis=1,
    )
    errors = np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))
    return MixtureFit(
        mean=float(centre[0]),
        variance=float(centre[1]),
        offset=float(parameters[2]),
        temperature=float(np.exp(centre[3])),
        accuracy=float(centre[2]),
        mean_error=float(errors[0]),
        variance_error=float(errors[1]),
        accuracy_error=float(errors[2]),
        log_temperature_error=float(errors[3]),
        num_nodes=values.size,
        method="likelihood",
    )


def _two_gaussians(values: Floats, degrees: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fit N(offset +- mean, variance / degree), or refuse when one Gaussian does as well."""
    centre = float(np.average(values, weights=weights))
    total = float(np.average(degrees * (values - centre) ** 2, weights=weights))
    per_degree = float(np.average(degrees, weights=weights))

    def likelihood(parameters: Floats) -> Evaluation:
        return gaussian(values, degrees, parameters)

    # One start near the merged shape and one near two separate humps; the better end counts.
    fits = [
        maximise(
            likelihood,
            np.array([np.sqrt(share * total / per_degree), np.log((1.0 - share) * total), centre]),
            weights,
        )
        for share in (0.4, 0.85)
    ]
    parameters, evaluation, covariance = max(
        fits, key=lambda fit: float(np.dot(weights, fit[1].log_likelihood))
    )
    one = likelihood(np.array([0.0, np.log(total), centre]))
    gain = float(np.dot(weights, evaluation.log_likelihood - one.log_likelihood))
    # The mean enters squared and cannot be negative, so half the chi-square: one-sided 1 %.
    if 2.0 * gain < _SIGNIFICANT**2:
        raise _no_humps(
            f"two classes raise the log likelihood by {max(gain, 0.0):.2f}", int(weights.sum())
        )
    return parameters, covariance


def _temperature(values: Floats, posterior: Floats, weights: Floats) -> float:
    """NLL-optimal temperature for soft labels on the observed values."""
    scale = binary_scale(values, posterior, weights)
    if scale <= 0.0:
        raise NotIdentifiableError(
            "The fitted offset outweighs the separation of the classes, so no positive temperature "
            "fits; label some nodes of the target."
        )
    return 1.0 / scale


def _refuse_undetermined(
    fit: MixtureFit, accuracy_range: tuple[float, float], largest_log_error: float
) -> None:
    low, high = accuracy_range
    if not 0.5 <= low < high <= 1.0:
        raise InputError(
            f"accuracy_range must be two rising numbers in [0.5, 1]; got {accuracy_range}."
        )
    if not fit.log_temperature_error <= largest_log_error:
        raise NotIdentifiableError(
            f"The logits do not determine the temperature: the standard error of its logarithm is "
            f"{fit.log_temperature_error:.2f} (at most {largest_log_error:.2f} is accepted); use "
            "more nodes, give their degrees, or label some."
        )
    if not low <= fit.accuracy <= high:
        reason = "the classes overlap too much" if fit.accuracy < low else "errors are too rare"
        raise NotIdentifiableError(
            f"The logits do not determine the temperature: at the fitted accuracy "
            f"{fit.accuracy:.3f} (answers are given in [{low:g}, {high:g}]) {reason}; label some "
            "nodes of the target."
        )


def _no_humps(evidence: str, size: int) -> NotIdentifiableError:
    return NotIdentifiableError(
        f"The {size} logits look like one Gaussian ({evidence}), as they do when accuracy is near "
        "chance; no slope can be read from them, so label some nodes of the target."
    )


def _compressed(values: Floats, degrees: Floats) -> tuple[Floats, Floats, Floats]:
    """Values, degrees and multiplicities; large inputs are rounded finely and counted."""
    if values.size <= _LARGEST_EXACT_SIZE:
        return values, degrees, np.ones(values.size)
    step = float(values.std()) / 200.0
    cells = np.stack([degrees, np.round(values / step)], axis=1)
    unique, counts = np.unique(cells, axis=0, return_counts=True)
    return unique[:, 1] * step, unique[:, 0], counts.astype(np.float64)


def _values(delta: ArrayLike) -> Floats:
    values = domain.finite("delta", delta)
    if values.ndim != 1 or values.size < _FEWEST_NODES:
        raise InputError(
            f"delta must be a one-dimensional array of at least {_FEWEST_NODES} decision values; "
            f"got shape {values.shape}."
        )
    if float(values.std()) <= 1e-12 * float(np.max(np.abs(values), initial=1e-300)):
        raise InputError("delta is constant, so it holds no information about the classes.")
    return values


def _degree_values(degrees: ArrayLike, size: int) -> Floats:
    values = domain.non_negative("degrees", degrees)
    domain.require("degrees", values, values == np.floor(values), "whole numbers")
    if values.shape != (size,):
        raise InputError(
            f"degrees must have one entry a decision value ({size}); got {values.shape}."
        )
    return values
