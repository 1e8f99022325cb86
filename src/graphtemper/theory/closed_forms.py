"""Every closed form of the paper, one pure function per equation.

All functions broadcast over NumPy arrays; scalars in give a float out. The model is the binary
contextual stochastic block model with balanced classes, class means +-r along one direction,
Gaussian feature noise of variance sigma^2, edge homophily h and snr = r^2 / sigma^2; the classifier
is linear along the class direction, and its scale is fixed by calibration on the source graph.
Labels in the docstrings (``thm:kappa`` and so on) are those of the paper's LaTeX source.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper.theory import domain

Floats = NDArray[np.float64]


@domain.quiet
def aggregated_moments(
    h: ArrayLike, snr: ArrayLike, degree: ArrayLike, *, sigma: ArrayLike = 1.0
) -> tuple[float | Floats, float | Floats]:
    """Mean and variance of the mean-aggregated coordinate of a node of class +1 (``lem:agg``).

    Formula: mean (2h - 1) r and variance (4 h (1-h) r^2 + sigma^2) / degree, with r = sigma
    sqrt(snr). Assumptions: neighbours' labels are independent given the node's own. Both moments
    are exact at every degree of at least 1; only the Gaussian shape is a large-degree limit.
    Limits: the mean vanishes at h = 1/2, the label part of the variance at h = 0 and h = 1.

    Examples
    --------
    >>> mean, variance = aggregated_moments(0.75, snr=4.0, degree=10.0)
    >>> round(mean, 6), round(variance, 6)
    (1.0, 0.4)
    """
    h_, snr_ = domain.homophily("h", h), domain.positive("snr", snr)
    degree_, sigma_ = domain.positive("degree", degree), domain.positive("sigma", sigma)
    domain.together(h=h_, snr=snr_, degree=degree_, sigma=sigma_)
    mean = (2.0 * h_ - 1.0) * sigma_ * np.sqrt(snr_)
    variance = sigma_**2 * _noise(h_, snr_) / degree_
    mean, variance = np.broadcast_arrays(mean, variance)
    return domain.plain(mean.copy()), domain.plain(variance.copy())


@domain.quiet
def slope(
    h_target: ArrayLike,
    h_source: ArrayLike,
    snr: ArrayLike,
    *,
    degree_ratio: ArrayLike = 1.0,
) -> float | Floats:
    """Calibration slope under homophily shift with mean aggregation (``thm:kappa``, ``eq:kappa``).

    Formula: degree_ratio (2 h_t - 1)(1 + 4 h_s (1-h_s) snr) / [(2 h_s - 1)(1 + 4 h_t (1-h_t) snr)].
    At decision value t the confidence is sigmoid(t) and the accuracy is sigmoid(slope t)
    (``fig:concept``).

    Assumptions: large degrees, the same feature distribution on both graphs, scale fixed by source
    calibration (``as:clf``). The paper calls the slope independent of degree; that holds when
    source and target have the same degree. In its own derivation the scale carries d_s and the
    target d_t, so the slope is proportional to ``degree_ratio`` = d_t / d_s. For the same reason
    irregular degrees alone make the slope vary from node to node (d_i in place of d_t), even
    without a shift.

    Limits: snr -> 0 gives (2 h_t - 1)/(2 h_s - 1) and snr -> infinity gives
    (2 h_t - 1) h_s (1-h_s) / [(2 h_s - 1) h_t (1-h_t)]. The paper states the first for
    snr -> infinity, which is a slip: with noiseless features the randomness of the neighbours'
    labels is what remains. See `slope_limit_low_snr` and `slope_limit_high_snr`.
    At h_source = 1/2 the slope is undefined (`InputError`); for |2 h_source - 1| < 0.05 an
    `IllConditionedWarning` is given.

    Examples
    --------
    >>> slope(0.8, 0.8, snr=1.0)
    1.0
    >>> round(slope(0.6, 0.8, snr=1.0), 4)
    0.2789
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    snr_, ratio = domain.positive("snr", snr), domain.positive("degree_ratio", degree_ratio)
    domain.together(h_target=target, h_source=source, snr=snr_, degree_ratio=ratio)
    domain.source_signal(2.0 * source - 1.0, "1/2")
    numerator = (2.0 * target - 1.0) * _noise(source, snr_)
    return domain.plain(ratio * numerator / ((2.0 * source - 1.0) * _noise(target, snr_)))


