"""The slope without the large-degree limit: Binomial neighbours, random degrees, Gaussian noise.

The closed form of the paper treats the aggregated coordinate as Gaussian and every degree as equal.
Here its exact law given the class is used instead. In units of sigma (so r = sqrt(snr)),

    g | y = +1, d, k  ~  N(r (2k - d)/d, 1/d),   k ~ Binomial(d, h),   d ~ Poisson or a histogram,

and a node without neighbours has g = 0. With ``self_loop`` the node's own features join the mean:
N(r (1 + 2k - d)/(d + 1), 1/(d + 1)). That is the row-normalised operator D^-1 (A + I). The paper's
self-loop operator (``prop:sl``, `graphtemper.theory.slope_self_loop`, ``SGC("self-loop")``) is the
symmetric one; the two agree when all degrees are equal, otherwise this is an approximation of it.
The law is tabulated once on a uniform grid; everything else is a sum over that grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper._core.numerics import binary_scale
from graphtemper.theory import domain
from graphtemper.theory.aggregated_law import Degrees, aggregated_law, mixture, read_degrees
from graphtemper.theory.calibration_gap import calibration_gap

# Below this snr the law is a Gaussian of mean zero for double precision, and its limit is used.
_TINY_SNR = 1e-10

Floats = NDArray[np.float64]


def optimal_scale(
    h: ArrayLike, snr: float, degree: ArrayLike, *, self_loop: bool = False
) -> float | Floats:
    """Scale of the aggregated coordinate that minimises the population NLL.

    Formula: argmin_a E log(1 + exp(-a g)) over the exact law of g given class +1 (strictly convex).
    Coordinates are in units of sigma. ``degree`` is the mean of Poisson degrees, or a histogram:
    an array of probabilities (or counts) of degree 0, 1, 2, ...; ``h`` may be an array.

    Assumptions: neighbours' labels independent given the node's own; zero bias. Limits: as the
    degree grows with 2h - 1 of the order of 1/sqrt(degree) it approaches
    2 d (2h-1) sqrt(snr) / (1 + 4 h (1-h) snr), the scale in the proof of ``thm:kappa`` (at a
    fixed h see `finite_degree_temperature`); without self-loops zero at h = 1/2, negative below.
    As snr -> 0 it is 2 E[g] / E[g^2], used below snr = 1e-10. With ``self_loop`` the operator is
    D^-1 (A + I), an approximation of the symmetric one when degrees differ. Degrees or snr for
    which no prediction near the boundary is left in double precision raise `InputError`.

    Examples
    --------
    >>> round(optimal_scale(0.8, 1.0, 25.0), 3)
    15.377
    """
    homophily = domain.homophily("h", h)
    ratio = domain.one("snr", domain.positive("snr", snr))
    degrees = read_degrees("degree", degree)
    return domain.plain(_scales(homophily, ratio, degrees, self_loop))


def finite_degree_temperature(
    h_target: ArrayLike,
    h_source: float,
    snr: float,
    degree: ArrayLike,
    *,
    degree_target: ArrayLike | None = None,
    self_loop: bool = False,
) -> float | Floats:
    """NLL-optimal target temperature of a source-calibrated model at finite degree.

    Formula: optimal_scale(source) / optimal_scale(target), both under the exact mixture (the limit
    ``as:deg`` is not taken, and ``rem:berry`` not needed). ``degree`` describes the source (Poisson
    mean or histogram); the target has the same unless ``degree_target`` is given. ``h_target`` may
    be an array.

    Assumptions: those of `optimal_scale`; the features keep their distribution. Limits: approaches
    ``1 / theory.slope`` as the degree grows while the accuracy stays below 1, that is with
    2h - 1 of the order of 1/sqrt(degree), which is where the Gaussian limit holds. At a fixed h the
    optimum is decided by ever rarer nodes near the decision boundary, where the central limit
    theorem says nothing. With tilt the root of t = r tanh(atanh(2h-1) - r t) and
    M = h exp(t^2/2 - r t) + (1-h) exp(t^2/2 + r t) there, the limit is tilt(h_s) / tilt(h_t) for
    equal degrees and tilt(h_s) M(h_s) / (tilt(h_t) M(h_t)) for Poisson degrees. At h 0.8 to 0.6
    and snr 1 they are 3.356 and 3.054, and the closed form, 3.585, is 7 % and 17 % above; at snr 2,
    13 % and 29 %.
    A target whose optimal scale is zero or has the other sign than the source's has no positive
    temperature and raises `InputError`; so does a source without signal. A source signal
    coefficient E[g] / r below 0.05 gives an `IllConditionedWarning`. ``self_loop`` is the
    row-normalised operator D^-1 (A + I), an approximation of the symmetric one.

    Examples
    --------
    >>> round(finite_degree_temperature(0.6, 0.8, snr=1.0, degree=25.0), 3)
    3.145
    >>> finite_degree_temperature(0.8, 0.8, snr=1.0, degree=25.0)
    1.0
    """
    target = domain.homophily("h_target", h_target)
    source_scale, coefficient, target_degree, ratio = _source(
        h_source, snr, degree, degree_target, self_loop=self_loop
    )
    scales = _scales(target, ratio, target_degree, self_loop)
    agree = scales * np.sign(source_scale) > 1e-9 * abs(source_scale)
    if not np.all(agree) and abs(coefficient) < domain.ILL_CONDITIONED_SIGNAL:
        raise errors.range(
            f"h_source = {float(h_source):g} is so close to the zero crossing (signal coefficient "
            f"{coefficient:.1g}) that h_target lies beyond it, where no positive temperature "
            "exists; use a source graph with another homophily."
        )
    domain.require(
        "h_target",
        target,
        agree,
        "on the source's side of the zero crossing, where predictions carry information and a "
        "positive temperature exists",
    )
    return domain.plain(source_scale / scales)


def finite_degree_accuracy(
    h: ArrayLike, snr: float, degree: ArrayLike, *, self_loop: bool = False
) -> float | Floats:
    """Accuracy of the sign of the aggregated coordinate under the exact mixture.

    Formula: Pr(g > 0 | y = +1), with isolated nodes counted as one half. Assumptions: those of
    `optimal_scale`, whose note on ``self_loop`` applies. Limits: Phi(m/s) of ``lem:agg`` as the
    degree grows.

    Examples
    --------
    >>> round(finite_degree_accuracy(0.8, 1.0, 25.0), 4)
    0.9869
    """
    homophily = domain.homophily("h", h)
    ratio = domain.one("snr", domain.positive("snr", snr))
    degrees = read_degrees("degree", degree)

    def accuracy(value: float) -> float:
        return aggregated_law(value, ratio, degrees, self_loop=self_loop).accuracy

    return domain.plain(_each(accuracy, homophily))


def finite_degree_ece(
    h_target: ArrayLike,
    h_source: float,
    snr: float,
    degree: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    degree_target: ArrayLike | None = None,
    self_loop: bool = False,
) -> float | Floats:
    """Compute the population ECE of a source-calibrated model on the target, after a temperature.

    Formula: E |sigmoid(|delta| / T) - Pr(correct | delta)| under the exact mixture, delta =
    optimal_scale(source) g; isolated nodes are calibrated (both sides are one half). Pass T = 1 for
    the error before recalibration and `finite_degree_temperature` for the error after.

    Assumptions: those of `finite_degree_temperature`. Limits: ``theory.population_ece`` as the
    degree grows, in the same sense. After the best single temperature a small error remains,
    because the slope differs from node to node.

    Examples
    --------
    >>> round(finite_degree_ece(0.6, 0.8, 1.0, 25.0), 4)
    0.1441
    >>> round(finite_degree_ece(0.6, 0.8, 1.0, 25.0, temperature=3.145), 3)
    0.006
    """
    target = domain.homophily("h_target", h_target)
    temperatures = domain.positive("temperature", temperature)
    domain.together(h_target=target, temperature=temperatures)
    source_scale, _, target_degree, ratio = _source(
        h_source, snr, degree, degree_target, self_loop=self_loop
    )
    target, temperatures = np.broadcast_arrays(target, temperatures)

    def ece(value: float, divisor: float) -> float:
        law = mixture(value, ratio, target_degree, self_loop=self_loop)
        return calibration_gap(law, source_scale / divisor)

    pairs = zip(target.ravel(), temperatures.ravel(), strict=True)
    result = np.array([ece(float(a), float(b)) for a, b in pairs])
    return domain.plain(result.reshape(target.shape))


def _scales(h: Floats, snr: float, degrees: Degrees, self_loop: bool) -> Floats:
    if not self_loop and not np.any(degrees.histogram[1:] > 0.0):
        raise errors.range(
            "degree describes only isolated nodes, which carry no signal; "
            "give a histogram with some degrees above 0."
        )

    def scale(value: float) -> float:
        if value == 0.5 and not self_loop:
            return 0.0
        if snr < _TINY_SNR:
            count, share = _joined(degrees, self_loop)
            signal = np.sqrt(snr) * _signal_coefficient(value, degrees, self_loop)
            return float(2.0 * signal / np.dot(share, 1.0 / count))
        law = aggregated_law(value, snr, degrees, self_loop=self_loop)
        return binary_scale(law.values, 1.0, law.weights)

    return _each(scale, h)


def _joined(degrees: Degrees, self_loop: bool) -> tuple[Floats, Floats]:
    """Numbers of nodes averaged, at least one, and their probabilities."""
    loops = int(self_loop)
    count = np.arange(float(degrees.histogram.size)) + loops
    return count[1 - loops :], degrees.histogram[1 - loops :]


def _signal_coefficient(h: float, degrees: Degrees, self_loop: bool) -> float:
    """E[g] / r given class +1; the optimal scale has its sign and vanishes with it."""
    count, share = _joined(degrees, self_loop)
    loops = int(self_loop)
    return float(np.dot(share, (loops + (count - loops) * (2.0 * h - 1.0)) / count))


def _source(
    h_source: float,
    snr: float,
    degree: ArrayLike,
    degree_target: ArrayLike | None,
    *,
    self_loop: bool,
) -> tuple[float, float, Degrees, float]:
    """Source scale, its signal coefficient, target degree histogram and checked snr."""
    source = domain.one("h_source", domain.homophily("h_source", h_source))
    ratio = domain.one("snr", domain.positive("snr", snr))
    degrees = read_degrees("degree", degree)
    target = degrees if degree_target is None else read_degrees("degree_target", degree_target)
    scale = float(_scales(np.asarray(source), ratio, degrees, self_loop))
    crossing = "the self-loop operator's zero crossing, near (1 - 1/degree)/2"
    coefficient = _signal_coefficient(source, degrees, self_loop)
    domain.source_signal(np.asarray(coefficient), crossing if self_loop else "1/2")
    return scale, coefficient, target, ratio


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    """Apply a function to every entry, keeping the shape."""
    return np.array([function(float(v)) for v in values.ravel()]).reshape(values.shape)
