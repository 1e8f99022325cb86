r"""Random effects: the accuracy in a new environment, predicted from labelled ones.

Two estimates of the log-odds of the accuracy need no labels: mean confidence, and what the second
opinion and the atlas say. Which of them varies less around the truth differs by problem, so they
are mixed with the weight that has the smallest leave-one-environment-out error. In a labelled
environment e the *gap* of the mixture to the truth is known. With :math:`x_e` what is known of the
environment without labels, gaps are described by

.. math:: \gamma_e = \mu + f(x_e) + \epsilon_e + s_e,

a mean :math:`\mu \sim N(m, c^2)`; a part f that environments share the more, the more alike they
are; a part :math:`\epsilon` of each environment's own; and the sampling error s of its accuracy. f
is a Gaussian process with the kernel :math:`\exp(-d^2 / 2r^2)`, where d is the distance of two
environments in units of the median distance (`distances`). The variance of
:math:`f + \epsilon` is that of the gaps, shrunk towards a usual one. The expectation of the gap of
a new environment is then kriging: a mean of the known gaps in which similar environments count for
more (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, chapter 2).

An environment with wrong labels must not decide. Each counts with the weight
:math:`\min(1, (\nu + 1) / (\nu + z^2))` of a Student t, where z is the residual of its gap if it is
left out, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds_variance, to_share

_TAILS = 4.0
# An environment is named if it lies this many deviations off and there are others to compare with.
_STRANGE, _FEWEST_TO_COMPARE = 4.0, 3
_ROUNDS = 4


@dataclass(frozen=True)
class Constants:
    """The prior of the random effects, in log-odds.

    Attributes
    ----------
    mean, mean_scale
        Mean and deviation of the mean gap: models are over-confident elsewhere.
    spread, spread_count
        Usual deviation between environments, and how many environments that is worth.
    reach
        Distance, in median distances, at which environments have 60 % of the similar part alike.
    own_share
        Share of the variance between environments that even similar ones do not have in common.
    weight, ridge
        Usual weight of the second estimate where features have moved, and the penalty that holds
        it there.
    """

    mean: float = -0.2
    mean_scale: float = 0.5
    spread: float = 0.6
    spread_count: float = 3.0
    reach: float = 0.7
    own_share: float = 1.0 / 3.0
    weight: float = 2.0 / 3.0
    ridge: float = 0.6


CONSTANTS = Constants()


@dataclass(frozen=True, eq=False)
class Environments:
    """What is known of m labelled environments, as arrays.

    Attributes
    ----------
    truth, variance : (m,) arrays
        Log-odds of the accuracy, and their sampling variance.
    estimates : (m, 2) array
        Log-odds of the accuracy by mean confidence, and by second opinion and atlas.
    distances : (m + 1, m + 1) array
        Squared distances between the environments and, in the last row and column, the new one.
    """

    truth: FloatArray
    variance: FloatArray
    estimates: FloatArray
    distances: FloatArray


def distances(views: Sequence[FloatArray]) -> FloatArray:
    """Return squared distances between rows, on average over views that have one row for each.

    Each view is measured in units of its own median distance.

    Examples
    --------
    >>> near = np.array([[0.0], [1.0], [10.0]])
    >>> distances([near, near]).round(2).tolist()
    [[0.0, 0.01, 1.23], [0.01, 0.0, 1.0], [1.23, 1.0, 0.0]]
    """
    total = np.zeros((len(views[0]), len(views[0])))
    for view in views:
        square = ((view[:, None, :] - view[None, :, :]) ** 2).sum(axis=2)
        usual = float(np.median(square[np.triu_indices(len(view), 1)]))
        total += square / usual if usual > 0.0 else square > 0.0
    return total / len(views)


@dataclass(frozen=True, eq=False)
class Effects:
    """Gaps of some environments, explained: the kriging weights for any other.

    Attributes
    ----------
    mean
        Mean of the mean gap before any environment.
    common, own
        Variance of the mean gap and of the similar part; variance of an environment's own part.
    weighted : (m,) array
        Inverse covariance of the gaps times their deviation from the mean.
    inverse : (m, m) array
        Inverse covariance of the gaps.
    residuals, deviations : (m,) arrays
        How far each gap is from what the others let expect, and the deviation of that.
    """

    mean: float
    common: tuple[float, float]
    own: float
    weighted: FloatArray
    inverse: FloatArray
    residuals: FloatArray
    deviations: FloatArray

    def next_gap(self, similarity: FloatArray, variance: float) -> tuple[float, float]:
        """Return the mean and the deviation of the gap of a new environment.

        ``similarity`` is its kernel with the known ones (m,), ``variance`` the sampling variance of
        the accuracy there.
        """
        shared = self.common[0] + self.common[1] * similarity
        known = float(shared @ self.inverse @ shared)
        left = max(sum(self.common) - known, 0.0) + self.own + variance
        return self.mean + float(shared @ self.weighted), float(np.sqrt(left))


def fit(
    gaps: FloatArray,
    variance: FloatArray,
    similarity: FloatArray,
    constants: Constants = CONSTANTS,
) -> Effects:
    """Explain gaps (m,) with sampling variances (m,) and a kernel (m, m) between environments.

    Examples
    --------
    >>> apart = np.eye(2)
    >>> effects = fit(np.array([-1.0, 0.5]), np.full(2, 0.01), apart)
    >>> twin, stranger = np.array([1.0, 0.0]), np.zeros(2)
    >>> effects.next_gap(twin, 0.0)[0] < effects.next_gap(stranger, 0.0)[0]
    True
    """
    c, count = constants, gaps.size
    weights = np.ones(count)
    # Gaps of similar environments vary less than those of different ones.
    similar_degrees = count - float(similarity.sum()) / count
    degrees = c.own_share * (count - 1.0) + (1.0 - c.own_share) * similar_degrees
    for _ in range(_ROUNDS):
        centre = float(weights @ gaps / weights.sum())
        squares = float(weights @ (gaps - centre) ** 2)
        counted = degrees * float(weights.mean())
        total = (c.spread_count * c.spread**2 + squares) / (c.spread_count + counted)
        own, similar = c.own_share * total, (1.0 - c.own_share) * total
        noise = variance + own
        covariance = c.mean_scale**2 + similar * similarity + np.diag(noise / weights)
        inverse = np.linalg.inv(covariance).astype(np.float64, copy=False)
        weighted = inverse @ (gaps - c.mean)
        precision = np.diag(inverse)
        residuals = weighted / precision
        # The deviation of a gap that is left out, if it were as precise as the others.
        deviations = np.sqrt(1.0 / precision + noise - noise / weights)
        if count < _FEWEST_TO_COMPARE:
            break
        strange = (residuals / deviations) ** 2
        weights = np.minimum((_TAILS + 1.0) / (_TAILS + strange), 1.0)
    common = (c.mean_scale**2, similar)
    return Effects(c.mean, common, own, weighted, inverse, residuals, deviations)


def mixing_weight(known: Environments, constants: Constants = CONSTANTS) -> float:
    """Return the weight of the second estimate that has the smallest left-out error.

    Residuals count less the larger they are, so that one environment with wrong labels does not
    decide.
    """
    similarity = np.exp(-0.5 * known.distances[:-1, :-1] / constants.reach**2)
    first, second = (
        fit(known.truth - column, known.variance, similarity, constants).residuals
        for column in known.estimates.T
    )
    difference = second - first
    usual = first + constants.weight * difference
    smallest = np.minimum(np.abs(first), np.abs(second))
    counted = 1.0 / (1.0 + np.minimum(np.abs(usual), smallest) ** 2 / constants.spread**2)
    above = constants.ridge * constants.weight - (counted * first * difference).sum()
    below = constants.ridge + (counted * difference**2).sum()
    return float(np.clip(above / below, 0.0, 1.0))


ENVIRONMENTS = "environments"
"""Method of an estimate that labelled environments set."""


def expect(
    known: Environments,
    estimates: FloatArray,
    num_nodes: int,
    constants: Constants = CONSTANTS,
    sampled: float = 0.0,
) -> tuple[Estimate, int | None]:
    """Predict the accuracy on the n nodes of a new environment from its estimates (2,).

    The second value is the known environment, if any, that does not go with the others.
    ``sampled`` is the variance of the estimates if they are those of a sample of the nodes.
    """
    share = mixing_weight(known, constants)
    mix = np.array([1.0 - share, share])
    kernel = np.exp(-0.5 * known.distances / constants.reach**2)
    effects = fit(known.truth - known.estimates @ mix, known.variance, kernel[:-1, :-1], constants)
    gap, deviation = effects.next_gap(kernel[-1, :-1], 0.0)
    centre = float(estimates @ mix) + gap
    variance = float(log_odds_variance(to_share(centre), num_nodes)) + sampled
    strange = np.abs(effects.residuals / effects.deviations)
    worst = int(strange.argmax())
    named = strange.size >= _FEWEST_TO_COMPARE and strange[worst] > _STRANGE
    deviation = float(np.hypot(deviation, np.sqrt(variance)))
    return Estimate.of_log_odds(centre, deviation, ENVIRONMENTS), worst if named else None