@domain.quiet
def slope_limit_low_snr(h_target: ArrayLike, h_source: ArrayLike) -> float | Floats:
    """Limit of `slope` as snr -> 0: feature noise dominates, only the signal ratio remains.

    Formula: (2 h_t - 1) / (2 h_s - 1). Assumptions: those of `slope`, with degree_ratio 1.
    Limits: zero at h_t = 1/2, undefined at h_s = 1/2. The paper (``rem:kappa``) prints this as the
    snr -> infinity limit.

    Examples
    --------
    >>> round(slope_limit_low_snr(0.6, 0.9), 6)
    0.25
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    domain.together(h_target=target, h_source=source)
    domain.source_signal(2.0 * source - 1.0, "1/2")
    return domain.plain((2.0 * target - 1.0) / (2.0 * source - 1.0))


@domain.quiet
def slope_limit_high_snr(h_target: ArrayLike, h_source: ArrayLike) -> float | Floats:
    """Limit of `slope` as snr -> infinity: only the neighbours' labels are random.

    Formula: (2 h_t - 1) h_s (1-h_s) / [(2 h_s - 1) h_t (1-h_t)]. Assumptions: those of `slope`,
    with degree_ratio 1. Limits: diverges as h_t -> 0 or 1, so those ends are refused. It corrects
    ``rem:kappa``.

    Examples
    --------
    >>> round(slope_limit_high_snr(0.6, 0.9), 6)
    0.09375
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    domain.together(h_target=target, h_source=source)
    domain.require(
        "h_target",
        target,
        (target > 0.0) & (target < 1.0),
        "strictly between 0 and 1 in this limit",
    )
    domain.source_signal(2.0 * source - 1.0, "1/2")
    spread = source * (1.0 - source) / (target * (1.0 - target))
    return domain.plain((2.0 * target - 1.0) / (2.0 * source - 1.0) * spread)


