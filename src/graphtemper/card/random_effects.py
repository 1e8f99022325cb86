r"""Random effects over labelled environments: what the next one may be like.

An estimate made without labels misses the log-odds :math:`y_e` of the accuracy in environment e by
a gap :math:`g_e = y_e - b_e`. Gaps vary between environments around a common mean,

.. math:: g_e \sim t_4\big(\mu, \sqrt{\tau^2 + s_e^2}\big), \qquad
          \mu \sim t_4(m, s), \qquad \log\tau \sim N(\log\tau_0, r^2),

with the sampling variance :math:`s_e^2` of the accuracy counted there. The tails make one
environment with wrong labels widen the answer without moving it far; the prior, whose constants are
those of shifts between natural graphs, lets a single environment help. The gap of a new environment
has the predictive distribution of this model, by quadrature over :math:`(\mu, \tau)`.

Two estimates can be corrected: the atlas's and mean confidence. Which of them varies less between
environments differs from problem to problem, so they are mixed with the weight that minimises their
leave-one-environment-out error, plus a penalty that holds the weight near its usual value when
there are few environments (stacking; Wolpert 1992).

From nine environments on, an interval can be valid without the model. If the environments and the
new one are exchangeable, every candidate for the new accuracy is kept whose gap is not among the
largest tenth of the m + 1 (full conformal prediction; Vovk et al. 2005, with the environment as
unit as in Lee, Barber and Willett 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import DEVIATIONS

FEWEST_EXCHANGEABLE = 9
"""With fewer environments no 90 % interval over exchangeable environments is bounded."""
_TAILS = 4.0
_LEVEL = 0.90
# An environment is named if it lies this many deviations off and there are others to compare with.
_STRANGE, _FEWEST_TO_COMPARE = 4.0, 3
_MEANS, _SPREADS, _CANDIDATES = 161, 11, 161


@dataclass(frozen=True)
class Constants:
    """The prior of the random effects, in log-odds.

    Attributes
    ----------
    mean, mean_scale
        Location and scale of the mean gap: models are over-confident elsewhere.
    spread, spread_range
        Median of the spread between environments, and the deviation of its logarithm.
    atlas_weight, unmoved_weight, ridge
        The usual weight of the atlas's estimate where feature means have moved, and where they have
        not, as under the shifts that the atlas knows; and the penalty that holds it there.
    half_life
        Environments in order of time after which one counts half as much.
    """

    mean: float = -0.2
    mean_scale: float = 0.5
    spread: float = 0.4
    spread_range: float = 0.5
    atlas_weight: float = 0.15
    unmoved_weight: float = 0.85
    ridge: float = 0.6
    half_life: float = 3.0

    def at(self, moved: float) -> Constants:
        """Return the constants for a target whose feature means have moved so far, from 0 to 1.

        Examples
        --------
        >>> CONSTANTS.at(1.0).atlas_weight, CONSTANTS.at(0.0).atlas_weight
        (0.15, 0.85)
        """
        weight = moved * self.atlas_weight + (1.0 - moved) * self.unmoved_weight
        return replace(self, atlas_weight=weight)


CONSTANTS = Constants()


@dataclass(frozen=True, eq=False)
class Environments:
    """What is known of m labelled environments, as arrays.

    Attributes
    ----------
    truth, variance : (m,) arrays
        Log-odds of the accuracy, and their sampling variance.
    estimates : (m, 2) array
        Log-odds of the accuracy by mean confidence and by the atlas, made without labels.
    ages : (m,) array or None
        How many environments are later, if there is an order in time.
    """

    truth: FloatArray
    variance: FloatArray
    estimates: FloatArray
    ages: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Effects:
    """The posterior of mean and spread of the gaps, as masses on a grid.

    ``shares`` holds the logarithm of each environment's likelihood (m, means, spreads), which
    allows leaving one out.
    """

    means: FloatArray
    spreads: FloatArray
    start: FloatArray
    shares: FloatArray

    @cached_property
    def mass(self) -> FloatArray:
        """The posterior mass at every mean and spread."""
        return _normalised(self.start + self.shares.sum(axis=0))

    @property
    def mean(self) -> float:
        """The posterior mean of the mean gap."""
        return float((self.means[:, None] * self.mass).sum())

    def means_without_each(self) -> FloatArray:
        """Return the posterior mean of the mean gap without each environment, (m,)."""
        rest = self.start + self.shares.sum(axis=0) - self.shares
        return np.array([float((self.means[:, None] * _normalised(one)).sum()) for one in rest])

    def strangeness(self, gaps: FloatArray, variance: FloatArray) -> FloatArray:
        """Return how many deviations each gap lies from what the others let expect, (m,)."""
        rest = self.start + self.shares.sum(axis=0) - self.shares
        found = []
        for gap, own, one in zip(gaps, variance, rest, strict=True):
            mass = _normalised(one)
            centre = float((self.means[:, None] * mass).sum())
            square = (self.means[:, None] - centre) ** 2 + self.spreads**2 + own
            found.append(abs(gap - centre) / float(np.sqrt((mass * square).sum())))
        return np.array(found)

    def next_gap(self, variance: float) -> tuple[float, float, float]:
        """Return the 5 %, 50 % and 95 % quantiles of the gap of a new environment.

        ``variance`` is the sampling variance of the accuracy there.
        """
        scale = np.sqrt(self.spreads**2 + variance)
        centre = self.mean
        square = (self.means[:, None] - centre) ** 2 + 2.0 * scale**2
        reach = 5.0 * float(np.sqrt((self.mass * square).sum()))
        x = np.linspace(centre - reach, centre + reach, _CANDIDATES)
        below = np.array(
            [float((self.mass * _t_cdf((one - self.means[:, None]) / scale)).sum()) for one in x]
        )
        low, middle, high = np.interp((0.05, 0.5, 0.95), below, x)
        return float(low), float(middle), float(high)


def fit(
    gaps: FloatArray, variance: FloatArray, weights: FloatArray, constants: Constants = CONSTANTS
) -> Effects:
    """Return the posterior of the mean and the spread of gaps, each counted with its weight.

    Examples
    --------
    >>> one = fit(np.array([-1.0]), np.array([0.01]), np.ones(1))
    >>> many = fit(np.full(30, -1.0), np.full(30, 0.01), np.ones(30))
    >>> one.mean > many.mean, round(many.mean, 1)
    (True, -1.0)
    """
    steps = np.linspace(-2.5, 2.5, _SPREADS)
    spreads = constants.spread * np.exp(constants.spread_range * steps)
    ends = [*gaps.tolist(), constants.mean]
    margin = 4.0 * constants.mean_scale
    means = np.linspace(min(ends) - margin, max(ends) + margin, _MEANS)
    start = _log_t((means - constants.mean) / constants.mean_scale)[:, None] - 0.5 * steps**2
    scale = np.sqrt(spreads**2 + variance[:, None])[:, None, :]
    apart = gaps[:, None, None] - means[None, :, None]
    shares = weights[:, None, None] * (_log_t(apart / scale) - np.log(scale))
    return Effects(means, spreads, start, shares)


def mixing_weight(
    known: Environments, weights: FloatArray, constants: Constants = CONSTANTS
) -> float:
    """Return the weight of the atlas's estimate that has the smallest left-out error.

    Residuals count less the larger they are, so that one environment with wrong labels does not
    decide.
    """
    residuals = []
    for column in known.estimates.T:
        gaps = known.truth - column
        effects = fit(gaps, known.variance, weights, constants)
        residuals.append(gaps - effects.means_without_each())
    return _stacked(residuals[0], residuals[1], weights, constants)


def _stacked(
    confidence: FloatArray, atlas: FloatArray, weights: FloatArray, constants: Constants
) -> float:
    """Minimise the squared residuals of a mixture plus the penalty, over weights in [0, 1]."""
    difference = atlas - confidence
    usual = confidence + constants.atlas_weight * difference
    smallest = np.minimum(np.abs(confidence), np.abs(atlas))
    counted = weights / (1.0 + np.minimum(np.abs(usual), smallest) ** 2 / constants.spread**2)
    above = constants.ridge * constants.atlas_weight - (counted * confidence * difference).sum()
    below = constants.ridge + (counted * difference**2).sum()
    return float(np.clip(above / below, 0.0, 1.0))


@dataclass(frozen=True)
class Expected:
    """The log-odds of the accuracy in a new environment: median, 90 % interval, atlas's weight.

    ``exchangeable`` says that the interval is the conformal one, ``outlier`` which environment, if
    any, does not go with the others.
    """

    centre: float
    low: float
    high: float
    atlas_weight: float
    exchangeable: bool
    outlier: int | None = None

    @property
    def deviation(self) -> float:
        """The deviation of a symmetric 90 % interval that holds both ends."""
        return max(self.high - self.centre, self.centre - self.low) / DEVIATIONS


def expect(
    known: Environments,
    estimates: FloatArray,
    variance: float,
    constants: Constants = CONSTANTS,
) -> Expected:
    """Predict the accuracy in a new environment from its estimates (2,) and the known ones."""
    weights = recency(known.ages, len(known.truth), constants)
    share = mixing_weight(known, weights, constants)
    mix = np.array([1.0 - share, share])
    gaps = known.truth - known.estimates @ mix
    effects = fit(gaps, known.variance, weights, constants)
    low, middle, high = effects.next_gap(variance)
    base = float(estimates @ mix)
    exchangeable = known.ages is None and len(gaps) >= FEWEST_EXCHANGEABLE
    if exchangeable:
        # A target with fewer nodes than the environments has a larger sampling error than theirs.
        excess = max(variance - float(np.median(known.variance)), 0.0)
        ends = conformal_interval(gaps)
        half = float(np.hypot(0.5 * (ends[1] - ends[0]), DEVIATIONS * np.sqrt(excess)))
        # Nine gaps can lie together by chance, but no accuracy is known better than it is sampled.
        half = max(half, DEVIATIONS * float(np.sqrt(variance)))
        low, high = 0.5 * sum(ends) - half, 0.5 * sum(ends) + half
    strange = effects.strangeness(gaps, known.variance)
    worst = int(strange.argmax())
    outlier = worst if len(gaps) >= _FEWEST_TO_COMPARE and strange[worst] > _STRANGE else None
    return Expected(base + middle, base + low, base + high, share, exchangeable, outlier)


def recency(ages: FloatArray | None, count: int, constants: Constants = CONSTANTS) -> FloatArray:
    """Return the weight of each environment: halved with every half-life, one without an order.

    Examples
    --------
    >>> recency(np.array([3.0, 0.0]), 2, Constants(half_life=3.0)).tolist()
    [0.5, 1.0]
    """
    return np.ones(count) if ages is None else np.asarray(0.5 ** (ages / constants.half_life))


def conformal_interval(gaps: FloatArray, level: float = _LEVEL) -> tuple[float, float]:
    """Return the range of a new gap that is not among the most extreme of all.

    A gap is as extreme as it is far from the median of the others and itself. The interval holds
    the gap of an exchangeable environment with at least the stated probability.

    Examples
    --------
    >>> low, high = conformal_interval(np.linspace(-1.0, 1.0, 19))
    >>> round(low, 2), round(high, 2)
    (-1.0, 1.0)
    """
    reach = 3.0 * float(np.ptp(gaps)) + 1e-6
    x = np.linspace(gaps.min() - reach, gaps.max() + reach, 20 * _CANDIDATES)
    joined = np.concatenate([np.broadcast_to(gaps, (len(x), len(gaps))), x[:, None]], axis=1)
    far = np.abs(joined - np.median(joined, axis=1, keepdims=True))
    as_far = (far >= far[:, -1:] - 1e-12).sum(axis=1)
    kept = x[as_far > (1.0 - level) * (len(gaps) + 1) + 1e-9]  # 0.1 is not exact
    return float(kept.min()), float(kept.max())


def _log_t(x: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (_TAILS + 1.0) * np.log1p(x**2 / _TAILS))


def _t_cdf(x: FloatArray) -> FloatArray:
    """Return the distribution function of a Student t with 4 degrees of freedom."""
    square = 1.0 + 0.25 * x**2
    return np.asarray(0.5 + 0.375 * x / np.sqrt(square) * (1.0 - x**2 / (12.0 * square)))


def _normalised(log_mass: FloatArray) -> FloatArray:
    mass = np.exp(log_mass - log_mass.max())
    return np.asarray(mass / mass.sum())
