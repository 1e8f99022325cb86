r"""K classes: the exact temperature at finite degree.

The symmetric block model: K balanced classes with simplex means of norm r, a neighbour of the
node's own class with probability h and of each other class with q = (1-h)/(K-1), mean aggregation.
By symmetry the linear classifier that minimises the expected loss is a multiple of the class means:
the loss is convex and invariant under permutations of the classes, whose action on the span of the
simplex is irreducible. One scale per graph is therefore all there is, and a temperature is the
quotient of two. In units of sigma the logits of a node of degree d are, up to a constant that a
softmax does not see,

    z_k = a rho K/(K-1) (n_k / d + e_k sqrt((K-1) / (K rho d))),   rho = r^2,

with multinomial counts n and independent standard normal e. Given the counts the terms of the
softmax's denominator are independent, which is what makes an exact sum over K classes possible.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import gammaln, xlogy

from graphtemper.errors import RangeError
from graphtemper.theory import domain
from graphtemper.theory.aggregated_law import Degrees, read_degrees

Floats = NDArray[np.float64]

__all__ = ["multiclass_scale", "multiclass_temperature"]

# Steps of the trapezoid rules: functions of exp(-e^x) are analytic for |Im x| < pi/2, so a step of
# 0.3 errs by exp(-33); a standard normal on a step of 0.7 by exp(-40).
_STEP, _NORMAL_STEP, _DEVIATIONS = 0.3, 0.7, 9.0
# exp(-e^x) is 1 below -40 and 0 above 4, to rounding.
_LOW, _HIGH = -40.0, 4.0
_LARGEST_DEGREE = 400
# Masses of degrees below this share of the largest do not move the loss by its rounding.
_NEGLIGIBLE = 1e-11
# Losses are computed to about 1e-12; below this one the optimum is not known to 1e-4.
_LEAST_LOSS = 1e-5
# Half widths, in log scale, of the intervals in which the optimum is searched, and their nodes.
_INTERVALS, _MOST_MOVES = (0.4, 0.04), 20
_CHEBYSHEV = np.cos(np.pi * np.arange(0.5, 5.0) / 5.0)


def multiclass_scale(
    h: ArrayLike, snr: float, degree: ArrayLike, num_classes: int
) -> float | Floats:
    """Scale of the logits <class mean, aggregated features> that minimises the population NLL.

    Formula: argmin_a E[log sum_k exp(z_k) - z_y] over the exact law above. With
    log S = integral of (exp(-e^x) - exp(-S e^x)) dx, the expectation of the second term is, for
    given x and d, the coefficient of w^d in a product of K power series, one per class, because
    multinomial counts are independent Poisson counts with a given sum. Three nested trapezoid
    rules, each exact to rounding, and one FFT replace a sum over (K-1)-dimensional space.

    ``degree`` is the mean of Poisson degrees or a histogram, as in `finite_degree_temperature`.
    Features are in units of sigma. Assumptions: the symmetric block model of this module; nodes
    without neighbours carry no information and are left out. Limits: half the scale of
    ``finite_degree.optimal_scale`` over sqrt(snr) for K = 2; zero at h = 1/K, negative below.
    Degrees above 400, and settings in which practically no prediction is wrong, raise `InputError`.

    Examples
    --------
    >>> round(multiclass_scale(0.7, 1.0, [0, 0, 0, 0, 0, 1], num_classes=4), 3)
    2.329
    """
    homophily = domain.homophily("h", h)
    ratio = domain.one("snr", domain.positive("snr", snr))
    classes = int(domain.one("num_classes", domain.class_count("num_classes", num_classes)))
    degrees = read_degrees("degree", degree)
    scales = [_scale(float(value), ratio, degrees, classes) for value in homophily.ravel()]
    return domain.plain(np.array(scales).reshape(homophily.shape))


def multiclass_temperature(
    h_target: ArrayLike,
    h_source: float,
    snr: float,
    degree: ArrayLike,
    num_classes: int,
    *,
    degree_target: ArrayLike | None = None,
) -> float | Floats:
    """NLL-optimal target temperature of a source-calibrated model with K classes, finite degree.

    Formula: multiclass_scale(source) / multiclass_scale(target). ``degree`` describes the source
    (Poisson mean or histogram) and also the target unless ``degree_target`` is given.

    Assumptions: those of `multiclass_scale`; the features keep their distribution. Limits:
    `finite_degree_temperature` for K = 2; 1 without a shift. A target on the other side of
    h = 1/K has no positive temperature and raises `InputError`; so does a source at 1/K.

    Examples
    --------
    >>> five = [0, 0, 0, 0, 0, 1]
    >>> round(multiclass_temperature(0.5, 0.8, 1.0, five, num_classes=4), 3)
    2.385
    """
    target = domain.homophily("h_target", h_target)
    source = domain.one("h_source", domain.homophily("h_source", h_source))
    classes = int(domain.one("num_classes", domain.class_count("num_classes", num_classes)))
    domain.source_signal(np.asarray((source * classes - 1.0) / (classes - 1.0)), "1/num_classes")
    domain.require(
        "h_target",
        target,
        (target - 1.0 / classes) * (source - 1.0 / classes) > 0.0,
        "on the source's side of 1/num_classes, where a positive temperature exists",
    )
    reference = multiclass_scale(source, snr, degree, classes)
    scales = multiclass_scale(
        target, snr, degree if degree_target is None else degree_target, classes
    )
    return domain.plain(np.asarray(reference / np.asarray(scales)))


def _scale(h: float, snr: float, degrees: Degrees, classes: int) -> float:
    signal = (h * classes - 1.0) / (classes - 1.0)
    if abs(signal) < 1e-12:
        return 0.0
    count, mass = _degrees(degrees)
    # The optimum of two competing Gaussian classes, see `graphtemper.theory.slope_multiclass`.
    other = (1.0 - h) / (classes - 1.0)
    spread = 1.0 + 0.5 * snr * classes / (classes - 1.0) * (h + other - signal**2)
    mean_degree = 1.0 / float(np.dot(mass, 1.0 / count))
    guess = mean_degree * signal / spread

    def loss(log_ratio: float) -> float:
        scale = guess * np.exp(log_ratio)
        return float(np.dot(mass, [_loss(scale, h, snr, int(degree), classes) for degree in count]))

    # The minimum of a polynomial through five points, in ever narrower intervals.
    centre = 0.0
    for width in _INTERVALS:
        for _ in range(_MOST_MOVES):
            nodes = centre + width * _CHEBYSHEV
            fitted = Polynomial.fit(nodes, [loss(node) for node in nodes], 4)
            dense = np.linspace(centre - width, centre + width, 2001)
            best = float(dense[np.argmin(fitted(dense))])
            moved, centre = abs(best - centre) > 0.95 * width, best
            if not moved:
                break
    if loss(centre) < _LEAST_LOSS:
        raise RangeError(
            "degree or snr is so large that practically no prediction is wrong; use a smaller "
            "one, or theory.slope_multiclass, the closed form."
        )
    derivative = fitted.deriv()
    return float(guess * np.exp(brentq(derivative, centre - 0.1 * width, centre + 0.1 * width)))


def _degrees(degrees: Degrees) -> tuple[Floats, Floats]:
    """Degrees of at least 1 that matter, and their probabilities given that they are."""
    histogram = degrees.histogram.copy()
    histogram[0] = 0.0
    if not np.any(histogram > 0.0):
        raise RangeError(
            "degree describes only isolated nodes, which carry no signal; "
            "give a histogram with some degrees above 0."
        )
    count = np.flatnonzero(histogram > _NEGLIGIBLE * histogram.max())
    if count[-1] > _LARGEST_DEGREE:
        raise RangeError(
            f"degree must not exceed {_LARGEST_DEGREE} for an exact sum over K classes; got "
            f"{count[-1]}; use theory.slope_multiclass, the closed form for large degrees."
        )
    mass = histogram[count]
    return count.astype(np.float64), mass / mass.sum()


def _loss(scale: float, h: float, snr: float, degree: int, classes: int) -> float:
    """Return the expected NLL of nodes with one degree."""
    gain = snr * classes / (classes - 1.0)
    shift, width = scale * gain / degree, abs(scale) * np.sqrt(gain / degree)
    # Range of log S, and of the x over which exp(-e^x) - E exp(-S e^x) is not zero.
    reach = _DEVIATIONS * width
    lowest, highest = min(0.0, degree * shift) - reach, max(0.0, degree * shift) + reach
    first = min(_LOW, _LOW - highest - np.log(classes))
    last = max(_HIGH, _HIGH - lowest)
    # One grid serves x, the shift by a neighbour and the noise: its step divides the shift.
    per_neighbour = int(np.ceil(abs(shift) / min(_STEP, _NORMAL_STEP * width)))
    fine = abs(shift) / per_neighbour
    stride = max(1, int(_STEP / fine))
    points = int(np.ceil((last - first) / (stride * fine))) + 1
    neighbours = np.arange(degree + 1) if shift > 0.0 else np.arange(degree, -1, -1)
    place = np.add.outer(stride * np.arange(points), per_neighbour * neighbours)
    start = first if shift > 0.0 else first - degree * per_neighbour * fine
    table = _survival(start, fine, int(place.max()) + 1, width)
    survival = _all_classes(table[place], h, degree, classes)
    x = np.minimum(first + stride * fine * np.arange(points), 100.0)
    log_sum = stride * fine * float(np.sum(np.exp(-np.exp(x)) - survival))
    return log_sum - scale * gain * h


def _survival(start: float, step: float, size: int, width: float) -> Floats:
    """Return E exp(-exp(x + width e)) on a grid, e standard normal."""
    stride = max(1, int(min(_STEP, _NORMAL_STEP * width) / step))
    half = int(np.ceil(_DEVIATIONS * width / (stride * step)))
    weights = np.exp(-0.5 * (stride * step * np.arange(-half, half + 1) / width) ** 2)
    grid = start + step * np.arange(-half * stride, size + half * stride)
    # exp(-e^x) is zero from far below the overflow of e^x.
    values = np.exp(-np.exp(np.minimum(grid, 100.0)))
    windows = sliding_window_view(values, 2 * half * stride + 1)
    return np.asarray(windows[:, ::stride] @ (weights / weights.sum()))


def _all_classes(one_class: Floats, h: float, degree: int, classes: int) -> Floats:
    """Return the mean over multinomial counts of the product of (x, n) tables over the classes."""
    count = np.arange(degree + 1.0)

    def poisson(mean: float) -> Floats:
        return np.asarray(np.exp(xlogy(count, mean) - mean - gammaln(count + 1.0)))

    # Counts at a distance of ``size`` from d would be mistaken for d; they have no mass.
    size = next_fast_len(max(degree + 1, int(9.0 * np.sqrt(degree)) + 20), real=True)
    own = rfft(one_class * poisson(degree * h), size, axis=1)
    other = rfft(one_class * poisson(degree * (1.0 - h) / (classes - 1.0)), size, axis=1)
    product = irfft(own * other ** (classes - 1), size, axis=1)
    total = np.exp(xlogy(degree, degree) - degree - gammaln(degree + 1.0))
    return np.asarray(product[:, degree % size] / total)