@domain.quiet
def slope_self_loop(
    h_target: ArrayLike, h_source: ArrayLike, snr: ArrayLike, degree: ArrayLike
) -> float | Floats:
    """Calibration slope of the symmetric-normalised operator with self-loops (``prop:sl``).

    Formula: A(h_t) B(h_s) / [A(h_s) B(h_t)], A(h) = 1 + d (2h - 1), B(h) = 4 d h (1-h) snr + d + 1.
    Assumptions: those of `slope`, and all degrees replaced by the expected degree d (``as:reg``),
    the same on both graphs; then the row-normalised operator of
    ``finite_degree_temperature(self_loop=True)`` is the same one, while with differing degrees it
    is an approximation. Limits: `slope` as degree -> infinity; 1 as degree -> 0 (features alone).
    Undefined at h_source = (1 - 1/d)/2, see `self_loop_zero_crossing`; warns when
    |2 h_source - 1 + 1/d| < 0.05.

    Examples
    --------
    >>> round(slope_self_loop(0.6, 0.8, snr=1.0, degree=20.0), 4)
    0.3234
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    snr_, degree_ = domain.positive("snr", snr), domain.positive("degree", degree)
    domain.together(h_target=target, h_source=source, snr=snr_, degree=degree_)
    domain.source_signal(2.0 * source - 1.0 + 1.0 / degree_, "(1 - 1/degree)/2")

    # A(h) and B(h) over d, so that no product overflows.
    def signal(h: Floats) -> Floats:
        return 1.0 / degree_ + (2.0 * h - 1.0)

    def spread(h: Floats) -> Floats:
        return 4.0 * h * (1.0 - h) * snr_ + 1.0 + 1.0 / degree_

    return domain.plain(signal(target) / signal(source) * (spread(source) / spread(target)))


@domain.quiet
def self_loop_zero_crossing(degree: ArrayLike) -> float | Floats:
    """Homophily at which the self-loop operator loses its signal (``prop:sl``).

    Formula: (1 - 1/d) / 2. Assumptions: those of `slope_self_loop`. Limits: 1/2 as degree grows;
    negative (the signal never vanishes) below degree 1.

    Examples
    --------
    >>> self_loop_zero_crossing(20.0)
    0.475
    """
    return domain.plain(0.5 * (1.0 - 1.0 / domain.positive("degree", degree)))


@domain.quiet
def signal_coefficient(h: ArrayLike, num_classes: ArrayLike) -> float | Floats:
    """Factor by which aggregation scales each class mean, with K classes (``prop:K``).

    Formula: c_K(h) = (h K - 1) / (K - 1). Assumptions: simplex class means that sum to zero,
    different-class neighbours uniform over the other classes. Limits: 2h - 1 for K = 2, h as K
    grows, zero at h = 1/K, 1 at h = 1.

    Examples
    --------
    >>> signal_coefficient(0.8, 2), round(signal_coefficient(0.8, 5), 6)
    (0.6000000000000001, 0.75)
    """
    h_, classes = domain.homophily("h", h), domain.class_count("num_classes", num_classes)
    domain.together(h=h_, num_classes=classes)
    return domain.plain((h_ * classes - 1.0) / (classes - 1.0))


@domain.quiet
def signal_ratio(
    h_target: ArrayLike, h_source: ArrayLike, num_classes: ArrayLike
) -> float | Floats:
    """Factor by which a homophily shift rescales the whole mean logit vector (``prop:K``).

    Formula: c_K(h_t) / c_K(h_s). Assumptions: those of `signal_coefficient`. It is the change of
    the signal only; the calibration slope also needs the change of the variance. Limits: undefined
    at h_source = 1/K; warns when |c_K(h_source)| < 0.05.

    Examples
    --------
    >>> round(signal_ratio(0.6, 0.8, 5), 6)
    0.666667
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    classes = domain.class_count("num_classes", num_classes)
    domain.together(h_target=target, h_source=source, num_classes=classes)
    target = np.asarray(signal_coefficient(target, classes))
    source = np.asarray(signal_coefficient(source, classes))
    domain.source_signal(source, "1/num_classes")
    return domain.plain(target / source)


@domain.quiet
def slope_multiclass(
    h_target: ArrayLike,
    h_source: ArrayLike,
    snr: ArrayLike,
    num_classes: ArrayLike,
    *,
    degree_ratio: ArrayLike = 1.0,
) -> float | Floats:
    """Calibration slope for K classes, from the two classes that compete (beyond ``prop:K``).

    Formula: degree_ratio c(h_t) B(h_s) / [c(h_s) B(h_t)], with c(h) = (h K - 1)/(K - 1) and
    B(h) = 1 + snr K (h + q - c(h)^2) / (2 (K - 1)), q = (1-h)/(K-1).

    Derivation: restricted to two classes y and k, the logit difference has mean proportional to
    c(h) and, because a neighbour moves it by +1, -1 or 0 with probabilities h, q and the rest, a
    variance proportional to B(h)/d; ``thm:kappa`` then applies to the pair. Assumptions: those of
    `slope`; a third class is ignored. Limits: `slope` for K = 2; `signal_ratio` as snr -> 0.
    Undefined at h_source = 1/K. At finite degree its temperature is within 15 % of the exact one
    for moderate shifts, and up to twice as large for strong ones at snr 4.

    Examples
    --------
    >>> round(slope_multiclass(0.6, 0.8, 1.0, 2), 4), round(slope_multiclass(0.6, 0.8, 1.0, 5), 4)
    (0.2789, 0.6138)
    """
    target, source = domain.homophily("h_target", h_target), domain.homophily("h_source", h_source)
    snr_, ratio = domain.positive("snr", snr), domain.positive("degree_ratio", degree_ratio)
    classes = domain.class_count("num_classes", num_classes)
    domain.together(
        h_target=target, h_source=source, snr=snr_, num_classes=classes, degree_ratio=ratio
    )

    def signal(h: Floats) -> Floats:
        return np.asarray((h * classes - 1.0) / (classes - 1.0))

    def spread(h: Floats) -> Floats:
        other = (1.0 - h) / (classes - 1.0)
        return 1.0 + 0.5 * snr_ * classes / (classes - 1.0) * (h + other - signal(h) ** 2)

    domain.source_signal(signal(source), "1/num_classes")
    return domain.plain(ratio * signal(target) / signal(source) * (spread(source) / spread(target)))


