"""The label-free inverse: slope and accuracy of a binary model from its unlabelled logits alone.

Under the model the decision values delta = z_1 - z_0 of unlabelled nodes are a mixture of
N(+m, s^2) and N(-m, s^2). Both parameters, hence the slope 2 m / s^2, are determined by the shape
of that mixture: two modes, or at least a kurtosis below the Gaussian's. When the modes merge
(accuracy near chance) or hardly any node lies between them (accuracy near one) the shape no longer
determines the temperature; then `NotIdentifiableError` is raised instead of returning a number.

Without labels it is unknown which mode is which class. The model is assumed to beat chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper.errors import (
    ChoiceError,
    ConflictError,
    EmptyError,
    NotIdentifiableError,
    RangeError,
    ShapeError,
    TooFewError,
)
from graphtemper.theory import domain
from graphtemper_research.theory_extensions.label_free.binary_fits import (
    ScaledFit,
    fit_degrees,
    fit_gaussian,
    fit_moments,
)
from graphtemper_research.theory_extensions.label_free.expected_error import (
    Expected,
    Nodes,
    sharp_enough,
)

Floats = NDArray[np.float64]

__all__ = [
    "ACCURACY_RANGE",
    "LARGEST_LOG_ERROR",
    "MixtureFit",
    "fit_binary",
]

# Range of answers. Below it the excess kurtosis is smaller than 0.2 and a slight misfit of the
# model imitates it; above it fewer than 1 node in 100 is wrong and the tails decide.
ACCURACY_RANGE = (0.75, 0.99)
# Largest standard error of log T of an answer: the error that the model expects for a graph less
# separated than the fit, see `expected_error`; the fitted error alone would be biased.
LARGEST_LOG_ERROR = 0.10
_FEWEST_NODES = 50
# Above this size equal values (to 1/200 of a standard deviation) of equal degree are counted once.
_LARGEST_EXACT_SIZE = 20_000
# Spreads outside this range have no variance in double precision.
_SPREADS = (1e-140, 1e140)


@dataclass(frozen=True)
class MixtureFit:
    """Two classes fitted to unlabelled decision values.

    ``variance`` is the average over nodes of the class variance (it depends on the degree if
    degrees were passed). ``temperature`` minimises the NLL expected under the fitted posterior on
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
    snr_factor: float = 2.0,
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
        Decision values z_1 - z_0, one per node; their scale is arbitrary.
    degrees
        Degree of each node, for a mean-aggregating model; isolated nodes are excluded.
    method
        "likelihood" or, without degrees, "moments" (cruder, no iteration).
    snr
        Signal-to-noise ratio of the features, used with degrees only, for the skewness of the
        classes.
    snr_factor
        Factor by which the snr may be off, in both directions (1 if it is exact). The
        fit is repeated at snr / factor and snr x factor, and the larger change of each result is
        added (in squares) to its standard error.
    accuracy_range
        Fitted accuracies outside this range are refused.
    largest_log_error
        Fits are refused unless the standard error of the log temperature is below this by a
        margin; infinity disables that check, and answers may then be biased.

    Raises
    ------
    NotIdentifiableError
        When the excess kurtosis is not significantly negative (one-sided 1 %; with degrees the
        likelihood ratio takes its place), when the fitted accuracy is outside ``accuracy_range``,
        when the stated error of log T exceeds ``largest_log_error``, or when the separation of the
        classes does not exceed, by three of its standard errors, the one at which
        the model expects that error for this number of nodes and these degrees.

    Notes
    -----
    Assumptions: balanced classes, better than chance, nodes close to independent. Limits: the
    standard error of log T falls as 1/sqrt(N); at accuracy 0.8 it is 0.13 for N = 1500.

    Simulated from the model with degrees and the true snr (``snr_factor=1``), one draw for each
    random graph: accuracy uniform in [0.72, 0.995], log snr in [log 0.3, log 4], log of the mean
    Poisson degree in [log 6, log 50]. Error of log T of the answers:

    ===== ======= ===== ===== ===================
    N     answers  mean rms z within 10 % of true
    ===== ======= ===== ===== ===================
    1500  108/250 -0.02  1.13 92 %
    4000  163/250 -0.01  0.98 96 %
    20000   73/80 -0.00  1.03 97 %
    ===== ======= ===== ===== ===================

    No limit removes one bias: a graph so close to the limit that only a few draws pass is answered
    on its favourable draws. Of 60 draws at h = 0.65, snr 1, degree 25, N = 1500 (accuracy 0.86), 10
    were answered, with mean error -0.12 and rms z 1.7; at h = 0.72, snr 0.5, degree 16, N = 1500
    (accuracy 0.85), 4, with -0.17 and 2.4.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> delta = rng.choice([-2.0, 2.0], 5000) + 1.6 * rng.standard_normal(5000)
    >>> fit = fit_binary(delta)
    >>> bool(abs(np.log(fit.slope / (2 * 2.0 / 1.6**2))) < 3 * fit.log_temperature_error)
    True
    """
    if method not in ("likelihood", "moments"):
        raise ChoiceError(f'method must be "likelihood" or "moments"; got {method!r}.')
    if method == "moments" and degrees is not None:
        raise ConflictError(
            'degrees are used by method="likelihood" only; leave them out for "moments".'
        )
    ratio = domain.one("snr", domain.positive("snr", snr))
    factor = _snr_factor(snr_factor)
    accuracies = _accuracy_range(accuracy_range)
    limit = _limit(largest_log_error)
    values, unit = _standardised(delta)
    nodes = None if degrees is None else _linked(values, _degree_values(degrees, values.size))
    try:
        if nodes is not None:
            isolated = values.size - int(nodes.weights.sum())
            scaled = fit_degrees(nodes, isolated, ratio, factor)
        else:
            scaled = fit_moments(values) if method == "moments" else fit_gaussian(values)
        fit = _in_units(scaled, unit, values.size, method)
        _refuse_undetermined(fit, scaled, accuracies, limit)
    except (np.linalg.LinAlgError, FloatingPointError, OverflowError) as error:
        raise NotIdentifiableError(
            "The logits do not determine the temperature: the fit of two classes broke down, as "
            "happens with extreme values; look for outliers, or label some nodes of the target."
        ) from error
    return fit


def _in_units(
    scaled: ScaledFit, unit: float, size: int, method: Literal["likelihood", "moments"]
) -> MixtureFit:
    """Return to the unit of the logits, with the snr's uncertainty added to the errors."""
    mean, variance, accuracy, log_temperature = (float(x) for x in scaled.summary)
    errors = [float(x) for x in np.hypot(scaled.errors, scaled.sensitivity)]
    return MixtureFit(
        mean=unit * mean,
        variance=unit**2 * variance,
        offset=unit * scaled.offset,
        temperature=unit * float(np.exp(log_temperature)),
        accuracy=accuracy,
        mean_error=unit * errors[0],
        variance_error=unit**2 * errors[1],
        accuracy_error=errors[2],
        log_temperature_error=errors[3],
        num_nodes=size,
        method=method,
    )


