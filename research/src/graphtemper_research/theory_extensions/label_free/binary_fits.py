"""The three fits behind `mixture.fit_binary`, on values in units of their own spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from graphtemper._core.numerics import binary_scale
from graphtemper.errors import NotIdentifiableError
from graphtemper_research.theory_extensions.label_free.expected_error import (
    Expected,
    Nodes,
    degree_sample,
    grid_nodes,
    reach_of,
)
from graphtemper_research.theory_extensions.label_free.neighbour_likelihood import (
    Evaluation,
    Maximum,
    NeighbourLikelihood,
    gaussian,
    information,
    maximise,
)

Floats = NDArray[np.float64]

# One-sided 1 % level of the test for two modes: one Gaussian leaves nothing to fit.
SIGNIFICANT = 2.326


@dataclass(frozen=True)
class ScaledFit:
    """A fit in units of the values' spread.

    ``summary``, ``errors`` and ``sensitivity`` run over (mean, variance, accuracy, log
    temperature).
    """

    summary: Floats
    errors: Floats
    """Standard errors from sampling the nodes."""
    sensitivity: Floats
    """Largest change when the snr is off by its factor; zero without degrees."""
    offset: float
    separation: float
    """Distance of the classes in a coordinate that depends on the method."""
    expected: Callable[[float], Expected]


def fit_moments(values: Floats) -> ScaledFit:
    """Solve the second and fourth central moments for mean and variance."""
    offset = float(values.mean())
    centred = values - offset
    second, fourth = float(np.mean(centred**2)), float(np.mean(centred**4))
    excess = fourth / second**2 - 3.0
    if excess > -SIGNIFICANT * np.sqrt(24.0 / values.size):
        raise _no_modes(f"the excess kurtosis is {excess:.3f}", values.size)
    # share = m^2 / mu_2; the two moments give it as sqrt(-excess / 2), capped by the two-point law.
    share = min(float(np.sqrt(-0.5 * excess)), 1.0 - 1e-9)
    mean, variance = float(np.sqrt(share * second)), (1.0 - share) * second
    covariance = _moments_covariance(centred, np.ones(values.size), mean, variance)

    def expected(separation: float) -> Expected:
        nodes = _gaussian_nodes(separation, 0.0, values.size)
        return _gaussian_expected(
            separation, _moments_covariance(nodes.values, nodes.weights, separation, 1.0)
        )

    return _gaussian_fit(values, mean, variance, offset, covariance, expected)


def _moments_covariance(centred: Floats, weights: Floats, mean: float, variance: float) -> Floats:
    """Delta method through the influence of each value on (mu_2, excess kurtosis)."""
    size, second = float(weights.sum()), mean**2 + variance
    share = mean**2 / second
    unit = centred / np.sqrt(second)
    kurtosis = 3.0 - 2.0 * share**2
    by_second = unit**2 - 1.0
    by_share = -(unit**4 - kurtosis - 2.0 * kurtosis * by_second) / (4.0 * share)
    influence = np.stack(
        [
            0.5 * mean * (by_second + by_share / share),
            variance * (by_second - by_share / (1.0 - share)),
        ]
    )
    influence = influence - np.average(influence, axis=1, weights=weights)[:, None]
    return np.asarray((influence * weights) @ influence.T / size**2, dtype=np.float64)


def fit_gaussian(values: Floats) -> ScaledFit:
    """Maximise the likelihood of N(offset +- mean, variance)."""
    maximum = two_gaussians(Nodes(values, np.ones(values.size), np.ones(values.size)))
    mean, variance = abs(float(maximum.point[0])), float(np.exp(maximum.point[1]))
    offset = float(maximum.point[2])
    shift = offset / float(np.sqrt(mean**2 + variance))

    def expected(separation: float) -> Expected:
        centre = shift * np.sqrt(1.0 + separation**2)
        nodes = _gaussian_nodes(separation, centre, values.size)
        point = np.array([separation, 0.0, centre])
        matrix = information(gaussian(nodes.values, nodes.degrees, point), nodes.weights)
        inverse = np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)
        return _gaussian_expected(separation, inverse[:2, :2])

    to_variance = np.diag([1.0, variance])
    covariance = to_variance @ maximum.covariance[:2, :2] @ to_variance
    return _gaussian_fit(values, mean, variance, offset, covariance, expected)


def _gaussian_nodes(separation: float, offset: float, size: int) -> Nodes:
    """Weigh a grid by N(offset +- separation, 1)."""
    one = np.ones(1)
    nodes = grid_nodes(
        lambda values, degrees: gaussian(values, degrees, np.array([separation, 0.0, 0.0])),
        one,
        one * size,
        reach_of(separation, 1.0),
        one,
    )
    return nodes._replace(values=nodes.values + offset)


def _gaussian_expected(separation: float, covariance: Floats) -> Expected:
    """Errors of log T = log(variance / 2 mean) and mean / sqrt(variance), at variance 1."""
    by_log = np.array([-1.0 / separation, 1.0])
    by_separation = np.array([1.0, -0.5 * separation])
    return Expected(
        float(np.sqrt(by_log @ covariance @ by_log)),
        float(np.sqrt(by_separation @ covariance @ by_separation)),
    )


def _gaussian_fit(
    values: Floats,
    mean: float,
    variance: float,
    offset: float,
    covariance: Floats,
    expected: Callable[[float], Expected],
) -> ScaledFit:
    """Everything that follows from mean and variance when all nodes share them."""
    posterior = expit(2.0 * mean * (values - offset) / variance)
    deviation = float(np.sqrt(variance))
    ratio = mean / deviation
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi)
    accuracy = 0.5 * ndtr((mean + offset) / deviation) + 0.5 * ndtr((mean - offset) / deviation)
    jacobian = np.array(
        [
            [1.0, 0.0],
            [0.0, 1.0],
            [density * ratio / mean, -0.5 * density * ratio / variance],
            [-1.0 / mean, 1.0 / variance],
        ]
    )
    cooled = np.log(_temperature(values, posterior, np.ones(values.size)))
    return ScaledFit(
        summary=np.array([mean, variance, float(accuracy), cooled]),
        errors=np.sqrt(np.diag(jacobian @ covariance @ jacobian.T)),
        sensitivity=np.zeros(4),
        offset=offset,
        separation=ratio,
        expected=expected,
    )


def fit_degrees(nodes: Nodes, isolated: int, snr: float, snr_factor: float) -> ScaledFit:
    """Maximise the likelihood of Binomial neighbours; isolated nodes only count in the accuracy."""
    start = two_gaussians(nodes)
    mean, variance = abs(float(start.point[0])), float(np.exp(start.point[1]))
    offset = float(start.point[2])

    def fit(ratio: float) -> tuple[Maximum, Floats]:
        first = _start(mean, variance, offset, ratio)
        likelihood = NeighbourLikelihood(nodes.values, nodes.degrees, ratio)
        maximum = _converged(maximise(likelihood, first, nodes.weights))
        evaluation = maximum.evaluation
        return maximum, _neighbour_summary(maximum.point, evaluation, nodes, isolated, ratio)

    maximum, summary = fit(snr)
    sensitivity = np.zeros(4)
    if snr_factor > 1.0:
        ends = [fit(snr / snr_factor)[1], fit(snr * snr_factor)[1]]
        sensitivity = np.max(np.abs(np.stack(ends) - summary), axis=0)
    excess = float(expit(maximum.point[1]))
    likelihood = NeighbourLikelihood(nodes.values, nodes.degrees, snr)
    jacobian = _jacobian(likelihood, maximum.point, summary, nodes, isolated, snr)
    return ScaledFit(
        summary=summary,
        errors=np.sqrt(np.diag(jacobian @ maximum.covariance @ jacobian.T)),
        sensitivity=sensitivity,
        offset=float(maximum.point[2]),
        separation=excess,
        expected=_neighbour_expected(maximum.point, nodes, snr),
    )


def _neighbour_expected(fitted: Floats, nodes: Nodes, snr: float) -> Callable[[float], Expected]:
    """Errors expected at an excess 2h - 1, for these degrees and this spread of the values."""
    degrees, counts = degree_sample(nodes.degrees, nodes.weights)
    inverse = float(np.average(1.0 / nodes.degrees, weights=nodes.weights))

    def spread(excess: float) -> float:
        return excess**2 + (1.0 - excess**2 + 1.0 / snr) * inverse

    total = float(np.exp(2.0 * fitted[0])) * spread(float(expit(fitted[1])))

    def expected(excess: float) -> Expected:
        signal = np.sqrt(total / spread(excess))
        noise = signal / np.sqrt(snr * degrees)
        point = np.array([np.log(signal), logit(excess), 0.0])
        wide = np.sqrt(signal**2 * (1.0 - excess**2) / degrees + noise**2)
        grid = grid_nodes(
            lambda values, d: NeighbourLikelihood(values, d, snr)(point),
            degrees,
            counts,
            np.minimum(reach_of(signal, noise), reach_of(signal * excess, wide)),
            noise,
        )
        point[2] = fitted[2]
        grid = grid._replace(values=grid.values + fitted[2])
        likelihood = NeighbourLikelihood(grid.values, grid.degrees, snr)
        evaluation = likelihood(point)
        covariance = np.linalg.pinv(information(evaluation, grid.weights), hermitian=True)
        summary = _neighbour_summary(point, evaluation, grid, 0, snr)
        by_log = _jacobian(likelihood, point, summary, grid, 0, snr)[3]
        return Expected(
            float(np.sqrt(by_log @ covariance @ by_log)),
            float(np.sqrt(covariance[1, 1])) * excess * (1.0 - excess),
        )

    return expected


def _start(mean: float, variance: float, offset: float, snr: float) -> Floats:
    """Coordinates of the exact likelihood with the same mean and variance of one neighbour."""
    signal = np.sqrt((variance + mean**2) / (1.0 + 1.0 / snr))
    excess = logit(np.clip(mean / signal, 0.02, 0.98))
    return np.array([np.log(signal), float(excess), offset])


def _neighbour_summary(
    point: Floats, evaluation: Evaluation, nodes: Nodes, isolated: int, snr: float
) -> Floats:
    """(mean, average variance, accuracy, log temperature) at one parameter value."""
    values, degrees, weights = nodes
    size, excess = float(np.exp(point[0])), float(expit(point[1]))
    average = float(np.average(1.0 / degrees, weights=weights))
    variance = size**2 * (1.0 - excess**2 + 1.0 / snr) * average
    posterior = evaluation.posterior
    right = np.where(values > 0.0, posterior, 1.0 - posterior)
    correct = float(np.dot(weights, right) + 0.5 * isolated) / (float(weights.sum()) + isolated)
    log_temperature = np.log(_temperature(values, posterior, weights))
    return np.array([size * excess, variance, correct, log_temperature])


def _jacobian(
    likelihood: NeighbourLikelihood,
    point: Floats,
    centre: Floats,
    nodes: Nodes,
    isolated: int,
    snr: float,
) -> Floats:
    """Differentiate the summary by the parameters, the values held fixed."""
    points = [point + step for step in np.diag(np.full(3, 1e-4))]
    return np.stack(
        [
            (_neighbour_summary(near, likelihood(near), nodes, isolated, snr) - centre) / 1e-4
            for near in points
        ],
        axis=1,
    )


def two_gaussians(nodes: Nodes) -> Maximum:
    """Fit N(offset +- mean, variance / degree), or raise if one Gaussian fits as well."""
    values, degrees, weights = nodes
    centre = float(np.average(values, weights=weights))
    total = float(np.average(degrees * (values - centre) ** 2, weights=weights))
    per_degree = float(np.average(degrees, weights=weights))

    def likelihood(parameters: Floats) -> Evaluation:
        return gaussian(values, degrees, parameters)

    # One start near the merged shape and one near two separate modes; the better result is used.
    fits = [
        maximise(
            likelihood,
            np.array([np.sqrt(share * total / per_degree), np.log((1.0 - share) * total), centre]),
            weights,
        )
        for share in (0.4, 0.85)
    ]
    best = max(fits, key=lambda fit: float(np.dot(weights, fit.evaluation.log_likelihood)))
    one = likelihood(np.array([0.0, np.log(total), centre]))
    gain = float(np.dot(weights, best.evaluation.log_likelihood - one.log_likelihood))
    # The mean enters squared and cannot be negative, so half the chi-square: one-sided 1 %.
    if not 2.0 * gain >= SIGNIFICANT**2:
        raise _no_modes(
            f"two classes raise the log likelihood by {max(gain, 0.0):.2f}", int(weights.sum())
        )
    return _converged(best)


def _converged(maximum: Maximum) -> Maximum:
    if not maximum.converged:
        raise NotIdentifiableError(
            "The fit of two classes to the logits did not converge, as happens with outliers or an "
            "snr that contradicts the logits; check both, or label some nodes of the target."
        )
    return maximum


def _temperature(values: Floats, posterior: Floats, weights: Floats) -> float:
    """NLL-optimal temperature for soft labels on the observed values."""
    scale = binary_scale(values, posterior, weights)
    if scale <= 0.0:
        raise NotIdentifiableError(
            "The fitted offset outweighs the separation of the classes, so no positive temperature "
            "fits; label some nodes of the target."
        )
    return 1.0 / scale


def _no_modes(evidence: str, size: int) -> NotIdentifiableError:
    return NotIdentifiableError(
        f"The {size} logits look like one Gaussian ({evidence}), as they do when accuracy is near "
        "chance; they do not determine a slope, so label some nodes of the target."
    )