@domain.quiet
def slope_covariate(h: ArrayLike, snr: ArrayLike, gamma: ArrayLike) -> float | Floats:
    """Calibration slope when only the feature noise grows (``prop:cov``).

    Formula: (4 h (1-h) snr + 1) / (4 h (1-h) snr + 1 + gamma), where gamma = tau^2 / sigma^2 is the
    added noise variance in units of the source's. Assumptions: those of `slope`, with h and degree
    unchanged. Limits: 1 at gamma = 0, decreasing in gamma, 0 as gamma -> infinity; it never exceeds
    1, so covariate shift only ever makes a model over-confident.

    Examples
    --------
    >>> slope_covariate(1.0, snr=1.0, gamma=1.0)
    0.5
    """
    h_, snr_ = domain.homophily("h", h), domain.positive("snr", snr)
    extra = domain.non_negative("gamma", gamma)
    domain.together(h=h_, snr=snr_, gamma=extra)
    return domain.plain(_noise(h_, snr_) / (_noise(h_, snr_) + extra))


@domain.quiet
def temperature_covariate(h: ArrayLike, snr: ArrayLike, gamma: ArrayLike) -> float | Floats:
    """Optimal temperature when only the feature noise grows (``prop:cov``).

    Formula: 1 + gamma / (4 h (1-h) snr + 1). Assumptions and limits: those of `slope_covariate`,
    of which it is the reciprocal; at least 1, linear in gamma.

    Examples
    --------
    >>> temperature_covariate(1.0, snr=1.0, gamma=1.0)
    2.0
    """
    h_, snr_ = domain.homophily("h", h), domain.positive("snr", snr)
    extra = domain.non_negative("gamma", gamma)
    domain.together(h=h_, snr=snr_, gamma=extra)
    return domain.plain(1.0 + extra / _noise(h_, snr_))


@domain.quiet
def optimal_temperature(slope: ArrayLike) -> float | Floats:
    """NLL-optimal temperature of a slope (``thm:kappa``, ``cor:global``).

    Formula: 1 / slope. Assumptions: one slope for all nodes. Limits: grows without bound as the
    slope falls to 0. A slope of zero or less has no temperature and raises `InputError`: at 0 the
    predictions carry no information, below 0 they point to the wrong class.

    Examples
    --------
    >>> optimal_temperature(0.5)
    2.0
    """
    slope_ = domain.finite("slope", slope)
    if np.any(slope_ <= 0.0):
        bad = float(slope_[slope_ <= 0.0].flat[0])
        reason = (
            "the predictions carry no information"
            if bad == 0.0
            else "the predictions are anti-correlated with the classes"
        )
        raise errors.range(
            f"slope must be greater than 0 for a temperature to exist; at {bad:g} {reason}."
        )
    return domain.plain(1.0 / slope_)


def _noise(h: Floats, snr: Floats) -> Floats:
    """Variance of one neighbour's contribution in units of sigma^2: labels and features."""
    return 1.0 + 4.0 * h * (1.0 - h) * snr