def _refuse_undetermined(
    fit: MixtureFit, scaled: ScaledFit, accuracies: tuple[float, float], limit: float
) -> None:
    low, high = accuracies
    if not low <= fit.accuracy <= high:
        reason = "the classes overlap too much" if fit.accuracy < low else "errors are too rare"
        raise NotIdentifiableError(
            f"The logits do not determine the temperature: at the fitted accuracy "
            f"{fit.accuracy:.3f} (answers are limited to [{low:g}, {high:g}]) {reason}; label some "
            "nodes of the target."
        )
    by_snr = float(scaled.sensitivity[3])

    def expected(separation: float) -> Expected:
        sampling, of_separation = scaled.expected(separation)
        return Expected(float(np.hypot(sampling, by_snr)), of_separation)

    if not (
        fit.log_temperature_error <= limit and sharp_enough(expected, scaled.separation, limit)
    ):
        advice = (
            "pass the features' snr more exactly"
            if by_snr > 0.5 * limit
            else "use more nodes, pass their degrees"
        )
        raise NotIdentifiableError(
            "The logits do not determine the temperature: the standard error of its logarithm is "
            f"about {fit.log_temperature_error:.2f}, not safely below {limit:.2f}; {advice}, or "
            "label some nodes of the target."
        )


def _standardised(delta: ArrayLike) -> tuple[Floats, float]:
    """Values in units of their standard deviation, and that unit."""
    values = domain.finite("delta", delta)
    if values.ndim != 1 or values.size < _FEWEST_NODES:
        raise ShapeError(
            f"delta must be a one-dimensional array of at least {_FEWEST_NODES} decision values; "
            f"got shape {values.shape}."
        )
    largest = float(np.max(np.abs(values)))
    spread = float((values / largest).std()) if largest > 0.0 else 0.0
    if spread <= 1e-12:
        raise EmptyError("delta is constant, so it holds no information about the classes.")
    if not _SPREADS[0] <= largest * spread <= _SPREADS[1]:
        raise RangeError(
            f"delta has values of up to {largest:g}, outside what double precision can square; "
            "change its unit, or remove outliers."
        )
    return values / largest / spread, largest * spread


def _linked(values: Floats, degrees: Floats) -> Nodes:
    """Nodes with neighbours; large inputs are rounded finely and counted."""
    linked = degrees > 0
    if int(linked.sum()) < _FEWEST_NODES:
        raise TooFewError(
            f"degrees leave only {int(linked.sum())} nodes with neighbours; at least "
            f"{_FEWEST_NODES} are needed for a fit."
        )
    values, degrees = values[linked], degrees[linked]
    if values.size <= _LARGEST_EXACT_SIZE:
        return Nodes(values, degrees, np.ones(values.size))
    step = float(values.std()) / 200.0
    cells = np.stack([degrees, np.round(values / step)], axis=1)
    unique, counts = np.unique(cells, axis=0, return_counts=True)
    return Nodes(unique[:, 1] * step, unique[:, 0], counts.astype(np.float64))


def _degree_values(degrees: ArrayLike, size: int) -> Floats:
    values = domain.non_negative("degrees", degrees)
    domain.require("degrees", values, values == np.floor(values), "integers")
    if values.shape != (size,):
        raise ShapeError(
            f"degrees must have one entry per decision value ({size}); got {values.shape}."
        )
    return values


def _limit(value: float) -> float:
    if isinstance(value, float) and value == np.inf:
        return value
    return domain.one("largest_log_error", domain.positive("largest_log_error", value))


def _snr_factor(value: float) -> float:
    array = domain.finite("snr_factor", value)
    domain.require("snr_factor", array, array >= 1.0, "at least 1 (1 = exact)")
    return domain.one("snr_factor", array)


def _accuracy_range(bounds: tuple[float, float]) -> tuple[float, float]:
    pair = domain.finite("accuracy_range", bounds)
    if pair.shape != (2,) or not 0.5 <= pair[0] < pair[1] <= 1.0:
        raise RangeError(
            f"accuracy_range must be two increasing numbers in [0.5, 1]; got {bounds!r}."
        )
    return float(pair[0]), float(pair[1])
